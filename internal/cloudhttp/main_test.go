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

// exchange is the exchange of a cloud that keeps the bodies of error responses.
type exchange struct {
	cloudhttp.Exchange
	rejection []byte
}

func newExchange(next http.RoundTripper) *exchange {
	return &exchange{Exchange: cloudhttp.Exchange{Next: next, Operation: "server", Limit: 100, RequestIDHeader: "X-Request-Id"}}
}

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	response, rejection, err := x.Send(request)
	x.rejection = rejection
	return response, err
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
