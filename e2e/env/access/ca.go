package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// CA is a certificate authority. It signs the client certificates of users and the serving certificates of servers on this machine.
type CA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// KeyPair is a certificate and its private key, in PEM.
type KeyPair struct {
	Certificate, Key []byte
}

// NewCA returns a CA with a new key and a self-signed certificate.
func NewCA(name string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certificateTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &CA{certificate: certificate, key: key}, nil
}

// PEM returns the certificate of the CA.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.certificate.Raw})
}

// KeyPEM returns the private key of the CA.
func (c *CA) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ClientPair signs a client certificate. Kubernetes reads the user from the common name and its groups from the organizations.
func (c *CA) ClientPair(user string, groups []string) (KeyPair, error) {
	return c.sign(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth)
}

// ServingPair signs a certificate for a server on this machine. The functions can change the certificate before it is signed, for
// example its names or its validity.
func (c *CA) ServingPair(name string, changes ...func(*x509.Certificate)) (KeyPair, error) {
	return c.sign(pkix.Name{CommonName: name}, x509.ExtKeyUsageServerAuth, changes...)
}

func (c *CA) sign(subject pkix.Name, usage x509.ExtKeyUsage, changes ...func(*x509.Certificate)) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, err
	}
	template, err := certificateTemplate(subject)
	if err != nil {
		return KeyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	if usage == x509.ExtKeyUsageServerAuth {
		template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.certificate, key.Public(), c.key)
	if err != nil {
		return KeyPair{}, fmt.Errorf("sign certificate of %q: %w", subject.CommonName, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, err
	}
	return KeyPair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

// certificateTemplate is valid for a day. It begins an hour ago, in case clocks differ.
func certificateTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}, nil
}
