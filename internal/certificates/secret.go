package certificates

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretType is the type of the Secret. A type is for good, so that no Secret of an operator's can become one that is
// written here, whatever flags name it.
const SecretType corev1.SecretType = "warrantgate.dev/certificate" //nolint:gosec // the name of a type, not a secret

// Keys of the Secret's data, beside tls.crt and tls.key. The first certificate of ca.crt is the authority of tls.crt, and
// those that follow are former ones.
const (
	authorityKey, authorityPrivateKey = "ca.crt", "ca.key"
	nextKey, nextPrivateKey           = "next-ca.crt", "next-ca.key"
)

// content is what the Secret holds.
type content struct{ authority, next, certificate pair }

func read(secret *corev1.Secret) content {
	d := secret.Data
	return content{
		authority:   pair{d[authorityKey], d[authorityPrivateKey]},
		next:        pair{d[nextKey], d[nextPrivateKey]},
		certificate: pair{d[corev1.TLSCertKey], d[corev1.TLSPrivateKeyKey]},
	}
}

func (c content) write(secret *corev1.Secret) {
	secret.Data = map[string][]byte{
		authorityKey: c.authority.certificate, authorityPrivateKey: c.authority.key,
		nextKey: c.next.certificate, nextPrivateKey: c.next.key,
		corev1.TLSCertKey: c.certificate.certificate, corev1.TLSPrivateKeyKey: c.certificate.key,
	}
	for key, value := range secret.Data {
		if len(value) == 0 {
			delete(secret.Data, key)
		}
	}
}

// promote makes the next authority the present one, and the present one a former.
func (c content) promote(i issuer) (content, error) {
	certificate, err := i.newCertificate(c.next)
	if err != nil {
		return content{}, err
	}
	former := parse(c.authority.certificate)
	bundle, err := merge(c.next.certificate, former[:min(len(former), mostFormer)], time.Now())
	if err != nil {
		return content{}, fmt.Errorf("keep the former authority: %w", err)
	}
	return content{authority: pair{bundle, c.next.key}, certificate: certificate}, nil
}

// checkType returns an error for a Secret that is somebody else's.
func checkType(secret *corev1.Secret) error {
	if secret.Type != SecretType {
		return fmt.Errorf("Secret %q is of type %q, not %q, so it is somebody else's and left alone; "+ //nolint:staticcheck // a kind
			"name another one in --certificate-secret", client.ObjectKeyFromObject(secret), secret.Type, SecretType)
	}
	return nil
}
