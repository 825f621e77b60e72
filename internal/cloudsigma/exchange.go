package cloudsigma

import (
	"net/http"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// requestIDHeader is the response header with the ID of a request.
const requestIDHeader = "X-Request-Id"

// exchange is the transport of one request, and its response. The SDK includes the whole body of an error response in its error.
// exchange therefore parses the body here, and gives the SDK an empty one.
type exchange struct {
	cloudhttp.Exchange
	rejection rejection
}

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	response, body, err := x.Send(request)
	if body != nil {
		x.rejection = parseRejection(body)
	}
	return response, err
}

// unknown returns the error of a request without a verdict. failure is the error of the SDK.
func (x *exchange) unknown(failure error) *ownership.UnknownError {
	cause := ownership.CauseCloud
	switch x.Status {
	case http.StatusUnauthorized:
		cause = ownership.CauseCredentials
	case http.StatusTooManyRequests:
		cause = ownership.CauseRateLimited
	}
	return x.Unknown(cause, x.rejection.kind, failure)
}
