package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// maxAuthBytes is the maximum size of Keystone's response. The largest part is the catalog: about 2 KiB for each service in each region.
const maxAuthBytes = 1 << 20

// authenticate gets a token with one request. The error is an *ownership.UnknownError, or a *rejected.
func (c *Cloud) authenticate(ctx context.Context, with *credentials) (*session, error) {
	transport, err := c.transports.of(with.ca)
	if err != nil {
		return nil, &rejected{reason: IdentityMalformed, err: err}
	}
	x := newExchange(transport, opToken, maxAuthBytes)
	// No version discovery: it would be another request, and its response could contain another URL.
	keystone := &gophercloud.ServiceClient{
		ProviderClient: newClient(x, c.userAgent, ""), Endpoint: with.keystone + identityVersion + "/", Type: "identity",
	}
	began := time.Now()
	result := tokens.Create(ctx, keystone, with.auth)
	var body tokenBody
	err = result.ExtractInto(&body)
	requests.Observe(opToken, x.Status, err == nil, time.Since(began))
	if err != nil {
		if rejects(x) {
			return nil, &rejected{
				reason: IdentityDenied, status: x.Status, requestID: x.RequestID(), definite: x.Kind == kindKeystone,
			}
		}
		return nil, x.Unknown(ownership.CauseIdentityProvider, err)
	}
	secret, err := result.ExtractTokenID()
	if err != nil {
		return nil, x.Unknown(ownership.CauseIdentityProvider, err)
	}
	return newSession(began, secret, body, x)
}

// newSession validates Keystone's response.
func newSession(began time.Time, secret string, body tokenBody, x *cloudhttp.Exchange) (*session, error) {
	broken := func(what string) (*session, error) {
		return nil, cloudhttp.Unknown(ownership.CauseIdentityProvider, x.RequestID(), "%s request: %s", opToken, what)
	}
	life := body.ExpiresAt.Sub(body.IssuedAt)
	switch {
	case !cloudhttp.Sendable(secret):
		return broken("the answer has no token that can be sent in a header")
	case body.User.ID == "":
		return broken("the answer names no user")
	case body.IssuedAt.IsZero() || life <= 0:
		return broken("the response does not contain the expiry of the token")
	}
	return &session{
		token: body.token(x.RequestID()), secret: secret, endpoints: computeEndpoints(body.Catalog),
		began: began, usedUntil: began.Add(time.Duration(float64(min(life, maxLife)) * usedFor)),
	}, nil
}

// rejectionCodes are the status codes, besides 401 for wrong credentials and missing roles, with which Keystone rejects credentials: a trust that
// lost its roles (403) or was deleted (404), and invalid requests (400).
var rejectionCodes = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}

// rejects reports whether Keystone rejects the credentials. A proxy in front of Keystone can also return 400, 403 and 404, but without
// Keystone's error format.
func rejects(x *cloudhttp.Exchange) bool {
	return x.Status == http.StatusUnauthorized || x.Kind == kindKeystone && slices.Contains(rejectionCodes, x.Status)
}

// rejected is the error for rejected credentials. It names no Secret, because lookups for several Secrets with the same credentials share it.
type rejected struct {
	reason    string
	status    int
	requestID string
	// definite is true if Keystone itself rejects them, and not a proxy in front of it.
	definite bool
	err      error
}

// Error implements error.
func (r *rejected) Error() string { return r.reason }

// explain returns the error for the user who wrote the credentials.
func (r *rejected) explain(c *credentials) error {
	if r.err != nil {
		return unusable(c.identity, r.reason, "%v", r.err)
	}
	return unusable(c.identity, r.reason, "Keystone at %s rejects %s (%d%s): the credentials are wrong, expired or revoked, or have no role on %s; renew them in the Secret",
		c.keystone, c.who(), r.status, inParentheses(r.requestID), c.wanted())
}

func inParentheses(requestID string) string {
	if requestID == "" {
		return ""
	}
	return ", request " + requestID
}

// wanted describes the scope of the credentials.
func (c *credentials) wanted() string {
	scope := c.auth.Scope
	switch {
	case scope.ProjectID+scope.ProjectName != "":
		return fmt.Sprintf("project %.100q", scope.ProjectID+scope.ProjectName)
	case scope.DomainID+scope.DomainName != "":
		return fmt.Sprintf("domain %.100q", scope.DomainID+scope.DomainName)
	}
	return "what they are for"
}
