package cloudhttp_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
)

func TestRequestsAreCounted(t *testing.T) {
	cloud := "metrics-" + rand.Text() // counters keep their values between runs of the test (-count)
	requests := cloudhttp.NewRequests(cloud, "server", "list")
	want := map[string]float64{}
	for _, operation := range []string{"server", "list"} {
		want["cloud="+cloud+",operation="+operation] = 0
		for _, code := range []string{"2xx", "3xx", "4xx", "5xx", "error"} {
			want["cloud="+cloud+",code="+code+",operation="+operation] = 0
		}
	}
	if diff := cmp.Diff(want, cloudhttptest.Counted(t, cloud)); diff != "" {
		t.Errorf("before any request (-want +got):\n%s", diff)
	}
	for _, r := range []struct {
		status     int
		understood bool
		code       string
	}{
		{200, true, "2xx"}, {299, true, "2xx"}, {200, false, "error"}, {302, false, "3xx"}, {302, true, "3xx"}, {404, false, "4xx"},
		{503, false, "5xx"}, {599, false, "5xx"}, {0, false, "error"}, {101, true, "error"}, {199, true, "error"}, {600, true, "error"},
		{-1, true, "error"}, {1 << 30, true, "error"},
	} {
		requests.Observe("server", r.status, r.understood, time.Second)
		want["cloud="+cloud+",code="+r.code+",operation=server"]++
		want["cloud="+cloud+",operation=server"]++
	}
	if diff := cmp.Diff(want, cloudhttptest.Counted(t, cloud)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
