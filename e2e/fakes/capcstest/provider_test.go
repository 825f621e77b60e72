package capcstest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// stale is the UUID of the server that a machine names at first.
const stale = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"

// TestOrderOfWrites compares with the section "How the real provider behaves" of the project's notes on CloudSigma.
func TestOrderOfWrites(t *testing.T) {
	ofAlice := func(name string, options ...cloudsigmatest.ServerOption) func(w *world) {
		return func(w *world) { w.AddServer(region, w.alice, name, options...) }
	}
	ofBob := func(w *world) { w.AddServer(region, w.bob, key.Name, cloudsigmatest.WithUUID(stale)) }
	namesStale := func(w *world) { w.names(stale, stale) }
	loses := func(w *world) { w.lose = 1 }
	const brief, short, long = 5 * time.Second, 10 * time.Second, time.Minute
	tests := map[string]struct {
		given []func(w *world)
		// want are the writes: what is written, and the servers that status.instanceID and spec.providerID name then. "own" is the server that
		// the user has in the end.
		want []string
		// wantAgain is the time after each reconcile until the next one, and wantServers how many servers the user has then: one if it is nil.
		wantAgain   []time.Duration
		wantServers []int
	}{
		"new machine": {
			want:      []string{"object - -", "status own -", "object own own"},
			wantAgain: []time.Duration{short},
		},
		"new machine, with a server of its name": {
			given:     []func(w *world){ofAlice(key.Name)},
			want:      []string{"object - -", "status own -", "object own own", "status own own"},
			wantAgain: []time.Duration{long},
		},
		"nothing to do": {
			given:     []func(w *world){ofAlice(key.Name, cloudsigmatest.WithUUID(stale)), namesStale},
			want:      []string{"status own own"},
			wantAgain: []time.Duration{long},
		},
		"404, without another server": {
			given:     []func(w *world){namesStale},
			want:      []string{"status - stale", "status own stale", "object own own"},
			wantAgain: []time.Duration{short},
		},
		"404, with a server of its UID": {
			given:     []func(w *world){namesStale, ofAlice("other", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, uid))},
			want:      []string{"status - stale", "status own stale", "object own own", "status own own"},
			wantAgain: []time.Duration{long},
		},
		"403, with a server of its name": {
			given:     []func(w *world){ofBob, namesStale, ofAlice(key.Name)},
			want:      []string{"status own stale", "object own own", "status own own"},
			wantAgain: []time.Duration{long},
		},
		"403, without a server: cleared, and created later": {
			given:       []func(w *world){ofBob, namesStale},
			want:        []string{"status - stale", "status own stale", "object own own"},
			wantAgain:   []time.Duration{brief, short},
			wantServers: []int{0, 1},
		},
		"the first status write of a new server is lost: it is found again on the first page": {
			given:     []func(w *world){loses},
			want:      []string{"object - -", "status own - lost", "status own -", "object own own", "status own own"},
			wantAgain: []time.Duration{short, long},
		},
		"the status write of an adopted server is lost": {
			given:     []func(w *world){ofAlice(key.Name), loses},
			want:      []string{"object - -", "status own - lost"},
			wantAgain: []time.Duration{brief},
		},
		"clearing is lost: the provider continues": {
			given:     []func(w *world){namesStale, loses},
			want:      []string{"status - stale lost", "status own stale", "object own own"},
			wantAgain: []time.Duration{short},
		},
		"providerID is corrected, never instanceID": {
			given:     []func(w *world){func(w *world) { w.names(w.AddServer(region, w.alice, key.Name).UUID, stale) }},
			want:      []string{"object own own", "status own own"},
			wantAgain: []time.Duration{long},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, given := range test.given {
				given(w)
			}
			p := capcstest.New(w.Client, w.options)
			var servers []string
			for i, want := range test.wantAgain {
				result, err := p.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
				if err != nil || result.RequeueAfter != want {
					t.Fatalf("Reconcile() = again after %s, %v; want %s", result.RequeueAfter, err, want)
				}
				wantServers := 1
				if test.wantServers != nil {
					wantServers = test.wantServers[i]
				}
				if servers = w.servers(w.alice); len(servers) != wantServers {
					t.Fatalf("the user has %d servers after reconcile %d, want %d", len(servers), i+1, wantServers)
				}
			}
			var got []string
			for _, write := range p.Writes(key) {
				got = append(got, text(write, strings.NewReplacer(servers[0], "own", stale, "stale")))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if violations := w.Violations(); len(violations) > 0 {
				t.Errorf("Violations() = %q", violations)
			}
		})
	}
}

var errLost = errors.New("the object has been modified")

// text is a write as a text, with names for UUIDs.
func text(write capcstest.Write, names *strings.Replacer) string {
	words := []string{"object", "-", "-"}
	if write.Status {
		words[0] = "status"
	}
	if write.InstanceID != "" {
		words[1] = write.InstanceID
	}
	if write.ProviderID != "" {
		words[2] = strings.TrimPrefix(write.ProviderID, "cloudsigma://")
	}
	switch {
	case errors.Is(write.Err, errLost):
		words = append(words, "lost")
	case write.Err != nil:
		words = append(words, write.Err.Error())
	}
	return names.Replace(strings.Join(words, " "))
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

// world is a cluster with one machine, whose provider acts as alice.
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
	cloud, err := cloudsigmatest.Start(t.Context())
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

// names makes the machine name servers in its fields, as it does when the provider is done.
func (w *world) names(instanceID, providerID string) {
	w.t.Helper()
	machine := newObject("CloudSigmaMachine", nil)
	if err := w.Get(w.t.Context(), key, machine); err != nil {
		w.t.Fatal(err)
	}
	machine.SetFinalizers([]string{capcstest.Finalizer})
	machine.Object["spec"] = map[string]any{"providerID": "cloudsigma://" + providerID}
	if err := w.Update(w.t.Context(), machine); err != nil {
		w.t.Fatal(err)
	}
	machine.Object["status"] = map[string]any{"instanceID": instanceID}
	if err := w.Status().Update(w.t.Context(), machine); err != nil {
		w.t.Fatal(err)
	}
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
