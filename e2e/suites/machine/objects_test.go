//go:build e2e

package machine_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
)

// clusterName is the cluster of most stories.
const clusterName = "pool"

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	machineKind    = infrastructure.WithKind("CloudSigmaMachine")
	clusterKind    = infrastructure.WithKind("CloudSigmaCluster")

	newObject, with = suite.NewObject, suite.With
)

// newMachine returns a machine of a cluster, or of none if cluster is empty.
func newMachine(namespace, name, cluster string, modify ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	machine := newObject(machineKind, namespace, name)
	if cluster != "" {
		machine.SetLabels(inCluster(cluster))
	}
	for _, change := range modify {
		change(machine)
	}
	return machine
}

func newCluster(namespace, name, email string) *unstructured.Unstructured {
	return newObject(clusterKind, namespace, name, with("spec.region", region), with("spec.userEmail", email))
}

// providerID sets the provider ID of the server with that UUID.
func providerID(uuid string) func(*unstructured.Unstructured) {
	return with("spec.providerID", "cloudsigma://"+uuid)
}

// createMachine creates a machine of the story's cluster that names no server.
func (s story) createMachine(ctx context.Context, name string) *unstructured.Unstructured {
	GinkgoHelper()
	machine := newMachine(s.namespace, name, clusterName)
	Expect(s.client.Create(ctx, machine)).To(Succeed())
	return machine
}

// leaveMachine creates a machine with an instance ID as a user whose writes no gate evaluates.
func (w *world) leaveMachine(ctx context.Context, namespace, name, uuid string) *unstructured.Unstructured {
	GinkgoHelper()
	machine := newMachine(namespace, name, clusterName)
	Expect(w.client.Create(ctx, machine)).To(Succeed())
	if uuid != "" {
		with("status.instanceID", uuid)(machine)
		Expect(w.client.Status().Update(ctx, machine)).To(Succeed())
	}
	return machine
}

// inCluster are the labels of a machine of that cluster.
func inCluster(name string) map[string]string {
	return map[string]string{"cluster.x-k8s.io/cluster-name": name}
}

// moveMachine gives a machine other labels.
func (s story) moveMachine(ctx context.Context, machine *unstructured.Unstructured, labels map[string]string) {
	GinkgoHelper()
	machine.SetLabels(labels)
	Expect(s.client.Update(ctx, machine)).To(Succeed())
}

// setInstanceID writes status.instanceID as a provider's controller does.
func (w *world) setInstanceID(ctx context.Context, machine *unstructured.Unstructured, uuid string) error {
	patch := client.MergeFrom(machine.DeepCopy())
	changed := machine.DeepCopy()
	with("status.instanceID", uuid)(changed)
	return w.client.Status().Patch(ctx, changed, patch)
}

// instanceID is the value in the stored object.
func (w *world) instanceID(ctx context.Context, machine *unstructured.Unstructured) string {
	GinkgoHelper()
	current := newObject(machine.GroupVersionKind(), machine.GetNamespace(), machine.GetName())
	Expect(w.client.Get(ctx, client.ObjectKeyFromObject(machine), current)).To(Succeed())
	id, _, err := unstructured.NestedString(current.Object, "status", "instanceID")
	Expect(err).NotTo(HaveOccurred())
	return id
}

// warned is the client of the administrator, and records its warnings.
func (w *world) warned() (client.Client, *kubetest.Recorder) {
	recorder := &kubetest.Recorder{}
	return w.listening(recorder.Listen(w.api.Config())), recorder
}
