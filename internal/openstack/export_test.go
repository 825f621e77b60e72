package openstack

import (
	"context"
	"net/http"
	"time"

	"warrantgate.dev/internal/ownership"
)

// CanonicalAuthURL exports canonicalAuthURL for tests.
var CanonicalAuthURL = canonicalAuthURL

// NewWith is New with another transport, for Secrets without CA certificates.
func NewWith(options Options, transport http.RoundTripper) (*Cloud, error) {
	c, err := New(options)
	if err == nil {
		c.transports.common = transport
	}
	return c, err
}

// Token returns the token of the credentials, as Delegation uses it.
func (c *Cloud) Token(ctx context.Context, identity ownership.Identity) (Token, error) {
	return c.token(ctx, identity, recent)
}

// TokenNow is Token with a new authentication, as DelegationNow uses it.
func (c *Cloud) TokenNow(ctx context.Context, identity ownership.Identity) (Token, error) {
	return c.token(ctx, identity, begunSince(time.Now()))
}
