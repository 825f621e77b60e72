package openstack

import (
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// requestIDHeader is the response header with the ID of a request.
const requestIDHeader = "X-Openstack-Request-Id"

// exchange is the transport of one request, and its response. gophercloud includes the whole body of an error in its error text. So exchange
// hides this body from gophercloud, and keeps only the kind of the error.
type exchange struct {
	cloudhttp.Exchange
	// otherwise is the cause of failures other than timeouts and rate limits.
	otherwise ownership.Cause
	rejection rejection
}

func newExchange(next http.RoundTripper, operation cloudhttp.Operation, limit int64, otherwise ownership.Cause) *exchange {
	return &exchange{
		Exchange:  cloudhttp.Exchange{Next: next, Operation: operation, Limit: limit, RequestIDHeader: requestIDHeader},
		otherwise: otherwise,
	}
}

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	response, body, err := x.Send(request)
	if body != nil {
		x.rejection = parseRejection(x.Status, body)
	}
	return response, err
}

// client returns a client for this request. It does not retry, and does not authenticate.
func (x *exchange) client(userAgent, token string) *gophercloud.ProviderClient {
	client := &gophercloud.ProviderClient{TokenID: token, HTTPClient: *cloudhttp.NewClient(x)}
	client.UserAgent.Prepend(userAgent)
	return client
}

// response returns the status and kind of the response, such as "404 itemNotFound".
func (x *exchange) response() string { return x.Response(x.rejection.kind) }

// unknown returns the error of a request without a verdict. failure is the error of gophercloud.
func (x *exchange) unknown(failure error) *ownership.UnknownError {
	cause := x.otherwise
	if x.asksForFewer() {
		cause = ownership.CauseRateLimited
	}
	return x.Unknown(cause, x.rejection.kind, failure)
}

// asksForFewer reports whether the response is that of a rate limit. Nova's former one was 413 overLimit.
func (x *exchange) asksForFewer() bool {
	return x.Status == http.StatusTooManyRequests || x.Status == http.StatusRequestEntityTooLarge && x.rejection.kind == "overLimit"
}

func unknown(cause ownership.Cause, requestID, format string, args ...any) *ownership.UnknownError {
	return &ownership.UnknownError{Cause: cause, RequestID: requestID, Err: fmt.Errorf(format, args...)}
}
