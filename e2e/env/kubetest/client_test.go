//go:build e2e

package kubetest_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
)

// changesAreCached compares, with a client that does not wait, the content of the watch cache after each change by a client that
// waits.
func changesAreCached(t *testing.T, s *kubetest.Server) {
	t.Helper()
	direct, err := client.New(s.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	machine := newMachine("v1beta1", "changing")
	changes := map[string]func() error{
		"Update": func() error { return s.Client().Update(t.Context(), machine) },
		"Patch":  func() error { return s.Client().Patch(t.Context(), machine, label(machine, "patched")) },
		"Status().Patch": func() error {
			return s.Client().Status().Patch(t.Context(), machine, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"ready":true}}`)))
		},
	}
	if err := s.Client().Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		for name, change := range changes {
			machine.SetLabels(map[string]string{"changed": "by-" + machine.GetResourceVersion()})
			if err := change(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			cached := &unstructured.Unstructured{}
			cached.SetGroupVersionKind(machine.GroupVersionKind())
			err := direct.Get(t.Context(), client.ObjectKeyFromObject(machine), cached, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}})
			if err != nil {
				t.Fatal(err)
			}
			if cached.GetResourceVersion() != machine.GetResourceVersion() {
				t.Fatalf("after %s the cache has version %s, want %s", name, cached.GetResourceVersion(), machine.GetResourceVersion())
			}
		}
	}
	if err := s.Client().Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
}

// label is a patch that sets a label of a machine to its version.
func label(machine *unstructured.Unstructured, key string) client.Patch {
	return client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"`+key+`":"at-`+machine.GetResourceVersion()+`"}}}`))
}
