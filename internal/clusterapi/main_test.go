package clusterapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	corefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// ownID and otherID are the IDs of two servers with the same name.
	ownID     = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
	otherID   = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"
	namespace = "team-a"
)

// cloudSigmaMachines is the kind that is built in, metalMachines another of the same cloud whose ID is in spec,
// openStackMachines the one of OpenStack, and otherMachines one of another cloud.
var (
	cloudSigmaMachines = newKind("CloudSigmaMachine", "cloudsigmamachines", "status.instanceID", "cloudsigma")
	metalMachines      = newKind("MetalMachine", "metalmachines", "spec.instanceID", "cloudsigma")
	openStackMachines  = bringing("spec.identityRef", newKind("OpenStackMachine", "openstackmachines", "status.instanceID", "openstack"))
	otherMachines      = newKind("OtherMachine", "othermachines", "status.instanceID", "other")
	awsMachines        = newExternalKind("AWSMachine", "awsmachines")
	awsPools           = newExternalKind("AWSPoolMachine", "awspoolmachines")
)

// newExternalKind returns a kind whose cloud is not asked.
func newExternalKind(kind, resource string) clusterapi.Kind {
	external := newKind(kind, resource, "", "external-aws")
	external.ParseProviderID, _ = ownership.ExternalIDs("")
	return external
}

func newKind(kind, resource, instanceIDPath string, provider v1beta1.Provider) clusterapi.Kind {
	return clusterapi.Kind{
		MachineKind: v1beta1.MachineKind{
			Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: kind, Resource: resource,
			InstanceIDPath: instanceIDPath, ProviderIDPath: "spec.providerID", Provider: provider,
		},
		ParseInstanceID: parseID,
		ParseProviderID: func(value string) (string, error) { return parseID(strings.TrimPrefix(value, "cloudsigma://")) },
	}
}

// bringing returns the kind with a path for the machine's own identity.
func bringing(identityRefPath string, kind clusterapi.Kind) clusterapi.Kind {
	kind.IdentityRefPath = identityRefPath
	return kind
}

// metalCluster is the Cluster of most machines.
var metalCluster = clusterNamed("metal")

func clusterNamed(name string) clusterapi.Cluster {
	return clusterapi.Cluster{Provider: "cloudsigma", Namespace: namespace, Name: name}
}

func parseID(value string) (string, error) {
	id, err := uuid.Parse(strings.TrimSpace(value))
	if err != nil {
		return "", fmt.Errorf("%q is no instance ID", value)
	}
	return id.String(), nil
}

// with sets a field of an object. nil sets null.
func with(path string, value any) func(map[string]any) {
	return func(object map[string]any) {
		fields := strings.Split(path, ".")
		for _, field := range fields[:len(fields)-1] {
			below, ok := object[field].(map[string]any)
			if !ok {
				below = map[string]any{}
				object[field] = below
			}
			object = below
		}
		object[fields[len(fields)-1]] = value
	}
}

// inNamespace sets the namespace of an object.
func inNamespace(namespace string) func(map[string]any) { return with("metadata.namespace", namespace) }

// machine returns a machine of a kind, changed by modify.
func machine(kind clusterapi.Kind, name string, modify ...func(map[string]any)) *unstructured.Unstructured {
	return object(kind.Kind, name, append([]func(map[string]any){
		func(object map[string]any) {
			with("metadata.labels", map[string]any{"cluster.x-k8s.io/cluster-name": "metal"})(object)
		},
	}, modify...)...)
}

// cluster returns the CloudSigmaCluster "metal", changed by modify.
func cluster(modify ...func(map[string]any)) *unstructured.Unstructured {
	return object("CloudSigmaCluster", "metal", append([]func(map[string]any){with("spec.region", "next")}, modify...)...)
}

func object(kind, name string, modify ...func(map[string]any)) *unstructured.Unstructured {
	content := map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": "uid-" + name},
	}
	for _, m := range modify {
		m(content)
	}
	return &unstructured.Unstructured{Object: content}
}

// fakeServer is an API server with fake clients and a few objects.
type fakeServer struct {
	machines *dynamicfake.FakeDynamicClient
	core     *corefake.Clientset
	objects  *clusterapi.Objects
	// served are the served versions of resources that differ from v1beta1.
	served map[string][]string
	// discoveryErr is the error of discovery, until recovered is true.
	discoveryErr error
	recovered    atomic.Bool
}

func (s *fakeServer) versions(_ context.Context, resource schema.GroupResource) ([]string, error) {
	versions, found := s.served[resource.Resource]
	if !found {
		versions = []string{"v1beta1"}
	}
	if s.recovered.Load() {
		return versions, nil
	}
	return versions, s.discoveryErr
}

// newServer returns a server with the objects (Secrets included), and the Objects that watch it.
func newServer(t *testing.T, sharedAccount bool, objects ...runtime.Object) *fakeServer {
	t.Helper()
	return newServerWith(t, clusterapi.Options{SharedAccount: sharedAccount, DefaultRegion: "zrh", Regions: []string{"next", "zrh"}}, objects...)
}

// newServerWith is newServer with other options than the kinds.
func newServerWith(t *testing.T, options clusterapi.Options, objects ...runtime.Object) *fakeServer {
	t.Helper()
	kinds := []clusterapi.Kind{cloudSigmaMachines, metalMachines, openStackMachines, otherMachines, awsMachines, awsPools}
	lists := map[schema.GroupVersionResource]string{
		clusterapi.OwnerMachines.WithVersion("v1beta1"): "MachineList", clusterapi.OwnerMachines.WithVersion("v1beta2"): "MachineList",
		clusterapi.CoreClusters.WithVersion("v1beta1"): "ClusterList", clusterapi.CoreClusters.WithVersion("v1beta2"): "ClusterList",
		clusterapi.CloudSigmaClusters: "CloudSigmaClusterList", clusterapi.OpenStackClusters: "OpenStackClusterList",
	}
	for _, kind := range kinds {
		lists[kind.Resource()] = kind.Kind + "List"
	}
	var secrets, others []runtime.Object
	for _, object := range objects {
		if _, ok := object.(*corev1.Secret); ok {
			secrets = append(secrets, object)
		} else {
			others = append(others, object)
		}
	}
	server := &fakeServer{
		machines: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, others...),
		core:     corefake.NewClientset(secrets...),
		served:   map[string][]string{},
	}
	server.machines.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) { // as the real client
		get, ok := action.(clienttesting.GetAction)
		return ok && get.GetName() == "", nil, errors.New("name is required")
	})
	var err error
	options.Kinds = kinds
	server.objects, err = clusterapi.NewObjectsOf(server.machines, server.versions, server.core.CoreV1(), options)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// start watches in a bubble of testing/synctest until the returned function is called. It returns when all objects are seen.
func (s *fakeServer) start(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- s.objects.Start(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start() = %v", err)
		}
	}
}
