package openstack

import "net/http"

// CanonicalAuthURL is the form in which auth URLs are compared.
var CanonicalAuthURL = canonicalAuthURL

// NewWith is New over the transport of a test, for Secrets without certificate authorities.
func NewWith(options Options, transport http.RoundTripper) (*Cloud, error) {
	c, err := New(options)
	if err == nil {
		c.transports.common = transport
	}
	return c, err
}
