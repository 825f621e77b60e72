package certificates

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/client-go/util/cert"
)

const (
	// authorityName and organization are the subject of all authorities. By the latter they are told from others' in a bundle.
	authorityName, organization = "warrantgate-ca", "warrantgate"
	// skew is how long before it is made a certificate begins, for API servers whose clock is late.
	skew = time.Hour
	// authorityLives is how many times as long as a certificate its authority holds. Its own last third is then longer than
	// the life of a certificate, so that no certificate outlives the authority.
	authorityLives = 4
)

// serverAuth is what certificates are for.
func serverAuth() *[]x509.ExtKeyUsage { return &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

// issuer makes and judges certificates for names that hold for a time.
type issuer struct {
	names []string
	life  time.Duration
}

func (i issuer) rotator() *rotator.CertRotator {
	return &rotator.CertRotator{
		CAName: authorityName, CAOrganization: organization, DNSName: i.names[0], ExtraDNSNames: i.names[1:], ExtKeyUsages: serverAuth(),
	}
}

// pair is a certificate and its key, in PEM.
type pair struct{ certificate, key []byte }

func (i issuer) newAuthority() (pair, error) {
	now := time.Now()
	made, err := i.rotator().CreateCACert(now.Add(-skew), now.Add(authorityLives*i.life))
	if err != nil {
		return pair{}, fmt.Errorf("make an authority: %w", err)
	}
	return pair{made.CertPEM, made.KeyPEM}, nil
}

func (i issuer) newCertificate(authority pair) (pair, error) {
	parsed, err := tls.X509KeyPair(authority.certificate, authority.key)
	if err != nil {
		return pair{}, fmt.Errorf("read the authority: %w", err)
	}
	key, ok := parsed.PrivateKey.(*rsa.PrivateKey)
	if !ok {
		return pair{}, fmt.Errorf("read the authority: its key is a %T, not one that was made here", parsed.PrivateKey)
	}
	now := time.Now()
	signer := &rotator.KeyPairArtifacts{Cert: parsed.Leaf, Key: key}
	certificate, privateKey, err := i.rotator().CreateCertPEM(signer, now.Add(-skew), now.Add(i.life))
	if err != nil {
		return pair{}, fmt.Errorf("make a certificate: %w", err)
	}
	return pair{certificate, privateKey}, nil
}

// judgeAuthority returns why nothing can be signed at a time.
func (i issuer) judgeAuthority(authority pair, at time.Time) error {
	_, err := rotator.ValidCert(authority.certificate, authority.certificate, authority.key, authorityName, nil, at)
	return err
}

// judgeCertificate returns why an API server that trusts the authority would not trust a server of the names at a time.
func (i issuer) judgeCertificate(authority []byte, certificate pair, at time.Time) error {
	for _, name := range i.names {
		if err := judgeServing(authority, certificate, name, at); err != nil {
			return err
		}
	}
	return nil
}

// judgeServing does so for one name, or for whichever it is where the name is empty.
func judgeServing(authority []byte, certificate pair, name string, at time.Time) error {
	_, err := rotator.ValidCert(authority, certificate.certificate, certificate.key, name, serverAuth(), at)
	return err
}

// errEnding is why what still holds is renewed.
var errEnding = errors.New("a third of its life is left")

// due returns why something that holds for life has to be renewed now, nil where it need not. A third of its life is then
// left at least, as it is looked at once in an Interval.
func due(judge func(at time.Time) error, life time.Duration) error {
	now := time.Now()
	if err := judge(now); err != nil {
		return err
	}
	if judge(now.Add(life/3+Interval)) != nil {
		return errEnding
	}
	return nil
}

// parse returns the certificates of a bundle, none where it is empty or no bundle.
func parse(bundle []byte) []*x509.Certificate {
	found, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	return found
}
