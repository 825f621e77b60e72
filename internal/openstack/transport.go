package openstack

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"warrantgate.dev/internal/cloudhttp"
)

// maxTransports is the maximum number of cached transports with CAs of Secrets, keptFor their TTL after the last use. Most Secrets of a cloud
// have the same CAs.
const maxTransports, keptFor = 100, 10 * time.Minute

// transports are the HTTP transports, by trusted CAs.
type transports struct {
	roots  *x509.CertPool // nil for those of the system
	common http.RoundTripper
	// withCA are the transports for CAs of Secrets, by the digest of the CAs.
	withCA *otter.Cache[digest, *http.Transport]
}

func newTransports(roots *x509.CertPool) (*transports, error) {
	withCA, err := otter.New(&otter.Options[digest, *http.Transport]{
		MaximumSize:      maxTransports,
		ExpiryCalculator: otter.ExpiryAccessing[digest, *http.Transport](keptFor),
	})
	if err != nil {
		return nil, fmt.Errorf("cache of connections: %w", err)
	}
	return &transports{roots: roots, common: cloudhttp.NewTransport(roots), withCA: withCA}, nil
}

// of returns the transport that trusts the CAs of a Secret besides the common CAs. Idle connections of removed transports are closed.
func (t *transports) of(ca []byte) (http.RoundTripper, error) {
	if len(ca) == 0 {
		return t.common, nil
	}
	key := digest(sha256.Sum256(ca))
	if known, found := t.withCA.GetIfPresent(key); found {
		return known, nil
	}
	roots, err := t.commonRoots()
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New(caKey + " has no certificate in PEM")
	}
	transport, _ := t.withCA.SetIfAbsent(key, cloudhttp.NewTransport(roots))
	return transport, nil
}

// commonRoots returns a copy of the common CAs.
func (t *transports) commonRoots() (*x509.CertPool, error) {
	if t.roots != nil {
		return t.roots.Clone(), nil
	}
	return x509.SystemCertPool()
}
