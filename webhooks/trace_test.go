package webhooks_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

func TestTraceOfARequest(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for name, tc := range map[string]struct {
		traceparent  []string
		wantLogged   any
		wantExemplar string
	}{
		"a sampled trace":                   {traceparent: []string{"00-" + trace + "-b7ad6b7169203331-01"}, wantLogged: trace, wantExemplar: trace},
		"a trace that is not sampled":       {traceparent: []string{"00-" + trace + "-b7ad6b7169203331-00"}, wantLogged: trace},
		"no trace":                          {},
		"an empty header":                   {traceparent: []string{""}},
		"a trace without an ID":             {traceparent: []string{"00-00000000000000000000000000000000-b7ad6b7169203331-01"}},
		"a header that does not parse":      {traceparent: []string{"00-" + trace}},
		"a header of another format":        {traceparent: []string{`00-x","decision":"allowed`}},
		"a header without end":              {traceparent: []string{strings.Repeat("0", 100_000)}},
		"two headers, of which one is used": {traceparent: []string{"00-" + trace + "-b7ad6b7169203331-01", "00-1"}, wantLogged: trace, wantExemplar: trace},
	} {
		t.Run(name, func(t *testing.T) {
			id := types.UID("trace-" + strings.ReplaceAll(name, " ", "-"))
			server := serve(t, webhooks.Handler(gateWith(t, webhooks.Answer{Reason: "R"}), v1beta1.Enforce, &fakeRecorder{}))
			body, err := json.Marshal(review(withUID(id)))
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header["Traceparent"] = tc.traceparent
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("HTTP status = %s", response.Status)
			}
			lines := logged.take(string(id))
			if len(lines) != 1 {
				t.Fatalf("log = %q, want one line", lines)
			}
			var line map[string]any
			if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantLogged, line["traceID"]); diff != "" || line["decision"] != "denied" {
				t.Errorf("line = %v, trace (-want +got):\n%s", line, diff)
			}
			if got := exemplarOf(t, t.Name()); got != tc.wantExemplar {
				t.Errorf("exemplar = %q, want %q", got, tc.wantExemplar)
			}
		})
	}
}

// exemplarOf returns the trace in the exemplar of the duration of a gate's denials.
func exemplarOf(t *testing.T, gate string) string {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, family := range families {
		if family.GetName() != "warrantgate_admission_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if labels := metric.GetLabel(); labels[0].GetValue() != "denied" || labels[1].GetValue() != gate {
				continue
			}
			if count := metric.GetHistogram().GetSampleCount(); count != 1 {
				t.Errorf("%d durations, want 1", count)
			}
			for _, bucket := range metric.GetHistogram().GetBucket() {
				for _, label := range bucket.GetExemplar().GetLabel() {
					found += label.GetValue()
				}
			}
		}
	}
	return found
}
