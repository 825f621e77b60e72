package serve

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTracesAreExemplars checks that OpenMetrics contains the trace of a slow verdict.
func TestTracesAreExemplars(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	s := startServe(t)
	client := s.certificate.Client(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.hook("/workspace/denial-notice"), bytes.NewReader(workspaceReview(t)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	for accept, want := range map[string]struct {
		contentType string
		exemplar    bool
	}{
		"application/openmetrics-text; version=1.0.0": {contentType: "application/openmetrics-text; version=1.0.0;", exemplar: true},
		"text/plain": {contentType: "text/plain; version=0.0.4;"},
	} {
		contentType, exposed := s.exposed(t, accept)
		if !strings.HasPrefix(contentType, want.contentType) || strings.Contains(exposed, `# {trace_id="`+trace+`"}`) != want.exemplar {
			t.Errorf("the response to %s is %s, and an exemplar: %v", accept, contentType, !want.exemplar)
		}
	}
	client.CloseIdleConnections()
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
}

// exposed returns the metrics of serve in an accepted format.
func (s *serving) exposed(t *testing.T, accept string) (contentType, exposed string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.metrics+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Get("Content-Type"), string(content)
}
