package clusterapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/clusterapi"
)

// fakeKCP is a kcp of two shards with one APIExport. The lists of a shard have two pages.
type fakeKCP struct {
	*httptest.Server
	// resources are those of the APIExport, down is the shard that does not answer.
	resources []string
	down      string
	// in is the logical cluster of the machine on the second shard.
	in       string
	requests []string
	// limits are those of the lists of objects.
	limits []string
	// expired is true if the state of a list is not kept until the second page.
	expired bool
}

const (
	infrastructureList = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"%sList","metadata":{"continue":%q},"items":[%s]}`
	exportedObject     = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":%[1]q,"metadata":{"namespace":"team-a","name":%[2]q,"uid":%[3]q,` +
		`"annotations":{"kcp.io/cluster":%[4]q},"labels":{"cluster.x-k8s.io/cluster-name":"metal"}},%[5]s}`
)

func (k *fakeKCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.requests = append(k.requests, r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	shard, resource, isShard := strings.Cut(r.URL.Path, "/services/apiexport/2x9yq4a1h0lkz3wd/capcs/clusters/*/apis/infrastructure.cluster.x-k8s.io/v1beta1/")
	if isShard {
		k.limits = append(k.limits, r.URL.Query().Get("limit"))
	}
	switch {
	case r.URL.Path == "/clusters/root:provider/apis/apis.kcp.io/v1alpha2/apiexports/capcs":
		var resources []string
		for _, name := range k.resources {
			resources = append(resources, fmt.Sprintf(`{"group":"infrastructure.cluster.x-k8s.io","name":%q,"schema":"v1.x"}`, name))
		}
		fmt.Fprintf(w, `{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExport","metadata":{"name":"capcs","annotations":{"kcp.io/cluster":"2x9yq4a1h0lkz3wd"}},`+
			`"spec":{"resources":[%s]}}`, strings.Join(resources, ","))
	case r.URL.Path == "/clusters/root/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/tenancy.kcp.io":
		fmt.Fprintf(w, `{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIExportEndpointSlice","metadata":{"name":"tenancy.kcp.io"},"status":{"endpoints":[`+
			`{"url":"%[1]s/one/services/apiexport/root/tenancy.kcp.io"},{"url":"%[1]s/two/services/apiexport/root/tenancy.kcp.io"},`+
			`{"url":"%[1]s/unused/services/apiexport/root/tenancy.kcp.io"}]}}`, k.URL)
	case r.URL.Path == "/clusters/root:provider/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/capcs":
		fmt.Fprintf(w, `{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIExportEndpointSlice","metadata":{"name":"capcs"},"status":{"endpoints":[`+
			`{"url":"%[1]s/one/services/apiexport/x/y"},{"url":"%[1]s/two/services/apiexport/x/y"}]}}`, k.URL)
	case !isShard || strings.TrimPrefix(shard, "/") == k.down:
		http.NotFound(w, r)
	case resource == "cloudsigmaclusters":
		in := map[string]string{"/one": "aaa", "/two": "bbb"}[shard]
		fmt.Fprintf(w, infrastructureList, "CloudSigmaCluster", "",
			fmt.Sprintf(exportedObject, "CloudSigmaCluster", "metal", "uid-"+in, in, `"spec":{"region":"next","userEmail":"`+in+`@example.com"}`))
	case shard == "/one" && r.URL.Query().Get("continue") == "":
		fmt.Fprintf(w, infrastructureList, "CloudSigmaMachine", "more",
			fmt.Sprintf(exportedObject, "CloudSigmaMachine", "worker", "uid-1", "aaa", `"status":{"instanceID":"`+ownID+`"}`)+","+
				fmt.Sprintf(exportedObject, "CloudSigmaMachine", "odd", "uid-2", "aaa", `"status":{"instanceID":1}`))
	case shard == "/one" && k.expired && r.URL.Query().Get("continue") == "more":
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","metadata":{"continue":"later"},"status":"Failure","reason":"Expired","code":410}`)
	case shard == "/one":
		fmt.Fprintf(w, infrastructureList, "CloudSigmaMachine", "", fmt.Sprintf(exportedObject, "CloudSigmaMachine", "second", "uid-3", "aaa", `"spec":{}`))
	default:
		fmt.Fprintf(w, infrastructureList, "CloudSigmaMachine", "", fmt.Sprintf(exportedObject, "CloudSigmaMachine", "worker", "uid-4", k.in, `"spec":{}`))
	}
}

// newExports returns the objects of a kcp, which stops with the test.
func newExports(t *testing.T, k *fakeKCP) *clusterapi.Exports {
	t.Helper()
	k.Server = httptest.NewServer(k)
	t.Cleanup(k.Close)
	exports, err := clusterapi.NewExports(&rest.Config{Host: k.URL + "/clusters/root:elsewhere"},
		[]clusterapi.Export{{Workspace: logicalcluster.NewPath("root:provider"), Name: "capcs"}}, clusterapi.Options{Kinds: []clusterapi.Kind{metalMachines, cloudSigmaMachines}})
	if err != nil {
		t.Fatal(err)
	}
	return exports
}

func TestExports(t *testing.T) {
	for name, expired := range map[string]bool{"": false, "whose state expires between two pages": true} {
		t.Run(name, func(t *testing.T) {
			testExports(t, &fakeKCP{resources: []string{"cloudsigmamachines", "cloudsigmaclusters"}, in: "bbb", expired: expired})
		})
	}
}

func testExports(t *testing.T, k *fakeKCP) {
	t.Helper()
	exports := newExports(t, k)
	if len(slices.Collect(exports.Machines())) > 0 {
		t.Error("there are machines before Refresh")
	}
	if err := exports.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	naming := exports.Naming(ownID, clusterapi.Machine{Kind: cloudSigmaMachines})
	if len(naming) != 1 || naming[0].Key().Name != "worker" || naming[0].LogicalCluster != "aaa" {
		t.Errorf("Naming() = %v", naming)
	}
	if of := exports.Naming(ownID, clusterapi.Machine{Kind: awsMachines}); len(of) > 0 {
		t.Errorf("Naming() of another provider = %v", of)
	}
	for object, want := range map[clusterapi.MachineKey]bool{
		naming[0].Key(): true, {LogicalCluster: "bbb", Resource: cloudSigmaMachines.Resource(), Namespace: namespace, Name: "second"}: false,
	} {
		if machine, found := exports.Machine(object); found != want || found && machine.Key() != object {
			t.Errorf("Machine(%v) = %v, %t", object, machine, found)
		}
	}
	machines := map[string]string{}
	for machine := range exports.Machines() {
		account, err := exports.Account(t.Context(), machine.Cluster())
		if err != nil {
			t.Fatal(err)
		}
		machines[machine.LogicalCluster.String()+" "+machine.Name+" "+string(machine.UID)] = machine.InstanceID + account.User
	}
	if diff := cmp.Diff(map[string]string{
		"aaa worker uid-1": ownID + "aaa@example.com", "aaa second uid-3": "aaa@example.com", "bbb worker uid-4": "bbb@example.com",
	}, machines); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	clusters := map[clusterapi.Cluster]corev1.ObjectReference{}
	for cluster, reference := range exports.Clusters() {
		clusters[cluster] = reference
	}
	want := map[clusterapi.Cluster]corev1.ObjectReference{}
	for _, in := range []string{"aaa", "bbb"} {
		want[clusterapi.Cluster{LogicalCluster: logicalcluster.Name(in), Exporter: "2x9yq4a1h0lkz3wd", Provider: "cloudsigma", Namespace: "team-a", Name: "metal"}] = corev1.ObjectReference{
			APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "CloudSigmaCluster", Namespace: "team-a", Name: "metal", UID: types.UID("uid-" + in),
		}
	}
	if diff := cmp.Diff(want, clusters); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	var rejected *clusterapi.AccountError
	if _, err := exports.Account(t.Context(), metalCluster); !errors.As(err, &rejected) || rejected.Reason != clusterapi.ClusterMissing {
		t.Errorf("Account() of a cluster of no workspace: error = %v", err)
	}
	ofAnother := naming[0].Cluster()
	ofAnother.Exporter = "another"
	if _, err := exports.Account(t.Context(), ofAnother); !errors.As(err, &rejected) || rejected.Reason != clusterapi.ClusterMissing {
		t.Errorf("Account() of a cluster of another provider than its machine: error = %v", err)
	}
	owned := clusterapi.Machine{LogicalCluster: "aaa", ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", OwnerReferences: []metav1.OwnerReference{machineRef("a")}}}
	if _, err := exports.OwnerSeen(t.Context(), owned); !errors.As(err, &rejected) || rejected.Reason != clusterapi.OwnerMachineMissing {
		t.Errorf("OwnerSeen() of a Machine that is not served: error = %v", err)
	}
	if last := k.requests[len(k.requests)-1]; last != "/clusters/aaa/apis/cluster.x-k8s.io" {
		t.Errorf("the owner was read at %s", last)
	}

	for name, tc := range map[string]struct {
		change func()
		want   string
	}{
		"a shard that does not answer": {func() { k.down = "two" }, "list cloudsigmamachines.infrastructure.cluster.x-k8s.io at "},
		"an object of no workspace":    {func() { k.in = "../root" }, `"../root" is not the name of a logical cluster`},
		"an APIExport of other kinds":  {func() { k.resources = []string{"widgets"} }, "it exports none of the kinds of machines and clusters that are configured"},
	} {
		before := *k
		tc.change()
		err := exports.Refresh(t.Context())
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), `APIExport "capcs" of workspace root:provider: `) {
			t.Errorf("%s: error %v, want %q in it", name, err, tc.want)
		}
		if got := len(slices.Collect(exports.Machines())); got != 3 {
			t.Errorf("%s: %d machines, want those from before", name, got)
		}
		k.down, k.in, k.resources = before.down, before.in, before.resources
	}
}

// A tenant can make each object larger than a MiB. The pod of the chart has 256 MiB.
func TestExportsAreReadInSmallPages(t *testing.T) {
	k := &fakeKCP{resources: []string{"cloudsigmamachines", "cloudsigmaclusters"}, in: "bbb"}
	if err := newExports(t, k).Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, limit := range k.limits {
		if objects, err := strconv.Atoi(limit); err != nil || objects < 1 || objects > 10 {
			t.Errorf("a page of %q objects", limit)
		}
	}
	if len(k.limits) == 0 {
		t.Error("nothing was listed")
	}
}

// Two calls of Refresh at the same time could store an older read after a newer one.
func TestRefreshesDoNotOverlap(t *testing.T) {
	k := &fakeKCP{resources: []string{"cloudsigmamachines", "cloudsigmaclusters"}, in: "bbb"}
	exports := newExports(t, k)
	var serving atomic.Int32
	var overlapped atomic.Bool
	k.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if serving.Add(1) > 1 {
			overlapped.Store(true)
		}
		defer serving.Add(-1)
		<-time.After(time.Millisecond) // as a server takes for a request
		k.ServeHTTP(w, r)
	})
	var refreshing sync.WaitGroup
	for range 8 {
		refreshing.Go(func() {
			if err := exports.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	refreshing.Wait()
	if overlapped.Load() {
		t.Error("two calls sent requests at the same time")
	}
}
