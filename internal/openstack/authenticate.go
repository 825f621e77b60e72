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

// authenticate gets a token, or a rejection, with one request. The error is an *ownership.UnknownError.
func (c *Cloud) authenticate(ctx context.Context, with *credentials) (*session, error) {
	x := newExchange(with.transport, opToken, cloudhttp.MaxBytes)
	// No version discovery: it would be another request, and its response could contain another URL.
	keystone := &gophercloud.ServiceClient{
		ProviderClient: newClient(x, c.userAgent, ""), Endpoint: with.keystone + identityVersion + "/", Type: "identity",
	}
	began := time.Now()
	result := tokens.Create(ctx, keystone, with.auth)
	var body tokenBody
	err := result.ExtractInto(&body)
	requests.Observe(opToken, x.Status, err == nil, time.Since(began))
	switch {
	case err != nil && rejects(x):
		return &session{rejection: fmt.Sprintf("%d%s", x.Status, inParentheses(x.RequestID())), began: began, usedUntil: time.Now().Add(rejectionTTL)}, nil
	case err != nil:
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
		began: began, usedUntil: began.Add(time.Duration(float64(life) * usedFor)),
	}, nil
}

// rejectionCodes are the status codes with which Keystone rejects credentials: for wrong ones and for missing roles (401), for a trust that lost
// its roles (403) or was deleted (404), and for invalid requests (400).
var rejectionCodes = []int{http.StatusUnauthorized, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}

// rejects reports whether Keystone rejects the credentials. A proxy in front of Keystone can return the same codes, but without Keystone's error
// format.
func rejects(x *cloudhttp.Exchange) bool {
	return x.Kind == kindKeystone && slices.Contains(rejectionCodes, x.Status)
}

// rejected returns the error for the user who wrote the credentials.
func (c *credentials) rejected(response string) error {
	return unusable(c.identity, IdentityDenied, "Keystone at %s rejects %s (%s): the credentials are wrong, expired or revoked, or have no role on %s; renew them in the Secret",
		c.keystone, c.who(), response, c.wanted())
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
