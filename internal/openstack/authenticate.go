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

// maxAuthBytes bounds Keystone's answer, of which the catalog is the most: some 2 KiB for each service in each region.
const maxAuthBytes = 1 << 20

// authenticate gets a token with one request. The error is an *ownership.UnknownError, or a *refused.
func (c *Cloud) authenticate(ctx context.Context, with *credentials) (*session, error) {
	transport, err := c.transports.of(with.ca)
	if err != nil {
		return nil, &refused{reason: IdentityMalformed, err: err}
	}
	x := newExchange(transport, opToken, maxAuthBytes, ownership.CauseIdentityProvider)
	// Neither is version discovery needed, which would be another request, nor may Keystone say that it is elsewhere.
	keystone := &gophercloud.ServiceClient{
		ProviderClient: x.client(c.userAgent, ""), Endpoint: with.keystone + identityVersion + "/", Type: "identity",
	}
	began := time.Now()
	result := tokens.Create(ctx, keystone, with.auth)
	var body tokenBody
	err = result.ExtractInto(&body)
	requests.Observe(opToken, x.Status, err == nil, time.Since(began))
	if err != nil {
		if x.refuses() {
			return nil, &refused{
				reason: IdentityRefused, status: x.Status, requestID: x.RequestID(), definite: x.refusal.kind == kindKeystone,
			}
		}
		return nil, x.unknown(err)
	}
	secret, err := result.ExtractTokenID()
	if err != nil {
		return nil, x.unknown(err)
	}
	return newSession(began, secret, body, x)
}

// newSession checks what Keystone answered.
func newSession(began time.Time, secret string, body tokenBody, x *exchange) (*session, error) {
	broken := func(what string) (*session, error) {
		return nil, unknown(ownership.CauseIdentityProvider, x.RequestID(), "%s request: %s", opToken, what)
	}
	life := body.ExpiresAt.Sub(body.IssuedAt)
	switch {
	case !cloudhttp.Sendable(secret):
		return broken("the answer has no token that can be sent in a header")
	case body.User.ID == "":
		return broken("the answer names no user")
	case body.IssuedAt.IsZero() || life <= 0:
		return broken("the answer does not say how long the token lives")
	}
	return &session{
		token: body.token(x.RequestID()), secret: secret, endpoints: computeEndpoints(body.Catalog),
		began: began, usedUntil: began.Add(time.Duration(float64(min(life, maxLife)) * usedFor)),
	}, nil
}

// refusals are the answers by which Keystone says that it is not going to give out a token for these credentials: wrong ones
// or no role (401), a trust that lost its roles (403) or is gone (404), and what cannot be at all (400).
var refusals = []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}

// refuses tells whether the credentials are refused. Whoever stands before Keystone answers 400, 403 and 404 as well, but not
// in Keystone's words.
func (x *exchange) refuses() bool {
	return x.Status == http.StatusUnauthorized || x.refusal.kind == kindKeystone && slices.Contains(refusals, x.Status)
}

// refused says that the credentials are of no use. Whoever shared the request says in which Secret.
type refused struct {
	reason    string
	status    int
	requestID string
	// definite tells whether Keystone itself refuses them, and not whoever stands before it.
	definite bool
	err      error
}

// Error implements error.
func (r *refused) Error() string { return r.reason }

// explain makes it an error for those who wrote the credentials.
func (r *refused) explain(c *credentials) error {
	if r.err != nil {
		return unusable(c.identity, r.reason, "%v", r.err)
	}
	return unusable(c.identity, r.reason, "Keystone at %s refuses %s (%d%s): the credentials are wrong, expired or revoked, or have no role on %s; renew them in the Secret",
		c.keystone, c.who(), r.status, inParentheses(r.requestID), c.wanted())
}

func inParentheses(requestID string) string {
	if requestID == "" {
		return ""
	}
	return ", request " + requestID
}

// wanted names what the credentials were to be used for.
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
