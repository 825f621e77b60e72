package openstack

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/utils/lru"

	"warrantgate.dev/internal/cloudhttp"
)

const (
	// maxTransports is the maximum number of cached transports with CAs of Secrets. Most Secrets of a cloud have the same CAs.
	maxTransports = 32
	// maxCABytes is the maximum size of the CAs of a Secret, because a tenant can write other CAs into each of many Secrets. All CAs of a
	// browser have about 220 KiB.
	maxCABytes = 256 << 10
)

// transports are the HTTP transports, by trusted CAs.
type transports struct {
	roots  *x509.CertPool // nil for those of the system
	common http.RoundTripper
	// withCA are the transports for CAs of Secrets that were used last, by the digest of the CAs. Idle connections of removed transports are
	// closed: a connection keeps the CAs in memory.
	withCA *lru.Cache
}

func newTransports(roots *x509.CertPool) *transports {
	withCA := lru.NewWithEvictionFunc(maxTransports, func(_ lru.Key, transport any) { closeIdle(transport) })
	return &transports{roots: roots, common: cloudhttp.NewTransport(roots), withCA: withCA}
}

func closeIdle(cached any) {
	if transport, ok := cached.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// stop closes all idle connections.
func (t *transports) stop() {
	t.withCA.Clear()
	closeIdle(t.common)
}

// of returns the transport that trusts the CAs of a Secret besides the common CAs.
func (t *transports) of(ca []byte) (http.RoundTripper, error) {
	if len(ca) == 0 {
		return t.common, nil
	}
	if len(ca) > maxCABytes {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", caKey, len(ca), maxCABytes)
	}
	key := digest(sha256.Sum256(ca))
	cached, _ := t.withCA.Get(key)
	if known, ok := cached.(*http.Transport); ok {
		return known, nil
	}
	roots, err := t.commonRoots()
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New(caKey + " has no certificate in PEM")
	}
	transport := cloudhttp.NewTransport(roots)
	t.withCA.Add(key, transport)
	return transport, nil
}

// commonRoots returns a copy of the common CAs.
func (t *transports) commonRoots() (*x509.CertPool, error) {
	if t.roots != nil {
		return t.roots.Clone(), nil
	}
	return x509.SystemCertPool()
}
