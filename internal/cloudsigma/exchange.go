package cloudsigma

import (
	"net/http"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// requestIDHeader is the response header with the ID of a request.
const requestIDHeader = "X-Request-Id"

// exchange is the transport of one request, and its response. The SDK includes the whole body of an error response in its error.
type exchange struct {
	cloudhttp.Exchange
	// userID is the user that the response denies access to, or "".
	userID string
}

func newExchange(next http.RoundTripper, r request) *exchange {
	x := &exchange{}
	x.Exchange = cloudhttp.Exchange{
		Next: next, Operation: r.operation, Limit: r.limit, RequestIDHeader: requestIDHeader,
		KindOf: func(_ int, body []byte) (kind string) {
			kind, x.userID = parseRejection(body)
			return kind
		},
	}
	return x
}

// unknown returns the error of a request without a verdict. failure is the error of the SDK.
func (x *exchange) unknown(failure error) *ownership.UnknownError {
	if x.Status == http.StatusUnauthorized {
		return x.Unknown(ownership.CauseCredentials, failure)
	}
	return x.Unknown(ownership.CauseCloud, failure)
}
