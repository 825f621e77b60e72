package openstack

import (
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// requestIDHeader is where OpenStack says the id of a request.
const requestIDHeader = "X-Openstack-Request-Id"

// exchange is the transport of one request, and what came back for it. gophercloud puts the whole body of an error into the
// text of its own one, so it is shown no such body: what may be kept of it is taken out here.
type exchange struct {
	cloudhttp.Exchange
	// otherwise is the cause of a failure that is neither a timeout nor too many requests.
	otherwise ownership.Cause
	refusal   refusal
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
		x.refusal = parseRefusal(x.Status, body)
	}
	return response, err
}

// client returns a client for this one request. It neither repeats it nor gets a token by itself.
func (x *exchange) client(userAgent, token string) *gophercloud.ProviderClient {
	client := &gophercloud.ProviderClient{TokenID: token, HTTPClient: *cloudhttp.NewClient(x)}
	client.UserAgent.Prepend(userAgent)
	return client
}

// response is the answer in short, such as "404 itemNotFound".
func (x *exchange) response() string { return x.Response(x.refusal.kind) }

// unknown says why the request brought no verdict. failure is gophercloud's error.
func (x *exchange) unknown(failure error) *ownership.UnknownError {
	cause := x.otherwise
	if x.asksForFewer() {
		cause = ownership.CauseRateLimited
	}
	return x.Unknown(cause, x.refusal.kind, failure)
}

// asksForFewer tells whether the answer is that of a limit of rate. Nova's own was 413 overLimit.
func (x *exchange) asksForFewer() bool {
	return x.Status == http.StatusTooManyRequests || x.Status == http.StatusRequestEntityTooLarge && x.refusal.kind == "overLimit"
}

func unknown(cause ownership.Cause, requestID, format string, args ...any) *ownership.UnknownError {
	return &ownership.UnknownError{Cause: cause, RequestID: requestID, Err: fmt.Errorf(format, args...)}
}
