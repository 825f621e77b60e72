package owner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// added is a queue that only records what was added, and roughly when it is due.
type added struct {
	queue
	items []string
}

func (a *added) Add(req request) { a.AddAfter(req, 0) }

func (a *added) AddAfter(req request, after time.Duration) {
	when := "now"
	if after > 0 {
		when = "in " + after.Round(time.Second).String()
	}
	if req.Ready {
		when += ", Ready"
	}
	a.items = append(a.items, req.Parent.String()+"/"+req.Name+" of "+req.Cluster.String()+" "+when)
}

func workspaceOf(cluster string, age time.Duration) *tenancyv1alpha1.Workspace {
	return &tenancyv1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{
			Name: "child", UID: "1", CreationTimestamp: metav1.NewTime(time.Now().Add(-age)),
			Annotations: map[string]string{"kcp.io/cluster": theHome, "large": "value"}, Labels: map[string]string{"a": "b"},
		},
		Spec: tenancyv1alpha1.WorkspaceSpec{Cluster: cluster},
	}
}

// mount is a Workspace with a mount, whose author has written the logical cluster of another Workspace into it.
func mount() *tenancyv1alpha1.Workspace {
	ws := workspaceOf(theCluster, time.Hour)
	ws.Name, ws.Spec.Mount = "mount", &tenancyv1alpha1.Mount{}
	return ws
}

func TestHandlerAddsRequests(t *testing.T) {
	const child = theHome + "/child of "
	for name, tc := range map[string]struct {
		notify func(cache.ResourceEventHandler)
		want   []string
	}{
		"a Workspace that is stuck": {
			func(h cache.ResourceEventHandler) { h.OnAdd(workspaceOf(theCluster, time.Hour), true) }, []string{child + theCluster + " now"},
		},
		"a Workspace that may yet become Ready": {
			func(h cache.ResourceEventHandler) { h.OnAdd(workspaceOf(theCluster, 0), false) }, []string{child + theCluster + " in 10s"},
		},
		"a Workspace that gets its logical cluster": {
			func(h cache.ResourceEventHandler) {
				h.OnUpdate(workspaceOf("", time.Hour), workspaceOf(theCluster, time.Hour))
			}, []string{child + theCluster + " now"},
		},
		"any other change": {
			func(h cache.ResourceEventHandler) {
				h.OnUpdate(workspaceOf(theCluster, time.Hour), workspaceOf(theCluster, time.Hour))
			}, nil,
		},
		"a Workspace that became Ready": {
			func(h cache.ResourceEventHandler) { h.OnDelete(workspaceOf(theCluster, 0)) }, []string{child + theCluster + " now"},
		},
		"a Workspace that was stuck and became Ready": {
			func(h cache.ResourceEventHandler) { h.OnDelete(workspaceOf(theCluster, time.Hour)) },
			[]string{child + theCluster + " now", child + theCluster + " now, Ready"},
		},
		"a Workspace that was stuck and is being deleted": {
			func(h cache.ResourceEventHandler) {
				ws := workspaceOf(theCluster, time.Hour)
				ws.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				h.OnDelete(ws)
			}, []string{child + theCluster + " now"},
		},
		"a Workspace that became Ready while kcp did not answer": {
			func(h cache.ResourceEventHandler) {
				h.OnDelete(cache.DeletedFinalStateUnknown{Key: "k", Obj: workspaceOf(theCluster, 0)})
			}, []string{child + theCluster + " now"},
		},
		"a Workspace with a mount that names the logical cluster of another": {
			func(h cache.ResourceEventHandler) { h.OnAdd(mount(), true) }, []string{theHome + "/mount of  now"},
		},
		"an event without an object": {func(h cache.ResourceEventHandler) { h.OnAdd("x", false); h.OnDelete("x"); h.OnUpdate("x", "y") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got added
			tc.notify(initializingWorkspaces(&Shards{}, 10*time.Minute).handler("https://shard", &got))
			if diff := cmp.Diff(tc.want, got.items); diff != "" {
				t.Errorf("added (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrim(t *testing.T) {
	ws := workspaceOf(theCluster, time.Hour)
	ws.Spec.Type = &tenancyv1alpha1.WorkspaceTypeReference{Path: "root", Name: "team"}
	want := &tenancyv1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{
			Name: "child", UID: "1", CreationTimestamp: ws.CreationTimestamp, Annotations: map[string]string{"kcp.io/cluster": theHome},
		},
		Spec: tenancyv1alpha1.WorkspaceSpec{Cluster: theCluster, Type: ws.Spec.Type},
	}
	source := initializingWorkspaces(&Shards{}, 0)
	if diff := cmp.Diff(client.Object(want), source.trim(ws)); diff != "" {
		t.Errorf("trim() (-want +got):\n%s", diff)
	}
	wantRequest := request{Shard: "https://shard", Parent: theHome, Name: "child", UID: "1", Cluster: theCluster, Type: "root:team"}
	if diff := cmp.Diff(wantRequest, source.requestFor("https://shard", source.trim(ws))); diff != "" {
		t.Errorf("requestFor() (-want +got):\n%s", diff)
	}
	if got := source.requestFor("", source.trim(mount())).Cluster; got != "" {
		t.Errorf("logical cluster of a Workspace with a mount = %q, want none", got)
	}
	// kcp does not check the type of a Workspace with a mount, so it can be as long as the object.
	long := mount()
	long.Spec.Type = &tenancyv1alpha1.WorkspaceTypeReference{Path: "root" + strings.Repeat(":a", 1<<19), Name: "team"}
	if text := fmt.Sprint(source.requestFor("", source.trim(long)), source.trim(long)); len(text) > 8<<10 {
		t.Errorf("%d bytes are kept of a Workspace with a mount", len(text))
	}
	lc := &corev1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "cluster", UID: "2", Annotations: map[string]string{"kcp.io/cluster": theCluster, "large": "value"},
	}}
	source = waitingLogicalClusters(&Shards{})
	got := source.requestFor("https://shard", source.trim(lc))
	if diff := cmp.Diff(request{Shard: "https://shard", Parent: theCluster, Name: "cluster", UID: "2", Cluster: theCluster}, got); diff != "" {
		t.Errorf("requestFor() (-want +got):\n%s", diff)
	}
}

func TestHas(t *testing.T) {
	source := heldBy(t, map[string][]client.Object{
		"https://a": {workspaceOf(theCluster, time.Hour)},
		"https://b": {},
	})
	req := requestForWorkspace("https://a", workspaceOf(theCluster, time.Hour))
	for name, tc := range map[string]struct {
		modify func(*request)
		want   bool
	}{
		"the same":                    {func(*request) {}, true},
		"on another shard":            {func(r *request) { r.Shard = "https://b" }, false},
		"on a shard that was removed": {func(r *request) { r.Shard = "https://c" }, false},
		"in another cluster":          {func(r *request) { r.Parent = "other" }, false},
		"created again":               {func(r *request) { r.UID = "2" }, false},
		"with another cluster":        {func(r *request) { r.Cluster = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			req := req
			tc.modify(&req)
			if got := source.has(req); got != tc.want {
				t.Errorf("has(%+v) = %t, want %t", req, got, tc.want)
			}
		})
	}
}

func TestCountDue(t *testing.T) {
	other := workspaceOf(theCluster, time.Hour)
	other.Name = "other"
	recent := workspaceOf(theCluster, 0)
	recent.Name = "recent"
	source := heldBy(t, map[string][]client.Object{"https://a": {workspaceOf(theCluster, time.Hour), recent}, "https://b": {other, mount()}})
	if got := source.countDue(); got != 2 {
		t.Errorf("countDue() = %d, want 2", got)
	}
}

// heldBy returns a source whose informers, which do not run, hold objects by shard.
func heldBy(t *testing.T, shards map[string][]client.Object) *shardSource {
	t.Helper()
	source := initializingWorkspaces(&Shards{config: &rest.Config{Host: "https://127.0.0.1:1"}}, 10*time.Minute)
	ended, end := context.WithCancel(t.Context())
	end()
	for url, objects := range shards {
		informer, err := source.newInformer(ended, url, &added{})
		if err != nil {
			t.Fatal(err)
		}
		source.informers[url] = informer
		for _, object := range objects {
			if err := informer.GetStore().Add(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	return source
}

func TestSync(t *testing.T) {
	var urls sets.Set[string]
	var noShards error
	source := initializingWorkspaces(&Shards{config: &rest.Config{Host: "https://127.0.0.1:1"}}, time.Minute)
	source.urls = func(context.Context) (sets.Set[string], error) { return urls, noShards }
	sync := func(wantError error, want ...string) {
		t.Helper()
		if err := source.sync(t.Context(), &added{}); !errors.Is(err, wantError) {
			t.Errorf("sync() error = %v, want %v", err, wantError)
		}
		if diff := cmp.Diff(want, sets.List(sets.KeySet(source.informers))); diff != "" {
			t.Errorf("watched (-want +got):\n%s", diff)
		}
	}
	const urlA, urlB = "https://127.0.0.1:1/a", "https://127.0.0.1:1/b"
	urls = sets.New(urlA, urlB)
	sync(nil, urlA, urlB)
	a := source.informers[urlA]
	urls = sets.New(urlA)
	sync(nil, urlA)
	if source.informers[urlA] != a {
		t.Error("a shard that is still there is watched anew")
	}
	noShards = errors.New("root does not answer")
	sync(noShards, urlA)
}
