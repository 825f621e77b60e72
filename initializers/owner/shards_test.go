package owner

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/kcp"
)

// The administrator of a workspace can write the reference to the Workspace into its LogicalCluster.
func TestWorkspaceOf(t *testing.T) {
	child := tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "child", UID: "1", Annotations: map[string]string{kcp.ClusterAnnotation: theCluster}}}
	child.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"))
	// Of the shards, the last has the Workspace. The first returns an error, and the second does not answer while it is silent.
	var silent atomic.Bool
	shards := shardsThat(t, []string{"/down", "/silent", "/up"}, func(r *http.Request) any {
		if silent.Load() && strings.HasPrefix(r.URL.Path, "/silent/") {
			<-r.Context().Done()
		}
		if r.URL.Path != "/up/clusters/"+theHome+"/apis/tenancy.kcp.io/v1alpha1/workspaces" || r.URL.Query().Get("fieldSelector") != "metadata.name=child" {
			return nil
		}
		list := &tenancyv1alpha1.WorkspaceList{Items: []tenancyv1alpha1.Workspace{child}}
		list.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("WorkspaceList"))
		return list
	})
	own := corev1alpha1.LogicalClusterOwner{Cluster: theHome, Name: "child", UID: "1"}
	for name, tc := range map[string]struct {
		cluster logicalcluster.Name
		owner   func(*corev1alpha1.LogicalClusterOwner)
		want    bool
	}{
		"its own":                    {cluster: theCluster, want: true},
		"that of another":            {cluster: "another"},
		"one that was created again": {cluster: theCluster, owner: func(o *corev1alpha1.LogicalClusterOwner) { o.UID = "2" }},
		"one that does not exist":    {cluster: theCluster, owner: func(o *corev1alpha1.LogicalClusterOwner) { o.Name = "none" }},
		"one in no logical cluster":  {cluster: theCluster, owner: func(o *corev1alpha1.LogicalClusterOwner) { o.Cluster = "../services/x" }},
	} {
		t.Run(name, func(t *testing.T) {
			owner := own
			if tc.owner != nil {
				tc.owner(&owner)
			}
			silent.Store(tc.want)
			if got, err := shards.WorkspaceOf(t.Context(), tc.cluster, &owner); (got != nil) != tc.want || got != nil && err != nil {
				t.Errorf("WorkspaceOf() = %v, %v, want one: %t", got, err, tc.want)
			}
		})
	}
}

func TestExplainRequestsToShards(t *testing.T) {
	const url = "https://shard"
	denied := apierrors.NewForbidden(tenancyv1alpha1.Resource("workspaces"), "", errors.New("access denied"))
	unknown := apierrors.NewUnauthorized("Unauthorized")
	for name, tc := range map[string]struct {
		explain func(string, error) error
		err     error
		want    string
	}{
		"Workspaces without the permission": {explainList, denied,
			"see the workspaces at https://shard (this needs the permissions list and watch on apiexports/content of tenancy.kcp.io in root): "},
		"Workspaces with a certificate for the front-proxy only": {explainList, unknown,
			"see the workspaces at https://shard (this needs credentials that the shard accepts, not only the front-proxy): "},
		"LogicalClusters without the permission": {explainInitializing, denied,
			"read the LogicalClusters at https://shard (this needs the permission initialize on the WorkspaceType warranted in root): "},
		"LogicalClusters with a certificate for the front-proxy only": {explainInitializing, unknown,
			"read the LogicalClusters at https://shard (this needs credentials that the shard accepts, not only the front-proxy): "},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want+tc.err.Error(), tc.explain(url, tc.err).Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// pagedKCP returns a kcp with one shard, which has a Workspace with a large label on each of two pages, and the queries of the requests for
// them.
func pagedKCP(t *testing.T) (shards *Shards, queries func() []string) {
	t.Helper()
	var got []string
	return shardsThat(t, []string{"/a"}, func(r *http.Request) any {
		got = append(got, r.URL.RawQuery)
		list := &tenancyv1alpha1.WorkspaceList{Items: []tenancyv1alpha1.Workspace{{
			ObjectMeta: metav1.ObjectMeta{Name: "child", Labels: map[string]string{"large": "value"}}, Spec: tenancyv1alpha1.WorkspaceSpec{Cluster: theCluster},
		}}}
		list.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("WorkspaceList"))
		if list.ResourceVersion = "7"; r.URL.Query().Get("continue") == "" {
			list.Continue = "more"
		}
		return list
	}), func() []string { return got }
}

// shardsThat returns shards with these paths. answer returns the response to a request to one of them, nil for 404.
func shardsThat(t *testing.T, paths []string, answer func(*http.Request) any) *Shards {
	t.Helper()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body any
		if strings.HasSuffix(r.URL.Path, "/apiexportendpointslices/tenancy.kcp.io") {
			slice := &apisv1alpha1.APIExportEndpointSlice{}
			slice.SetGroupVersionKind(apisv1alpha1.SchemeGroupVersion.WithKind("APIExportEndpointSlice"))
			for _, path := range paths {
				slice.Status.APIExportEndpoints = append(slice.Status.APIExportEndpoints, apisv1alpha1.APIExportEndpoint{URL: server.URL + path})
			}
			body = slice
		} else if body = answer(r); body == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	})
	shards, err := NewShards(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return shards
}

// A tenant can make each Workspace larger than a MiB. The pod of the chart has 256 MiB.
func TestWorkspacesAreListedInSmallPages(t *testing.T) {
	shards, queries := pagedKCP(t)
	var found []request
	var younger int
	// The repair of a Workspace can take longer than a list is valid.
	for req, err := range shards.stuck(t.Context(), time.Now(), &younger) {
		if found = append(found, req); err != nil || len(queries()) != 2 {
			t.Errorf("error %v, queries %q", err, queries())
		}
	}
	const selector = "labelSelector=tenancy.kcp.io%2Fphase%3DInitializing&limit=10"
	if diff := cmp.Diff([]string{selector, "continue=more&" + selector}, queries()); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
	want := request{Name: "child", Cluster: theCluster}
	if diff := cmp.Diff([]request{want, want}, found); diff != "" || younger != 0 {
		t.Errorf("%d younger ones, requests (-want +got):\n%s", younger, diff)
	}
	for req, err := range shards.stuck(t.Context(), time.Time{}, &younger) {
		t.Errorf("stuck before the year 1: %v, %v", req, err)
	}
	if younger != 2 {
		t.Errorf("%d younger ones, want 2", younger)
	}
}

func TestInformersListInSmallPages(t *testing.T) {
	shards, queries := pagedKCP(t)
	urls, err := shards.workspaceURLs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := shards.clientAt(sets.List(urls)[0], logicalcluster.Wildcard)
	if err != nil {
		t.Fatal(err)
	}
	source := initializingWorkspaces(shards, time.Minute)
	list, err := listTrimmed(t.Context(), c, source.list, source.selector, source.trim)
	if err != nil {
		t.Fatal(err)
	}
	const selector = "labelSelector=tenancy.kcp.io%2Fphase%3DInitializing&limit=10"
	if diff := cmp.Diff([]string{selector, "continue=more&" + selector}, queries()); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
	trimmed := &tenancyv1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: "child", Annotations: map[string]string{"kcp.io/cluster": ""}}, Spec: tenancyv1alpha1.WorkspaceSpec{Cluster: theCluster},
	}
	want := &metainternalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []runtime.Object{trimmed, trimmed}}
	if diff := cmp.Diff(runtime.Object(want), list, cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}
