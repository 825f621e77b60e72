package openstack

import (
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/gophercloud/gophercloud/v2"

	"warrantgate.dev/internal/cloudhttp"
)

// cloudName is the name of this cloud in metrics.
const cloudName = "openstack"

// Operations of requests.
const (
	opToken  cloudhttp.Operation = "token"
	opServer cloudhttp.Operation = "server"
	opList   cloudhttp.Operation = "list"
)

var requests = cloudhttp.NewRequests(cloudName, opToken, opServer, opList)

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

// Kinds of errors in responses of OpenStack.
const (
	// kindKeystone is the kind of every error of Keystone.
	kindKeystone = "error"
	// kindNotFound is Nova's kind for a server that does not exist, or that belongs to another project.
	kindNotFound = "itemNotFound"
	// kindForbidden is Nova's kind for requests that its policy denies.
	kindForbidden = "forbidden"
)

var kindPattern = regexp.MustCompile(`^[A-Za-z]{1,40}$`)

// kindOf returns the kind of an error, such as "itemNotFound", "" if the body is not from OpenStack. The body of an error is an object with one
// key, the kind of the error, and an object with the status code as its value. The rest may name objects of other users.
func kindOf(status int, body []byte) string {
	var errors map[string]struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(body, &errors) != nil || len(errors) != 1 {
		return ""
	}
	for kind, said := range errors {
		if said.Code == status && kindPattern.MatchString(kind) {
			return kind
		}
	}
	return ""
}
