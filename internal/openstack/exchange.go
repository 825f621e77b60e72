package openstack

import (
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"warrantgate.dev/internal/cloudhttp"
)

// requestIDHeader is the response header with the ID of a request.
const requestIDHeader = "X-Openstack-Request-Id"

// newExchange returns the transport of one request. gophercloud includes the whole body of an error in its error text.
func newExchange(next http.RoundTripper, operation cloudhttp.Operation, limit int64) *cloudhttp.Exchange {
	return &cloudhttp.Exchange{Next: next, Operation: operation, Limit: limit, RequestIDHeader: requestIDHeader, KindOf: kindOf}
}

// newClient returns a client for one request. It does not retry, and does not authenticate.
func newClient(x *cloudhttp.Exchange, userAgent, token string) *gophercloud.ProviderClient {
	client := &gophercloud.ProviderClient{TokenID: token, HTTPClient: *cloudhttp.NewClient(x)}
	client.UserAgent.Prepend(userAgent)
	return client
}
