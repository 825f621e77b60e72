package cloudsigma

import (
	"net/http"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// requestIDHeader is where CloudSigma says the id of a request.
const requestIDHeader = "X-Request-Id"

// exchange is the transport of one request, and what came back for it. The SDK puts the whole body of an error into the
// text of its own one, so it is shown no such body: what may be kept of it is taken out here.
type exchange struct {
	cloudhttp.Exchange
	refusal refusal
}

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	response, body, err := x.Send(request)
	if body != nil {
		x.refusal = parseRefusal(body)
	}
	return response, err
}

// unknown says why the request brought no verdict. failure is the SDK's error.
func (x *exchange) unknown(failure error) *ownership.UnknownError {
	cause := ownership.CauseCloud
	switch x.Status {
	case http.StatusUnauthorized:
		cause = ownership.CauseCredentials
	case http.StatusTooManyRequests:
		cause = ownership.CauseRateLimited
	}
	return x.Unknown(cause, x.refusal.kind, failure)
}
