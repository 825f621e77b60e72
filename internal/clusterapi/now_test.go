package clusterapi_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clienttesting "k8s.io/client-go/testing"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

func inCluster(name string) func(map[string]any) {
	return with("metadata.labels", map[string]any{"cluster.x-k8s.io/cluster-name": name})
}

// keys returns a reference to a cloud of the Secret "keys".
func keys(cloud string) map[string]any { return map[string]any{"name": "keys", "cloudName": cloud} }

func TestHolders(t *testing.T) {
	names := with("status.instanceID", ownID)
	server := newServer(t, false,
		machine(cloudSigmaMachines, "second", names), machine(cloudSigmaMachines, "first", with("spec.providerID", "cloudsigma://"+otherID)),
		machine(metalMachines, "metal", with("spec.instanceID", ownID)),
		machine(cloudSigmaMachines, "nothing"), machine(cloudSigmaMachines, "odd", with("status.instanceID", int64(5))),
		machine(cloudSigmaMachines, "no-uuid", with("status.instanceID", "x")),
		machine(cloudSigmaMachines, "of-another", names, inCluster("other")), machine(cloudSigmaMachines, "elsewhere", names, inNamespace("team-b")),
		machine(otherMachines, "another-cloud", names),
		machine(openStackMachines, "own-identity", names, with("spec.identityRef", keys("own"))), machine(openStackMachines, "as-the-cluster", names),
	)
	own := clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal", Identity: clusterapi.IdentityRef{Path: "spec.identityRef", Name: "keys", CloudName: "own"}}
	for want, cluster := range map[string]clusterapi.Cluster{
		"first second metal": metalCluster, "of-another": clusterNamed("other"), "as-the-cluster": {Provider: "openstack", Namespace: namespace, Name: "metal"},
		"own-identity": own, "": clusterNamed("no label; has this value"),
	} {
		machines, err := server.objects.Holders(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, machine := range machines {
			got = append(got, machine.Name)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("machines of %v (-want +got):\n%s", cluster, diff)
		}
	}
}

// TestPagesAreDividedAmongTenants checks that lists of one tenant delay those of another only by the pages that are being read.
func TestPagesAreDividedAmongTenants(t *testing.T) {
	const ofAttacker = 20
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, false)
		var order []string
		server.machines.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			order = append(order, action.GetNamespace()) // under the lock of the fake client
			return false, nil, nil
		})
		tenant := func(namespace string) context.Context {
			return share.WithTenant(t.Context(), share.Tenant{Namespace: namespace})
		}
		finish := clusterapi.ReadPages(tenant("attacker"), t)
		var lists sync.WaitGroup
		for i := range ofAttacker + 1 {
			namespace := "attacker"
			if i == ofAttacker {
				namespace = "victim"
			}
			lists.Go(func() {
				if _, err := server.objects.Holders(tenant(namespace), clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal"}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for _, finished := range finish {
			finished()
			synctest.Wait()
		}
		lists.Wait()
		if len(order) != ofAttacker+1 || slices.Index(order, "victim") != 0 {
			t.Errorf("the lists came in the order %v, want the victim's next", order)
		}
	})
}

// Lists that are not answered, such as those of a shard that is down, must not delay those of others.
func TestListsOfAKindThatDoesNotAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		attackers []string // the workspaces of the lists
		lists     int      // in each
		victim    share.Tenant
		most      time.Duration // how long a list of the victim may wait
	}{
		"in another workspace":    {[]string{"one"}, 5, share.Tenant{LogicalCluster: "victim"}, 0},
		"in two other workspaces": {[]string{"one", "two"}, 5, share.Tenant{LogicalCluster: "victim"}, time.Second},
		"one in this workspace":   {[]string{"one"}, 1, share.Tenant{LogicalCluster: "one"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, false)
				hanging, err := clusterapi.NewObjectsOf(hangingClient{server.machines}, server.versions, server.core.CoreV1(),
					clusterapi.Options{Kinds: []clusterapi.Kind{openStackMachines}})
				if err != nil {
					t.Fatal(err)
				}
				metal := clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal"}
				ctx, end := context.WithCancel(t.Context())
				var lists sync.WaitGroup
				for _, attacker := range tc.attackers {
					for range tc.lists {
						lists.Go(func() {
							for ctx.Err() == nil {
								listing := share.WithTenant(ctx, share.Tenant{LogicalCluster: attacker})
								if _, err := hanging.Holders(listing, metal); err == nil {
									t.Error("a list that is not answered has no error")
								}
							}
						})
					}
				}
				synctest.Wait()
				started := time.Now()
				if _, err := server.objects.Holders(share.WithTenant(t.Context(), tc.victim), metal); err != nil {
					t.Error(err)
				}
				if waited := time.Since(started); waited > tc.most {
					t.Errorf("the list waited for %s, more than %s", waited, tc.most)
				}
				end()
				lists.Wait()
			})
		})
	}
}

// TestASlowPageIsReadAgain checks that a list has the deadline of its request, although a page keeps its room for a second only. kcp takes
// longer for the first list of a kind.
func TestASlowPageIsReadAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		slow int // pages that are not answered
		want time.Duration
		fail bool
	}{
		"the first page": {slow: 1, want: time.Second},
		"all pages":      {slow: 5, want: 2400 * time.Millisecond, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, false)
				slow := slowClient{server.machines, &tc.slow}
				objects, err := clusterapi.NewObjectsOf(slow, server.versions, server.core.CoreV1(), clusterapi.Options{Kinds: []clusterapi.Kind{openStackMachines}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(share.WithTenant(t.Context(), share.Tenant{LogicalCluster: "one"}), 2400*time.Millisecond)
				defer cancel()
				started := time.Now()
				_, err = objects.Holders(ctx, clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal"})
				if took := time.Since(started); took != tc.want || (err != nil) != tc.fail {
					t.Errorf("Holders() = %v after %s, want %s", err, took, tc.want)
				}
			})
		})
	}
}

// slowClient does not answer the first lists.
type slowClient struct {
	dynamic.Interface
	slow *int
}

func (c slowClient) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	if *c.slow > 0 {
		*c.slow--
		return hangingLists{c.Interface.Resource(resource)}
	}
	return c.Interface.Resource(resource)
}

// hangingClient answers no list. The fake client holds a lock while it answers, so a reactor cannot wait.
type hangingClient struct{ dynamic.Interface }

func (c hangingClient) Resource(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return hangingLists{c.Interface.Resource(resource)}
}

type hangingLists struct {
	dynamic.NamespaceableResourceInterface
}

func (l hangingLists) Namespace(string) dynamic.ResourceInterface { return l }

func (hangingLists) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestTurns checks that a list of small objects waits only once for the lists of others, and that large objects do not keep the room.
func TestTurns(t *testing.T) {
	const pages = 3
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, false)
		var order strings.Builder
		server.machines.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			order.WriteString(action.GetNamespace()) // under the lock of the fake client
			if action.GetNamespace() == "a" {
				time.Sleep(time.Second) //nolint:forbidigo // of the bubble: reading the page takes that long
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(openStackMachines.Resource().GroupVersion().WithKind("List"))
			requested, ok := action.(clienttesting.ListActionImpl)
			if read := requested.ListOptions.Continue + "x"; ok && len(read) < pages {
				list.SetContinue(read)
			}
			return true, list, nil
		})
		finish := clusterapi.ReadPages(t.Context(), t)
		finish[0]() // one page at a time
		var lists sync.WaitGroup
		for _, namespace := range []string{"a", "a", "v"} {
			lists.Go(func() {
				ctx := share.WithTenant(t.Context(), share.Tenant{Namespace: namespace})
				if _, err := server.objects.Holders(ctx, clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: "metal"}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		lists.Wait()
		finish[1]()
		if got, want := order.String(), "aavvvaaaa"; got != want {
			t.Errorf("the pages came in the order %s, want %s", got, want)
		}
	})
}

func TestCredentialDependents(t *testing.T) {
	server := newServer(t, false,
		object("OpenStackCluster", "plain", with("spec.identityRef", keys("a"))),
		object("OpenStackCluster", "labeled", with("spec.identityRef", keys("b")), inCluster("prod")),
		object("OpenStackCluster", "other-cloud", with("spec.identityRef", keys("c"))),
		object("OpenStackCluster", "other-secret", with("spec.identityRef", map[string]any{"name": "x", "cloudName": "a"})),
		object("OpenStackCluster", "elsewhere", with("spec.identityRef", keys("a")), inNamespace("team-b")),
		machine(openStackMachines, "own", with("spec.identityRef", keys("a")), with("status.instanceID", ownID)),
		machine(openStackMachines, "own-without-instance", with("spec.identityRef", keys("b"))),
		machine(openStackMachines, "as-the-cluster", with("status.instanceID", ownID)),
	)
	got, err := server.objects.CredentialDependents(t.Context(), namespace, "keys", []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	of := func(cloud string) ownership.Account {
		return ownership.Account{Cloud: "openstack", Identity: ownership.Identity{Namespace: namespace, Secret: "keys", Entry: cloud}}
	}
	named := func(name string, identity clusterapi.IdentityRef) clusterapi.Cluster {
		return clusterapi.Cluster{Provider: "openstack", Namespace: namespace, Name: name, Identity: identity}
	}
	want := []clusterapi.Dependent{
		{Cluster: named("labeled", clusterapi.IdentityRef{}), Account: of("b")},
		{Cluster: named("plain", clusterapi.IdentityRef{}), Account: of("a")},
		{Cluster: named("metal", clusterapi.IdentityRef{Path: "spec.identityRef", Name: "keys", CloudName: "a"}), Account: of("a")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dependents (-want +got):\n%s", diff)
	}
}

// TestRefers checks objects that no provider acts for yet: it will once a Cluster refers to them, or the machine gets its instance.
func TestRefers(t *testing.T) {
	fields := []clusterapi.IdentityField{
		{Resource: clusterapi.OpenStackClusters, Path: "spec.identityRef"}, {Resource: metalMachines.Resource(), Path: "spec.keys"},
	}
	objects := []runtime.Object{
		object("OpenStackCluster", "spare", with("spec.identityRef", keys("a")), inCluster("prod")),
		object("OpenStackCluster", "acting", with("spec.identityRef", keys("b"))),
		capiCluster("prod", "acting"),
		machine(openStackMachines, "new", with("spec.identityRef", keys("c"))),
		machine(openStackMachines, "elsewhere", with("spec.identityRef", keys("d")), inNamespace("team-b")),
		machine(openStackMachines, "of-another-secret", with("spec.identityRef", map[string]any{"name": "x", "cloudName": "d"})),
		machine(metalMachines, "in-a-field", with("spec.keys", keys("e"))),
		machine(metalMachines, "in-no-field", with("spec.identityRef", keys("f"))),
	}
	for name, tc := range map[string]struct {
		options clusterapi.Options
		fields  []clusterapi.IdentityField
		want    []string
	}{
		"fields, and machines":          {fields: fields, want: []string{"a", "b", "c", "e"}},
		"fields, if no machine is read": {options: clusterapi.Options{ClustersOnly: true}, fields: fields, want: []string{"a", "b", "e"}},
		"a field of a machine, if no machine is read": {
			options: clusterapi.Options{ClustersOnly: true}, want: []string{"c"},
			fields: []clusterapi.IdentityField{{Resource: clusterapi.OpenStackMachines, Path: "spec.identityRef"}},
		},
		"another field of a machine": {
			want: []string{"c"}, fields: []clusterapi.IdentityField{{Resource: clusterapi.OpenStackMachines, Path: "spec.keys"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServerWith(t, tc.options, objects...)
			var got []string
			for _, cloud := range []string{"a", "b", "c", "d", "e", "f"} {
				refers, err := server.objects.Refers(t.Context(), tc.fields, namespace, "keys", cloud)
				if err != nil {
					t.Fatal(err)
				}
				if refers {
					got = append(got, cloud)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("clouds that are referred to (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachinesNow(t *testing.T) {
	names := with("status.instanceID", ownID)
	server := newServer(t, false, machine(cloudSigmaMachines, "first", names), machine(cloudSigmaMachines, "nothing"),
		machine(cloudSigmaMachines, "odd", with("status.instanceID", int64(5))), machine(cloudSigmaMachines, "elsewhere", names, inNamespace("team-b")),
		machine(metalMachines, "another-kind"))
	for in, want := range map[string]string{"": "team-a/first team-a/nothing team-b/elsewhere", namespace: "team-a/first team-a/nothing"} {
		machines, err := server.objects.MachinesNow(t.Context(), cloudSigmaMachines, in)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, machine := range machines {
			got = append(got, machine.Namespace+"/"+machine.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("machines of namespace %q (-want +got):\n%s", in, diff)
		}
	}
}

func TestMachinesNowReadsAllPages(t *testing.T) {
	server := newServer(t, false)
	page := 0
	server.machines.PrependReactor("list", "cloudsigmamachines", func(action clienttesting.Action) (bool, runtime.Object, error) {
		page++
		list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*machine(cloudSigmaMachines, strings.Repeat("x", page))}}
		list.SetAPIVersion("v1")
		list.SetKind("List")
		if page < 3 {
			list.SetContinue("more")
		}
		return true, list, nil
	})
	if machines, err := server.objects.MachinesNow(t.Context(), cloudSigmaMachines, ""); err != nil || len(machines) != 3 {
		t.Errorf("MachinesNow() = %d machines, %v, want 3", len(machines), err)
	}
}

func TestMachinesNowOfAKindThatIsNotInstalled(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "cloudsigmamachines"}, "")
	server := newServer(t, false)
	server.machines.PrependReactor("list", "cloudsigmamachines", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, missing })
	server.served["cloudsigmamachines"] = nil
	if machines, err := server.objects.MachinesNow(t.Context(), cloudSigmaMachines, ""); err != nil || len(machines) != 0 {
		t.Errorf("MachinesNow() = %v, %v, want none", machines, err)
	}
	server.served["cloudsigmamachines"] = []string{"v1"}
	if machines, err := server.objects.MachinesNow(t.Context(), cloudSigmaMachines, ""); err == nil {
		t.Errorf("MachinesNow() = %v, want an error about the served version", machines)
	}
}
