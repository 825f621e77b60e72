package certificates

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// Interval is the time between two looks at the Secret, and at whom API servers trust.
	Interval = 10 * time.Second
	// requestTimeout is how long one API server may take, so that it does not hold up what concerns others.
	requestTimeout = 4 * time.Second
	// fieldOwner is whose the authorities are in webhook configurations (server-side apply, KEP-555).
	fieldOwner = "warrantgate-certificates"
)

// Elector has one of several replicas lead.
type Elector interface {
	// Run calls lead whenever this replica leads, and returns when ctx ends.
	Run(ctx context.Context, lead func(context.Context)) error
}

// Keeper keeps a certificate in the Secret, in one of several replicas at a time, and has API servers trust it.
type Keeper struct {
	// Secrets reads and updates the Secret that Key names. It makes none: the right to would be one to make any.
	Secrets client.Client
	Key     client.ObjectKey
	// Names are what the certificate is for, one at least.
	Names []string
	// Life is how long a certificate holds from when it is made. Its authority holds four times as long.
	Life time.Duration
	// Registrations are where the authority has to be known.
	Registrations []Registration
	Election      Elector
}

// Start keeps the certificate while this replica leads, until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	return k.Election.Run(logf.IntoContext(ctx, logf.FromContext(ctx).WithName("certificates")), k.lead)
}

func (k *Keeper) lead(ctx context.Context) {
	var told news
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := k.keep(ctx)
		if ctx.Err() == nil && told.isNew(err) {
			logf.FromContext(ctx).Error(err, "the certificate is not kept as it should be; trying again")
		}
	}, Interval)
}

// keep makes one pass. Each may be the last of this replica, at any line: the next one, of whichever replica, goes on from
// what the Secret holds.
func (k *Keeper) keep(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := k.get(ctx, secret); err != nil {
		return err
	}
	i, held := issuer{k.Names, k.Life}, read(secret)
	held, err := k.prepareNext(ctx, i, secret, held)
	if err != nil {
		return err
	}
	fresh, trustErr := k.trust(ctx, append(parse(held.authority.certificate), parse(held.next.certificate)...))
	why := due(func(at time.Time) error { return i.judgeCertificate(held.authority.certificate, held.certificate, at) }, k.Life)
	if len(held.next.certificate) > 0 {
		good := i.judgeAuthority(held.authority, time.Now().Add(k.Life)) == nil
		switch {
		case fresh: // API servers have to take it up first
			return trustErr
		case trustErr != nil && (why == nil || good): // there is time to wait for the others
			trustErr = fmt.Errorf("the authority is not changed before all API servers trust the next one: %w", trustErr)
		default:
			promoted, err := held.promote(i)
			if err != nil {
				return err
			}
			return errors.Join(trustErr, k.update(ctx, secret, promoted, "made a certificate by the next authority", cmp.Or(why, errEnding)))
		}
	}
	if why == nil {
		return trustErr
	}
	if held.certificate, err = i.newCertificate(held.authority); err != nil {
		return err
	}
	return errors.Join(trustErr, k.update(ctx, secret, held, "made a certificate", why))
}

// prepareNext has an authority ready that will take the place of the present one, where that has to go.
func (k *Keeper) prepareNext(ctx context.Context, i issuer, secret *corev1.Secret, held content) (content, error) {
	why := due(func(at time.Time) error { return i.judgeAuthority(held.authority, at) }, authorityLives*i.life)
	usable := i.judgeAuthority(held.next, time.Now()) == nil
	switch {
	case why == nil && len(held.next.certificate) == 0, why != nil && usable:
		return held, nil
	case why == nil: // what was begun is of no use, or has been superseded
		held.next = pair{}
		return held, k.update(ctx, secret, held, "took back the next authority", nil)
	}
	var err error
	if held.next, err = i.newAuthority(); err != nil {
		return held, err
	}
	return held, k.update(ctx, secret, held, "made the next authority", why)
}

// trust has every API server trust the authorities, as far as it can be reached; see Registration.trust.
func (k *Keeper) trust(ctx context.Context, authorities []*x509.Certificate) (fresh bool, err error) {
	for _, registration := range k.Registrations {
		changed, failure := registration.trust(ctx, authorities)
		fresh, err = fresh || changed, errors.Join(err, failure)
	}
	return fresh, err
}

func (k *Keeper) get(ctx context.Context, secret *corev1.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := k.Secrets.Get(ctx, k.Key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("read the Secret of the certificate: %w; make one of type %s without data", err, SecretType)
	case err != nil:
		return fmt.Errorf("read the Secret of the certificate: %w", err)
	}
	return checkType(secret)
}

// update writes the Secret, unless somebody else has written it since it was read.
func (k *Keeper) update(ctx context.Context, secret *corev1.Secret, held content, what string, why error) error {
	requestCtx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	held.write(secret)
	if err := k.Secrets.Update(requestCtx, secret, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("write the Secret of the certificate: %w", err)
	}
	values := []any{"secret", k.Key.String()}
	if why != nil {
		values = append(values, "reason", why.Error())
	}
	if certificates := parse(held.certificate.certificate); len(certificates) > 0 {
		values = append(values, "certificateEnds", certificates[0].NotAfter)
	}
	logf.FromContext(ctx).Info(what, values...)
	return nil
}

// news tells failures that have not been told yet.
type news struct{ last string }

func (n *news) isNew(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	told := n.last
	n.last = text
	return text != "" && text != told
}
