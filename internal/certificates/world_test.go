package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/certificates"
)

const (
	serviceName = "warrantgate.warrantgate-system.svc"
	// life is short, so that a test looks at whole lives.
	life = 45 * time.Minute
)

var key = client.ObjectKey{Namespace: "warrantgate-system", Name: "warrantgate-certificate"}

// api is an API server that can be away.
type api struct {
	client.Client
	mu     sync.Mutex
	away   error
	writes int
}

func newAPI(objects ...client.Object) *api {
	a := &api{}
	answer := func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.away
	}
	wrote := func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.writes++
		return a.away
	}
	a.Client = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := answer(); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := wrote(); err != nil {
				return err
			}
			return c.Update(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := wrote(); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	return a
}

func (a *api) setAway(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away = err
}

func (a *api) written() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writes
}

// bundles are what the API server trusts, for each webhook.
func (a *api) bundles(t *testing.T) [][]byte {
	t.Helper()
	var found [][]byte
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfigurationList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := errors.Join(a.List(t.Context(), mutating), a.List(t.Context(), validating)); err != nil {
		t.Fatal(err)
	}
	for _, configuration := range mutating.Items {
		for _, hook := range configuration.Webhooks {
			found = append(found, hook.ClientConfig.CABundle)
		}
	}
	for _, configuration := range validating.Items {
		for _, hook := range configuration.Webhooks {
			found = append(found, hook.ClientConfig.CABundle)
		}
	}
	return found
}

// trusts returns an error where a webhook of the API server would not trust the certificate now.
func (a *api) trusts(t *testing.T, certificate *tls.Certificate) error {
	t.Helper()
	bundles := a.bundles(t)
	if len(bundles) == 0 {
		return errors.New("there are no webhooks")
	}
	for _, bundle := range bundles {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: serviceName, CurrentTime: time.Now()}); err != nil {
			return err
		}
	}
	return nil
}

func configurations(bundle []byte) []client.Object {
	connection := admissionregistrationv1.WebhookClientConfig{CABundle: bundle}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "a.warrantgate.dev", ClientConfig: connection}},
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "b.warrantgate.dev", ClientConfig: connection}, {Name: "c.warrantgate.dev", ClientConfig: connection},
		},
	}
	return []client.Object{mutating, validating}
}

func empty() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Type: certificates.SecretType}
}

// alone leads always.
type alone struct{}

func (alone) Run(ctx context.Context, lead func(context.Context)) error {
	lead(ctx)
	return nil
}

// world is a Kubernetes with the Secret, a kcp, a replica that leads and the certificates that it serves.
type world struct {
	kubernetes, kcp *api
	keeper          *certificates.Keeper
	source          *certificates.Source
	changes         []*x509.Certificate
	logs            *logs
	// stopLead and stop end the leader and the replica.
	stopLead, stop context.CancelFunc
}

// logs is what was logged.
type logs struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func (l *logs) contain(text string) bool { return strings.Contains(l.String(), text) }

func newWorld(secret *corev1.Secret) *world {
	w := &world{kubernetes: newAPI(append(configurations(nil), secret)...), kcp: newAPI(configurations(nil)...), logs: &logs{}}
	w.source = &certificates.Source{Secrets: w.kubernetes, Key: key, Changed: func(c tls.Certificate) { w.changes = append(w.changes, c.Leaf) }}
	w.keeper = &certificates.Keeper{
		Secrets: w.kubernetes, Key: key, Names: []string{serviceName}, Life: life, Election: alone{},
		Registrations: append(certificates.Registrations("kubernetes", w.kubernetes, "no", configurations(nil)),
			certificates.Registrations("kcp", w.kcp, "run install", configurations(nil))...),
	}
	return w
}

func (w *world) context(t *testing.T) context.Context {
	t.Helper()
	return logf.IntoContext(t.Context(), logr.FromSlogHandler(slog.NewTextHandler(w.logs, nil)))
}

// lead has a replica lead, from now on with the names of the keeper as they are.
func (w *world) lead(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(w.context(t))
	w.stopLead = stop
	go func() { _ = w.keeper.Start(ctx) }()
}

// serve has a replica serve.
func (w *world) serve(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(w.context(t))
	w.stop = stop
	go func() { _ = w.source.Start(ctx) }()
}

// after lets time pass, in which what is served has to be trusted by the API servers all the time.
func (w *world) after(t *testing.T, d time.Duration, apis ...*api) {
	t.Helper()
	step := time.Second
	if d > time.Minute {
		step = certificates.Interval
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(step)
		synctest.Wait()
		w.trusted(t, apis...)
	}
}

func (w *world) trusted(t *testing.T, apis ...*api) {
	t.Helper()
	certificate, err := w.source.GetCertificate(nil)
	if err != nil {
		t.Fatalf("at %s: %v", time.Now(), err)
	}
	for _, api := range apis {
		if err := api.trusts(t, certificate); err != nil {
			t.Fatalf("at %s a server is not trusted: %v\n%s", time.Now(), err, w.logs)
		}
	}
}

// runFor has a replica serve and lead for so long, and on until the test ends.
func (w *world) runFor(t *testing.T, d time.Duration) {
	t.Helper()
	w.serve(t)
	w.lead(t)
	t.Cleanup(func() {
		w.stopLead()
		w.stop()
	})
	<-time.After(d)
	synctest.Wait()
}

// start runs everything until the first certificate is served.
func (w *world) start(t *testing.T) {
	t.Helper()
	w.runFor(t, 2*time.Second)
	w.trusted(t, w.kubernetes, w.kcp)
}

func (w *world) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := w.kubernetes.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// served is what is served now.
func (w *world) served(t *testing.T) *x509.Certificate {
	t.Helper()
	certificate, err := w.source.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Leaf
}
