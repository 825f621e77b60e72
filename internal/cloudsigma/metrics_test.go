package cloudsigma_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
)

func TestRequestsAreCounted(t *testing.T) {
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	cloud := newCloud(t, cloudhttptest.Serve(t, answers{
		getServer:  cloudhttptest.InTurn(theServer(userID), reply(http.StatusFound, ""), notFound(), reply(http.StatusBadGateway, ""), ok(canary), broken),
		getProfile: theProfile(), getCandidates: aPage(0),
	}), &fakeTokens{})
	got := cloudhttptest.CountedBy(t, "cloudsigma", func() {
		for range 6 {
			_, _ = cloud.Ask(t.Context(), claim())
		}
	})
	if diff := cmp.Diff(map[string]float64{
		"cloud=cloudsigma,code=2xx,operation=server": 1, "cloud=cloudsigma,code=3xx,operation=server": 1,
		"cloud=cloudsigma,code=4xx,operation=server": 1, "cloud=cloudsigma,code=5xx,operation=server": 1,
		"cloud=cloudsigma,code=error,operation=server": 2, "cloud=cloudsigma,code=2xx,operation=profile": 1,
		"cloud=cloudsigma,code=2xx,operation=list": 1,
		"cloud=cloudsigma,operation=server":        6, "cloud=cloudsigma,operation=profile": 1, "cloud=cloudsigma,operation=list": 1,
	}, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
