//go:build e2e

package chart_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/process"
)

// A certificate is made, renewed and made known to the API server by whichever replica leads, while all of them serve.
var _ = Describe("The certificate of warrantgate's own", func() {
	It("is changed, its authority too, and no admission fails meanwhile", func(ctx SpecContext) {
		w := newWorld(ctx)
		ports, err := process.FreePorts(ctx, 1)
		Expect(err).NotTo(HaveOccurred())
		// The one that starts first leads. The API server asks the other one.
		beside := w.newPod(ctx, "beside", ports[0])
		leader := beside.startReady(ctx, w.admin)
		follower := w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
		both := []string{w.pod.addresses[":9443"], beside.addresses[":9443"]}

		failures := w.admit(ctx, both)
		for _, tc := range []struct {
			what  string
			spoil func(secret *corev1.Secret)
		}{
			{"its Secret is emptied", func(secret *corev1.Secret) { secret.Data = nil }},
			{"the certificate alone is gone", func(secret *corev1.Secret) { delete(secret.Data, corev1.TLSCertKey) }},
		} {
			By(tc.what)
			before := w.certificate(ctx)
			spoiled := before.DeepCopy()
			tc.spoil(spoiled)
			Expect(w.admin.Update(ctx, spoiled)).To(Succeed())
			Eventually(func(g Gomega) {
				made := parse(w.certificate(ctx).Data[corev1.TLSCertKey])
				g.Expect(made).NotTo(BeEmpty())
				g.Expect(made[0].Equal(parse(before.Data[corev1.TLSCertKey])[0])).To(BeFalse())
				for _, address := range both {
					g.Expect(w.dial(ctx, address)).To(HaveField("Raw", made[0].Raw))
				}
			}).WithTimeout(time.Minute).Should(Succeed())
		}
		Expect(w.bundles(ctx)).To(HaveEach(WithTransform(parse, HaveLen(2))), "the former authority is trusted until it ends")

		Expect(failures()).To(BeEmpty())

		By("losing the leader")
		failures = w.admit(ctx, both[:1])
		leader.Kill()
		spoiled := w.certificate(ctx)
		spoiled.Data = nil
		Expect(w.admin.Update(ctx, spoiled)).To(Succeed())
		Eventually(func() []*x509.Certificate { return parse(w.certificate(ctx).Data[corev1.TLSCertKey]) }).
			WithTimeout(2 * time.Minute).ShouldNot(BeEmpty())
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
		Expect(follower.Alive()).To(Succeed())
		Expect(failures()).To(BeEmpty())
	}, SpecTimeout(5*time.Minute))
})

// Gates bring rights that the certificate needs, too. Where they are off, it has them by itself.
var _ = Describe("With the gate on policies only", func() {
	It("a certificate of warrantgate's own is made and trusted", func(ctx SpecContext) {
		w := startWorld(ctx)
		off := map[string]any{"mode": "Off"}
		w.values["config"] = map[string]any{
			"machine": off, "audit": off, "cluster": map[string]any{"impersonation": off},
			"keystonePolicy": map[string]any{"selector": map[string]any{"matchLabels": selected}},
		}
		w.install(ctx)
		w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
	}, SpecTimeout(3*time.Minute))
})

// Whoever brings a certificate keeps it.
var _ = Describe("A certificate of the operator's", func() {
	It("is served, and neither it nor its authority is ever written", func(ctx SpecContext) {
		w := startWorld(ctx)
		secret := w.bringCertificate(ctx)
		w.install(ctx)
		w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
		Consistently(func(g Gomega) {
			now := &corev1.Secret{}
			g.Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(secret), now)).To(Succeed())
			g.Expect(now.ResourceVersion).To(Equal(secret.ResourceVersion))
			g.Expect(w.bundles(ctx)).To(HaveEach(Equal(secret.Data[corev1.TLSCertKey])))
		}).WithTimeout(15 * time.Second).WithPolling(time.Second).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("gives way to one of warrantgate's own, and with failurePolicy Ignore nothing is refused by that", func(ctx SpecContext) {
		w := startWorld(ctx)
		w.values["failurePolicy"] = "Ignore"
		w.bringCertificate(ctx)
		w.install(ctx)
		former := w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())

		failures := repeat(ctx, func(ctx context.Context, i int) error {
			return w.admin.Create(ctx, policy(metav1.NamespaceDefault, "written-"+strconv.Itoa(i), sound), client.DryRunAll)
		})
		delete(w.values, "certificates")
		w.upgrade(ctx)
		Expect(former.Stop()).To(Succeed())
		w.pod = w.newPod(ctx, "next", w.port)
		w.pod.startReady(ctx, w.admin)
		Eventually(w.asked).WithContext(ctx).Should(Succeed())
		Expect(failures()).To(BeEmpty())
	}, SpecTimeout(3*time.Minute))
})

// bringCertificate has the release serve with a certificate that somebody else has made: that of the Secret.
func (w *world) bringCertificate(ctx context.Context) *corev1.Secret {
	GinkgoHelper()
	serving, key, err := cert.GenerateSelfSignedCertKey(release+"."+namespace+".svc", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "serving"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: serving, corev1.TLSPrivateKeyKey: key},
	}
	Expect(w.admin.Create(ctx, secret)).To(Succeed())
	w.values["certificates"] = map[string]any{"secret": map[string]any{"name": secret.Name, "caBundle": string(serving)}}
	return secret
}

// admit tries, until what it returns is called, what the gates have to refuse, and whether the API server would trust a new
// connection to any of the addresses. Then it is what failed.
func (w *world) admit(ctx context.Context, addresses []string) (failures func() []string) {
	return repeat(ctx, func(ctx context.Context, i int) error {
		err := refusedByGate(w.admin.Create(ctx, policy(metav1.NamespaceDefault, "tried-"+strconv.Itoa(i), broken), client.DryRunAll))
		for _, address := range addresses {
			_, dialErr := w.dial(ctx, address)
			err = errors.Join(err, dialErr)
		}
		return err
	})
}

// repeat makes attempts, until what it returns is called. Then it is what failed.
func repeat(ctx context.Context, attempt func(ctx context.Context, i int) error) (failures func() []string) {
	ctx, stop := context.WithCancel(ctx)
	var trying sync.WaitGroup
	var failed []string
	trying.Go(func() {
		defer GinkgoRecover()
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
			if err := attempt(ctx, i); err != nil && ctx.Err() == nil {
				failed = append(failed, err.Error())
			}
		}
	})
	DeferCleanup(func() {
		stop()
		trying.Wait()
	})
	return func() []string {
		stop()
		trying.Wait()
		return failed
	}
}

// dial opens a new connection as the API server would, and returns the certificate that is served.
func (w *world) dial(ctx context.Context, address string) (*x509.Certificate, error) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.admin.Get(ctx, client.ObjectKey{Name: release}, configuration); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: release + "." + namespace + ".svc"}}
	conn, err := dialer.DialContext(ctx, "tcp", "localhost"+address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	secured, ok := conn.(*tls.Conn)
	if !ok {
		return nil, errors.New("a connection without TLS")
	}
	return secured.ConnectionState().PeerCertificates[0], nil
}

// certificate is the Secret with warrantgate's own.
func (w *world) certificate(ctx context.Context) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: certificateName}, secret)).To(Succeed())
	return secret
}

func (w *world) emptyCertificate(ctx context.Context) {
	GinkgoHelper()
	secret := w.certificate(ctx)
	secret.Data = nil
	Expect(w.admin.Update(ctx, secret)).To(Succeed())
}

// bundles are whom the API server trusts, for each webhook.
func (w *world) bundles(ctx context.Context) [][]byte {
	GinkgoHelper()
	found, err := bundlesOf(ctx, w.admin)
	Expect(err).NotTo(HaveOccurred())
	return found
}

// bundlesOf are whom an API server trusts, for each webhook of both webhook configurations.
func bundlesOf(ctx context.Context, c client.Client) ([][]byte, error) {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, configuration := range []client.Object{mutating, validating} {
		if err := c.Get(ctx, client.ObjectKey{Name: release}, configuration); err != nil {
			return nil, err
		}
	}
	var found [][]byte
	for _, hook := range mutating.Webhooks {
		found = append(found, hook.ClientConfig.CABundle)
	}
	for _, hook := range validating.Webhooks {
		found = append(found, hook.ClientConfig.CABundle)
	}
	return found, nil
}

// parse returns the certificates of a bundle, none where it is none.
func parse(bundle []byte) []*x509.Certificate {
	found, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	return found
}
