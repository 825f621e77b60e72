//go:build e2e

// Package attacks_test attacks the gates: each spec is an attacker who has every permission that a tenant of these platforms has
// in its own place, and none elsewhere. One file for each guarantee of SECURITY.md.
//
// There are two worlds. Each is started by the first spec that asks for it, and ends with the suite, so that a focused run starts
// only what it needs:
//
//	w := kube(ctx)                            // a kube-apiserver, a CloudSigma, warrantgate with all gates
//	attacker := w.editor(ctx, w.namespace(ctx)) // a person with every verb on everything in that namespace
//	victim := w.user("…@example.com")         // a user of CloudSigma whom warrantgate may act as
//	server := w.server(victim, "worker-1")    // a server of that user
//	w.permit(ctx, attacker.name, victim.Email) // attacker may impersonate the user
//
//	w := kcp(ctx)                             // a kcp, the workspace root:provider with its APIExport, a CloudSigma, all gates
//	attacker := w.owner(ctx, "mallory")       // a person who made a workspace, is cluster-admin in it and has bound the APIExport
//	attacker.as(username, extra)              // whom the attacker impersonates in its workspace
//
// A spec makes its own namespaces and workspaces (their names are made unique), so that specs do not meet. Users and servers are
// those of one cloud for each world: use names of your own for them. Events of an attack are read as w.admin.
// newKube starts a world of its own, for specs that need another configuration.
package attacks_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

const (
	// startTimeout bounds a spec that may be the first to need a world.
	startTimeout = 5 * time.Minute
	// region is where servers and clusters are.
	region = "next"
	// serviceAccount is whom warrantgate asks the cloud as.
	serviceAccount = "kube-dc-partner"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	clusterAPI     = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta1"}
	machineKind    = infrastructure.WithKind("CloudSigmaMachine")
	clusterKind    = infrastructure.WithKind("CloudSigmaCluster")
)

func TestAttacks(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "attacks")
}

// The worlds that have been started.
var (
	sharedKube *kubeWorld
	sharedKCP  *kcpWorld
)

var _ = AfterSuite(func() {
	if sharedKube != nil {
		sharedKube.stop()
	}
	if sharedKCP != nil {
		sharedKCP.stop()
	}
})

// tenant is a person who is an administrator of one namespace or workspace and nothing elsewhere.
type tenant struct {
	// name is the username.
	name string
	// config and client act as the person in its own place.
	config *rest.Config
	client client.Client
	// namespace is where its objects belong, heard is what client has been told.
	namespace string
	heard     *kubetest.Heard
}

// newMachine returns a CloudSigmaMachine of a cluster; of none if cluster is empty.
func newMachine(namespace, name, cluster string, spec map[string]any) *unstructured.Unstructured {
	machine := newObject(machineKind, namespace, name, spec)
	if cluster != "" {
		machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": cluster})
	}
	return machine
}

// newCluster returns a CloudSigmaCluster that acts as a user.
func newCluster(namespace, name, email string) *unstructured.Unstructured {
	return newObject(clusterKind, namespace, name, map[string]any{"region": region, "userEmail": email})
}

func newObject(kind schema.GroupVersionKind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != nil {
		object.Object["spec"] = spec
	}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// startCloud starts a cloud whose service account may act for the users that addUser adds.
func startCloud(ctx SpecContext) (*cloudsigmatest.Cloud, cloudsigmatest.Client) {
	GinkgoHelper()
	cloud, err := cloudsigmatest.Start(ctx, cloudsigmatest.Options{})
	Expect(err).NotTo(HaveOccurred())
	account := cloud.AddClient(serviceAccount)
	return cloud, account
}

func addUser(cloud *cloudsigmatest.Cloud, email string) cloudsigmatest.User {
	GinkgoHelper()
	user := cloud.AddUser(email)
	Expect(cloud.AllowImpersonation(serviceAccount, email)).To(Succeed())
	return user
}

func binary(name string) string {
	GinkgoHelper()
	path, err := asset.Path(name)
	Expect(err).NotTo(HaveOccurred())
	return path
}
