// Package openstack asks an OpenStack whose a server is, with the credentials that a cluster brings in a Secret.
//
// The verdict rests on two answers. Keystone says of the credentials which project they are for; Nova shows a server of
// that project with the project's ID, knows no server of another one, and shows an administrator those of others, which
// have another ID. Which Keystone may be believed is configured: a Secret cannot name its own. No verdict is cached, only
// tokens, and for some seconds that Keystone refuses to give one out. Nothing here asks again after a failure, except once with
// another token: who asks, decides whether to go on.
//
// Everything about the credentials comes from the Secret, and nothing from the environment of the process.
package openstack

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"warrantgate.dev/internal/ownership"
)

// defaultUserAgent is how OpenStack sees us unless told otherwise.
const defaultUserAgent = "warrantgate"

// Options say how OpenStack is asked.
type Options struct {
	// AuthURLs are the Keystones that a clouds.yaml may name, such as https://keystone.example.com:5000/v3. At least one.
	AuthURLs []string
	// RootCAs are the certificate authorities to trust besides those of a Secret. Default: those of the system.
	RootCAs *x509.CertPool
	// UserAgent is how OpenStack sees us. Default: warrantgate.
	UserAgent string
	// Secrets returns the data of a Secret. It is called for each question, so that a Secret that changes is used at once.
	Secrets func(ctx context.Context, namespace, name string) (map[string][]byte, error)
}

// Cloud is OpenStack. Its methods may be called at the same time.
type Cloud struct {
	secrets   func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	authURLs  []string // in canonical form
	userAgent string

	transports *transports
	sessions   *sessions
}

var _ ownership.Cloud = &Cloud{}

// New returns OpenStack as the options say, or what is wrong with them. It sends no request.
func New(options Options) (*Cloud, error) {
	if options.Secrets == nil {
		return nil, errors.New("nothing to read Secrets with")
	}
	if len(options.AuthURLs) == 0 {
		return nil, errors.New("at least one auth URL is needed")
	}
	c := &Cloud{secrets: options.Secrets, userAgent: options.UserAgent}
	if c.userAgent == "" {
		c.userAgent = defaultUserAgent
	}
	for i, authURL := range options.AuthURLs {
		canonical, ok := canonicalAuthURL(authURL)
		if !ok { // the URL is not repeated, because it may hold a password
			return nil, fmt.Errorf("auth URL %d: it has to be http:// or https://, a host and a path, such as %q", i+1, exampleAuthURL)
		}
		c.authURLs = append(c.authURLs, canonical)
	}
	slices.Sort(c.authURLs)
	var err error
	if c.transports, err = newTransports(options.RootCAs); err != nil {
		return nil, err
	}
	if c.sessions, err = newSessions(c.authenticate); err != nil {
		return nil, err
	}
	return c, nil
}

// Token returns what Keystone says of the credentials. It is at most 5 minutes old, and some seconds where Keystone refuses
// them. The error is an *ownership.IdentityError where the credentials are of no use, else an *ownership.UnknownError.
func (c *Cloud) Token(ctx context.Context, identity ownership.Identity) (Token, error) {
	return c.token(ctx, identity, recent)
}

// TokenNow is Token of an authentication that begins after the call. What it finds replaces what is remembered.
func (c *Cloud) TokenNow(ctx context.Context, identity ownership.Identity) (Token, error) {
	return c.token(ctx, identity, begunSince(time.Now()))
}

func (c *Cloud) token(ctx context.Context, identity ownership.Identity, wanted func(*session) bool) (Token, error) {
	s, err := c.session(ctx, identity, wanted)
	if err != nil {
		return Token{}, err
	}
	return s.token.clone(), nil
}

// session reads the Secret and returns a session that is as wanted. The error is that of Token.
func (c *Cloud) session(ctx context.Context, identity ownership.Identity, wanted func(*session) bool) (*session, error) {
	credentials, err := c.credentials(ctx, identity)
	if err != nil {
		return nil, err
	}
	return c.sessions.get(ctx, credentials, wanted)
}
