//go:build e2e

// Package attacks_test attacks the gates. Each spec is an attacker who has every permission in its own namespace or workspace, as a
// tenant has, and no permission elsewhere. There is one file for each guarantee of SECURITY.md.
//
// There are two worlds. The first spec that needs one starts it, and it stops with the suite, so that a focused run only starts what
// it needs:
//
//	w := kube(ctx)                            // a kube-apiserver, a CloudSigma, warrantgate with all gates
//	attacker := w.editor(ctx, w.namespace(ctx)) // a user with every verb on everything in that namespace
//	victim := w.user("…@example.com")         // a user of CloudSigma that warrantgate may act as
//	server := w.server(victim, "worker-1")    // a server of that user
//	w.permit(ctx, attacker.name, victim.Email) // attacker may impersonate the user
//
//	w := kcp(ctx)                             // a kcp, the workspace root:provider with its APIExport, a CloudSigma, all gates
//	attacker := w.owner(ctx, "mallory")       // a user who created a workspace, is cluster-admin in it and has bound the APIExport
//	attacker.as(username, extra)              // a user that the attacker impersonates in its workspace
//
// A spec creates its own namespaces and workspaces with unique names. The users and servers of a world are in one cloud: use
// different names in each spec. Read the Events of an attack as w.admin. configure restarts warrantgate with another configuration for a
// spec.
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

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
)

const (
	// startTimeout limits a spec that can be the first to start a world.
	startTimeout = 5 * time.Minute
	// region is the region of servers and clusters.
	region = "next"
	// serviceAccount is warrantgate's service account in the cloud.
	serviceAccount = "kube-dc-partner"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	clusterAPI     = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta1"}
	machineKind    = infrastructure.WithKind("CloudSigmaMachine")
	clusterKind    = infrastructure.WithKind("CloudSigmaCluster")
)

func TestAttacks(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "attacks", 2*time.Minute, 50*time.Millisecond)
}

// The worlds that have started.
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

// tenant is a user who is an administrator of one namespace or workspace and has no permission elsewhere.
type tenant struct {
	// name is the username.
	name string
	// config and client act as the user in its own namespace or workspace.
	config *rest.Config
	client client.Client
	// namespace is the namespace of its objects, recorder records the denials and warnings of client.
	namespace string
	recorder  *kubetest.Recorder
}

// newMachine returns a CloudSigmaMachine of a cluster, or of none if cluster is empty.
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
	object := suite.NewObject(kind, namespace, name)
	if spec != nil {
		object.Object["spec"] = spec
	}
	return object
}
