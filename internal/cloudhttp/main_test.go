package cloudhttp_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"warrantgate.dev/internal/cloudhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is a text in data that must not reach the caller.
const canary = "canary"

// exchange is an exchange that keeps the body of an error response.
type exchange struct {
	cloudhttp.Exchange
	rejection []byte
}

func newExchange(next http.RoundTripper) *exchange {
	x := &exchange{}
	x.Exchange = cloudhttp.Exchange{
		Next: next, Operation: "server", Limit: 100, RequestIDHeader: "X-Request-Id",
		KindOf: func(_ int, body []byte) string {
			x.rejection = body
			return "overLimit"
		},
	}
	return x
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// get sends a request to the URL.
func (x *exchange) get(t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("NewRequest() error = %v", err)
	}
	return cloudhttp.NewClient(x).Do(request)
}
