package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// firstInterval is the time between two looks at the Secret while there is nothing to serve with.
const firstInterval = time.Second

var errNone = errors.New("there is no certificate yet")

// Source is what a replica serves with: the certificate of the Secret, as it was when it was last usable. It needs no leader.
type Source struct {
	// Secrets reads the Secret that Key names, and no other.
	Secrets client.Reader
	Key     client.ObjectKey
	// Changed is called with each certificate before it is served.
	Changed func(tls.Certificate)

	current atomic.Pointer[tls.Certificate]
}

// Start looks at the Secret until ctx ends.
func (s *Source) Start(ctx context.Context) error {
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithName("certificates"))
	var told news
	look := func(ctx context.Context) bool {
		err := s.look(ctx)
		if ctx.Err() == nil && told.isNew(err) {
			logf.FromContext(ctx).Info("the Secret holds no certificate to serve with; trying again", "secret", s.Key.String(),
				"reason", err.Error(), "serving", s.current.Load() != nil)
		}
		return s.current.Load() != nil
	}
	_ = wait.PollUntilContextCancel(ctx, firstInterval, true, func(ctx context.Context) (bool, error) { return look(ctx), nil }) // it ends with ctx, or with a certificate
	wait.UntilWithContext(ctx, func(ctx context.Context) { look(ctx) }, Interval)
	return nil
}

// look serves what the Secret holds, if that is usable.
func (s *Source) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secret := &corev1.Secret{}
	if err := s.Secrets.Get(ctx, s.Key, secret); err != nil {
		return fmt.Errorf("read the Secret: %w", err)
	}
	if err := checkType(secret); err != nil {
		return err
	}
	held := read(secret)
	// For which names it is, is up to the leader: in an upgrade that adds one, a new replica has to serve before it can lead.
	if err := judgeServing(held.authority.certificate, held.certificate, "", time.Now()); err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(held.certificate.certificate, held.certificate.key)
	if err != nil {
		return err
	}
	if before := s.current.Load(); before != nil && before.Leaf.Equal(certificate.Leaf) {
		return nil
	}
	s.Changed(certificate)
	s.current.Store(&certificate)
	logf.FromContext(ctx).Info("serving with another certificate", "secret", s.Key.String(), "ends", certificate.Leaf.NotAfter)
	return nil
}

// GetCertificate is for a TLS server. Connections that are open keep the certificate they began with.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if certificate := s.current.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNone
}

// Ready is a check of readiness: that there is a certificate.
func (s *Source) Ready(*http.Request) error {
	_, err := s.GetCertificate(nil)
	return err
}
