package capcstest_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"warrantgate.dev/e2e/fakes/capcstest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	region    = "next"
	namespace = "tenant"
	email     = "alice@example.com"
	uid       = "6c1b9f0e-0000-4000-8000-000000000001"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	key            = client.ObjectKey{Namespace: namespace, Name: "worker"}
)

// world is a cluster with one machine, whose provider acts as alice, and a cloud whose lists have pages of two servers.
type world struct {
	*cloudsigmatest.Cloud
	client.Client
	t          *testing.T
	alice, bob cloudsigmatest.User
	options    capcstest.Options
	// lose makes the next writes of status fail, as a conflict does.
	lose int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cloud, err := cloudsigmatest.Start(t.Context(), cloudsigmatest.Options{PageSize: 2})
	if err != nil {
		t.Fatalf("Start() error = %v", err)
	}
	t.Cleanup(func() {
		if err := cloud.Stop(); err != nil {
			t.Errorf("Stop() error = %v", err)
		}
	})
	account := cloud.AddClient("partner")
	w := &world{t: t, Cloud: cloud, alice: cloud.AddUser(email), bob: cloud.AddUser("bob@example.com")}
	w.options = capcstest.Options{Cloud: cloud, Account: account, Shorten: 1}
	if err := cloud.AllowImpersonation(account.ID, email); err != nil {
		t.Fatalf("AllowImpersonation() error = %v", err)
	}
	w.Client = fake.NewClientBuilder().
		WithStatusSubresource(newObject("CloudSigmaMachine", nil)).
		WithObjects(
			newObject("CloudSigmaMachine", func(machine *unstructured.Unstructured) {
				machine.SetName(key.Name)
				machine.SetUID(uid)
				_ = unstructured.SetNestedSlice(machine.Object, []any{map[string]any{
					"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "owner", "uid": "1",
				}}, "metadata", "ownerReferences")
			}),
			newObject("CloudSigmaCluster", func(cluster *unstructured.Unstructured) {
				cluster.SetName("pool")
				cluster.Object["spec"] = map[string]any{"region": region, "userEmail": email}
			}),
			newObject("Machine", func(owner *unstructured.Unstructured) {
				owner.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"})
				owner.SetName("owner")
				owner.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "pool"})
			}),
		).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: w.updateStatus}).
		Build()
	return w
}

func newObject(kind string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(infrastructure.WithKind(kind))
	object.SetNamespace(namespace)
	if change != nil {
		change(object)
	}
	return object
}

func (w *world) updateStatus(
	ctx context.Context, c client.Client, resource string, object client.Object, options ...client.SubResourceUpdateOption,
) error {
	if w.lose > 0 {
		w.lose--
		return errLost
	}
	return c.SubResource(resource).Update(ctx, object, options...)
}

// change changes an object.
func (w *world) change(kind, name string, change func(*unstructured.Unstructured)) {
	w.t.Helper()
	object := newObject(kind, nil)
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		w.t.Fatal(err)
	}
	change(object)
	if err := w.Update(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
	if kind == "CloudSigmaMachine" {
		change(object)
		if err := w.Status().Update(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// names makes the machine name a server in both fields, as it does when the provider is done.
func (w *world) names(id string) {
	w.t.Helper()
	w.change("CloudSigmaMachine", key.Name, func(machine *unstructured.Unstructured) {
		machine.SetFinalizers([]string{capcstest.Finalizer})
		machine.Object["spec"] = map[string]any{"providerID": "cloudsigma://" + id}
		machine.Object["status"] = map[string]any{"instanceID": id}
	})
}

// reconcile reconciles the machine once.
func (w *world) reconcile(p *capcstest.Provider) (reconcile.Result, error) {
	return p.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
}

// servers are the UUIDs of a user's servers, oldest first.
func (w *world) servers(user cloudsigmatest.User) []string {
	var ids []string
	for _, server := range w.Servers() {
		if server.Owner.UUID == user.UUID {
			ids = append(ids, server.UUID)
		}
	}
	return ids
}
