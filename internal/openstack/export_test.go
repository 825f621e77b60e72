package openstack

import "net/http"

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
