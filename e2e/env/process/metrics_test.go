package process_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"warrantgate.dev/e2e/env/process"
)

const metrics = `
# TYPE verdicts_total counter
verdicts_total{gate="a",verdict="yes"} 1
verdicts_total{gate="a",verdict="no"} 2
verdicts_total{gate="b",verdict="no"} 4
# TYPE queue gauge
queue 8
`

// serving returns the URL of a server with these metrics.
func serving(t *testing.T, text string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL
}

func TestMetric(t *testing.T) {
	url := serving(t, metrics)
	for name, tc := range map[string]struct {
		metric string
		labels map[string]string
		want   float64
	}{
		"all series of a counter":      {metric: "verdicts_total", want: 7},
		"series with one label":        {metric: "verdicts_total", labels: map[string]string{"verdict": "no"}, want: 6},
		"series with two labels":       {metric: "verdicts_total", labels: map[string]string{"gate": "a", "verdict": "no"}, want: 2},
		"a label that no series has":   {metric: "verdicts_total", labels: map[string]string{"other": "no"}},
		"a gauge":                      {metric: "queue", want: 8},
		"a metric that does not exist": {metric: "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := process.Metric(t.Context(), http.DefaultClient, url, tc.metric, tc.labels)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("Metric() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestMetricReturnsErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		url, want string
	}{
		"no metrics":         {answering(t, http.StatusForbidden), "read metrics: 403 Forbidden"},
		"invalid metrics":    {serving(t, "{{{"), "read metrics: "},
		"no server listens":  {"http://127.0.0.1:1", "connection refused"},
		"an invalid address": {"http://%", "invalid URL escape"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := process.Metric(t.Context(), http.DefaultClient, tc.url, "any", nil)
			contains(t, err, tc.want)
		})
	}
}
