package kcp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"warrantgate.dev/internal/kcp"
)

func TestExportURLs(t *testing.T) {
	const (
		onA, onB = "https://a:6443/x/services/apiexport/root/tenancy.kcp.io", "https://b:6443/services/apiexport/root/tenancy.kcp.io"
		capcs    = "capcs.example.com"
	)
	for name, tc := range map[string]struct {
		consumers []string
		cluster   logicalcluster.Name
		export    string
		want      []string
		wantErr   string
	}{
		"consumers on two shards": {
			consumers: []string{"https://b:6443/services/apiexport/2x9y/" + capcs, "https://a:6443/x/services/apiexport/2x9y/" + capcs},
			cluster:   "2x9y", export: capcs,
			want: []string{
				"https://a:6443/x/services/apiexport/2x9y/" + capcs + "/clusters/*", "https://b:6443/services/apiexport/2x9y/" + capcs + "/clusters/*",
			},
		},
		"no consumers": {cluster: "2x9y", export: capcs},
		"another path": {
			consumers: []string{"https://b:6443/services/apiexport/other/secrets"}, cluster: "2x9y", export: capcs,
			want: []string{"https://b:6443/services/apiexport/2x9y/" + capcs + "/clusters/*"},
		},
		"another server": {
			consumers: []string{"https://evil.example.com/services/apiexport/2x9y/" + capcs}, cluster: "2x9y", export: capcs,
			wantErr: `the APIExportEndpointSlice capcs.example.com has the URL "https://evil.example.com/services/apiexport/2x9y/capcs.example.com", ` +
				"which is of no shard in the APIExportEndpointSlice tenancy.kcp.io of root",
		},
		"a name with a path":        {cluster: "../root", export: capcs, wantErr: `"../root" is not the name of a logical cluster`},
		"an APIExport with a path":  {cluster: "a", export: "../b", wantErr: `"../b" is not the name of an APIExport`},
		"an APIExport without name": {cluster: "a", wantErr: `"" is not the name of an APIExport`},
		"an APIExport without slice": {
			cluster: "a", export: "b", wantErr: `find the shards with consumers (APIExportEndpointSlice b): apiexportendpointslices.apis.kcp.io "b" not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kcp.ExportURLs(t.Context(), endpoints("tenancy.kcp.io", onA, onB), endpoints(capcs, tc.consumers...), tc.cluster, tc.export)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); gotErr != tc.wantErr || len(got)+len(tc.want) > 0 && diff != "" {
				t.Errorf("ExportURLs() error %q, want %q (-want +got):\n%s", gotErr, tc.wantErr, diff)
			}
		})
	}
}

// endpoints returns a client for a workspace with an APIExportEndpointSlice.
func endpoints(name string, urls ...string) client.Client {
	slice := &apisv1alpha1.APIExportEndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, url := range urls {
		slice.Status.APIExportEndpoints = append(slice.Status.APIExportEndpoints, apisv1alpha1.APIExportEndpoint{URL: url})
	}
	return fake.NewClientBuilder().WithScheme(kcp.Scheme()).WithObjects(slice).Build()
}

// TestFirstShard checks that a shard that does not answer delays nothing that another has, and the order of the errors.
func TestFirstShard(t *testing.T) {
	got, found, err := kcp.FirstShard(t.Context(), []string{"silent", "down", "has"}, func(ctx context.Context, url string) (string, bool, error) {
		switch url {
		case "silent":
			<-ctx.Done()
			return "", false, ctx.Err()
		case "down":
			return "", false, errors.New("is down")
		}
		return "of " + url, true, nil
	})
	if got != "of has" || !found || err != nil {
		t.Errorf("one has it: %q, %t, %v", got, found, err)
	}
	asked := make(chan struct{})
	_, found, err = kcp.FirstShard(t.Context(), []string{"a", "b", "c"}, func(_ context.Context, url string) (string, bool, error) {
		switch url {
		case "a": // the last to answer
			<-asked
		case "b":
			return "", false, nil
		case "c":
			defer close(asked)
		}
		return "", false, errors.New(url + " is down")
	})
	if found || err == nil || err.Error() != "a is down\nc is down" {
		t.Errorf("none has it: %t, %v", found, err)
	}
}
