package cloudhttp

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"
)

const (
	// requestTimeout bounds a request whose context does not end earlier.
	requestTimeout = 30 * time.Second
	// handshakeTimeout bounds the TLS handshake of a new connection.
	handshakeTimeout = 10 * time.Second
	// maxIdleConnections is how many connections to a host are kept for the next question. It is more than anybody lets be
	// asked at the same time: one that is given up costs the next question a TLS handshake.
	maxIdleConnections = 256
	// idleTimeout is how long they are kept.
	idleTimeout = 90 * time.Second
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 64 << 10
)

// NewTransport returns connections that many questions share. Without roots the authorities of the system are trusted.
func NewTransport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    maxIdleConnections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// NewClient returns a client for one request, which takes 30 seconds at most and follows no redirect.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: RefuseRedirect}
}

// RefuseRedirect is the CheckRedirect of clients to which a redirect is an answer like any other: who follows it shows the
// credentials to somebody else.
func RefuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
