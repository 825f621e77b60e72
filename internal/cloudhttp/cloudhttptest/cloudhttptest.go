// Package cloudhttptest contains helpers to test clients of clouds: fake APIs, HTTP handlers, and the values of metrics.
package cloudhttptest

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Object is a JSON object.
type Object = map[string]any

// JSON returns v as JSON.
func JSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Reply returns a handler that sends a status, a body, and headers as pairs.
func Reply(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// InTurn returns a handler that calls the handlers one after the other, and then only the last one.
func InTurn(all ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		next := all[0]
		if len(all) > 1 {
			all = all[1:]
		}
		mu.Unlock()
		next(w, r)
	}
}

// Counted returns the number of requests of a cloud by operation and code, and the number of observed durations by operation.
func Counted(t *testing.T, cloud string) map[string]float64 {
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
			name := strings.Join(labels, ",")
			if !strings.HasPrefix(name, "cloud="+cloud+",") {
				continue
			}
			switch family.GetName() {
			case "warrantgate_cloud_requests_total":
				counts[name] = metric.GetCounter().GetValue()
			case "warrantgate_cloud_request_duration_seconds":
				counts[name] = float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return counts
}

// CountedBy returns how much the metrics of a cloud increase while do runs. It fails if do creates series: all series exist from
// the start, so that the first failure is visible as an increase.
func CountedBy(t *testing.T, cloud string, do func()) map[string]float64 {
	t.Helper()
	before := Counted(t, cloud)
	do()
	after, grown := Counted(t, cloud), map[string]float64{}
	for key, value := range after {
		if value > before[key] {
			grown[key] = value - before[key]
		}
	}
	if len(after) != len(before) {
		t.Errorf("there are %d series after requests, %d before, want all of them from the start", len(after), len(before))
	}
	return grown
}
