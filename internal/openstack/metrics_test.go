package openstack_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// counted returns the counts of OpenStack's requests by operation and code, and of their durations by operation.
func counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatalf("gather metrics: %v", err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			switch family.GetName() {
			case "warrantgate_cloud_requests_total":
				counts[strings.Join(labels, ",")] = metric.GetCounter().GetValue()
			case "warrantgate_cloud_request_duration_seconds":
				counts[strings.Join(labels, ",")] = float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return counts
}

func TestRequestsAreCounted(t *testing.T) {
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	api := newAPI(t, answers{
		getServer: inTurn(oneServer(serverID, machineName, projectID), reply(http.StatusFound, ""), notFound(),
			reply(http.StatusBadGateway, ""), reply(http.StatusOK, canary), broken),
		getCandidates: aList(),
	})
	before := counted(t)
	cloud := api.cloud(api.secret())
	for range 6 {
		_, _ = cloud.Ask(t.Context(), claim())
	}
	got := map[string]float64{}
	after := counted(t)
	for key, value := range after {
		if value > before[key] {
			got[key] = value - before[key]
		}
	}
	if diff := cmp.Diff(map[string]float64{
		"cloud=openstack,code=2xx,operation=server": 1, "cloud=openstack,code=3xx,operation=server": 1,
		"cloud=openstack,code=4xx,operation=server": 1, "cloud=openstack,code=5xx,operation=server": 1,
		"cloud=openstack,code=error,operation=server": 2, "cloud=openstack,code=2xx,operation=token": 1,
		"cloud=openstack,code=2xx,operation=list": 1,
		"cloud=openstack,operation=server":        6, "cloud=openstack,operation=token": 1, "cloud=openstack,operation=list": 1,
	}, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if len(after) != len(before) {
		t.Errorf("there are %d series after requests, %d before, want all of them from the start", len(after), len(before))
	}
}
