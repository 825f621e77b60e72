package openstack_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
)

func TestMetrics(t *testing.T) {
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	api := newAPI(t, answers{
		getServer: cloudhttptest.InTurn(oneServer(serverID, machineName, projectID), reply(http.StatusFound, ""), notFound(),
			reply(http.StatusBadGateway, ""), reply(http.StatusOK, canary), broken),
		getCandidates: aList(),
	})
	cloud := api.cloud(api.secret())
	got := cloudhttptest.CountedBy(t, "openstack", func() {
		for range 6 {
			_, _ = cloud.Ask(t.Context(), claim())
		}
	})
	if diff := cmp.Diff(map[string]float64{
		"cloud=openstack,code=2xx,operation=server": 1, "cloud=openstack,code=3xx,operation=server": 1,
		"cloud=openstack,code=4xx,operation=server": 1, "cloud=openstack,code=5xx,operation=server": 1,
		"cloud=openstack,code=error,operation=server": 2, "cloud=openstack,code=2xx,operation=token": 1,
		"cloud=openstack,code=2xx,operation=list": 1,
		"cloud=openstack,operation=server":        6, "cloud=openstack,operation=token": 1, "cloud=openstack,operation=list": 1,
	}, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
