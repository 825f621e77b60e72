package cloudsigma_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/ownership"
)

// BenchmarkAsk measures a lookup for a cached user, without network connections.
func BenchmarkAsk(b *testing.B) {
	bodies := map[string]string{
		"/api/" + getServer:  inJSON(aServer(serverID, machineName, userID, machineUID)),
		"/api/" + getProfile: inJSON(object{"uuid": userID, "email": userEmail}),
	}
	cloud := cloudsigma.NewWith(cloudsigma.Options{Tokens: &fakeTokens{}, API: "https://cloud.example/api/{region}/"},
		roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"X-Request-Id": {"req"}}, Body: io.NopCloser(strings.NewReader(bodies[r.URL.Path])),
			}, nil
		}))
	defer cloud.Stop()
	b.ReportAllocs()
	for b.Loop() {
		if answer, err := cloud.Ask(b.Context(), claim()); err != nil || answer.Verdict != ownership.Owned {
			b.Fatalf("Ask() = %+v, %v, want Owned", answer, err)
		}
	}
}
