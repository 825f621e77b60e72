package cloudhttp

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"
)

const (
	// requestTimeout limits a request whose context has no earlier deadline.
	requestTimeout = 30 * time.Second
	// maxIdleConnections is the number of idle connections per host. It is larger than the limits of concurrent requests, because a
	// closed connection costs the next request a TLS handshake.
	maxIdleConnections = 256
)

// NewTransport returns a transport for many requests, with the timeouts of net/http. If roots is nil, it trusts the CAs of the system.
func NewTransport(roots *x509.CertPool) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck,forcetypeassert // nothing replaces it
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, maxIdleConnections
	return transport
}

// NewClient returns a client for one request. It times out after 30 seconds and does not follow redirects.
func NewClient(transport http.RoundTripper) *http.Client {
	// A redirect is the response. A client that follows it sends its credentials to another server.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: refuse}
}
