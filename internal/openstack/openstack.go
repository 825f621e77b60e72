// Package openstack looks up the project of a server in an OpenStack, with the credentials in the Secret of a cluster.
//
// A verdict depends on two responses. Keystone returns the project of the credentials. Nova returns the server with the ID of its project: a
// server of the same project, or, to administrators only, a server of another project. To all others it returns 404. Only configured
// Keystones are trusted, so that a Secret cannot name another one. Verdicts are not cached. Tokens are, and rejections of credentials for
// some seconds. A failed request is not retried, except once with a new token after 401.
//
// All credentials come from the Secret, and none from the environment of the process.
package openstack

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	"warrantgate.dev/internal/ownership"
)

// Options configure the access to OpenStack.
type Options struct {
	// AuthURLs are the URLs of Keystone that a clouds.yaml may contain, such as https://keystone.example.com:5000/v3.
	AuthURLs []string
	// RootCAs are the trusted CAs, besides those of a Secret. Default: those of the system.
	RootCAs *x509.CertPool
	// UserAgent is the User-Agent of requests.
	UserAgent string
	// Secrets returns the data of a Secret. It is called for each lookup, so that changes have an immediate effect.
	Secrets func(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Cloud is an OpenStack. It is safe for concurrent use.
type Cloud struct {
	secrets   func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	authURLs  []string // in canonical form
	userAgent string

	transports *transports
	sessions   *sessions
}

var _ ownership.Cloud = &Cloud{}

// New returns a Cloud, or an error for invalid options. It sends no request.
func New(options Options) (*Cloud, error) {
	c := &Cloud{secrets: options.Secrets, userAgent: options.UserAgent, transports: newTransports(options.RootCAs)}
	for i, authURL := range options.AuthURLs {
		canonical, ok := canonicalAuthURL(authURL)
		if !ok { // the error does not contain the URL, which may contain a password
			return nil, fmt.Errorf("auth URL %d: it has to be http:// or https://, a host and a path, such as %q", i+1, exampleAuthURL)
		}
		c.authURLs = append(c.authURLs, canonical)
	}
	slices.Sort(c.authURLs)
	c.sessions = newSessions(c.authenticate)
	return c, nil
}

// Stop ends the goroutines and idle connections of the cloud. A cloud that is used until the end of the process needs no Stop.
func (c *Cloud) Stop() {
	c.sessions.remembered.StopAllGoroutines()
	c.transports.stop()
}

// token returns a token of the credentials for which wanted returns true. The error is an *ownership.IdentityError if the credentials cannot be
// used, otherwise an *ownership.UnknownError.
func (c *Cloud) token(ctx context.Context, identity ownership.Identity, wanted func(*session) bool) (Token, error) {
	credentials, err := c.credentials(ctx, identity)
	if err != nil {
		return Token{}, err
	}
	s, err := c.sessions.get(ctx, credentials, wanted)
	if err != nil {
		return Token{}, err
	}
	return s.token, nil
}
