//go:build e2e

package chart_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
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

const (
	// renewAfter is the annotation with the day after which an upgrade renews the certificate.
	renewAfter = "warrantgate.dev/renew-after"
	// formerCA is the key of the CA that webhook configurations contain in addition to that of ca.crt.
	formerCA = "former-ca.crt"
)

// Each "helm upgrade" keeps the certificate, or replaces it if there is a reason.
var _ = Describe("The certificate that the chart generates", func() {
	It("is kept, renewed, and signed by another CA in upgrades, and no admission fails", func(ctx SpecContext) {
		w := newWorld(ctx)
		ports, err := process.FreePorts(ctx, 1)
		Expect(err).NotTo(HaveOccurred())
		pods := []pod{w.pod, w.newPod(ctx, "beside", ports[0])}
		for _, p := range pods {
			p.startReady(ctx, w.admin)
		}
		Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
		first, trusted := w.certificate(ctx), w.bundles(ctx)
		Expect(first.Data).To(And(HaveLen(4), HaveKey("ca.key")))
		Expect(trusted).To(And(Not(BeEmpty()), HaveEach(Equal(first.Data["ca.crt"]))))
		Expect(first.Annotations[renewAfter]).To(Equal(time.Now().Add(5840 * time.Hour).Format(time.DateOnly)))
		failures := w.admit(ctx, pods)

		By("an upgrade without a reason to replace it")
		w.upgradeServing(ctx, "--set=logs.level=debug")
		Expect(w.certificate(ctx).Data).To(Equal(first.Data))
		Expect(w.bundles(ctx)).To(Equal(trusted))

		By("an upgrade after two thirds of its lifetime")
		w.change(ctx, func(secret *corev1.Secret) { secret.Annotations[renewAfter] = time.Now().Format(time.DateOnly) })
		w.upgradeServing(ctx)
		renewed := w.certificate(ctx)
		Expect(renewed.Annotations).To(Equal(first.Annotations))
		Expect(renewed.Data).To(And(HaveLen(4), HaveKeyWithValue("ca.crt", first.Data["ca.crt"]), HaveKeyWithValue("ca.key", first.Data["ca.key"])))
		Expect(renewed.Data[corev1.TLSCertKey]).NotTo(Equal(first.Data[corev1.TLSCertKey]))
		Expect(w.bundles(ctx)).To(Equal(trusted))
		w.mountCertificate(ctx, pods)

		By("an upgrade that adds a name")
		w.values["certificates"] = map[string]any{"extraDNSNames": []string{"warrantgate.example.com"}}
		w.upgradeServing(ctx)
		service := release + "." + namespace + ".svc"
		named := w.certificate(ctx)
		Expect(parse(named.Data[corev1.TLSCertKey])).To(HaveExactElements(HaveField("DNSNames",
			HaveExactElements(service, service+".cluster.local", "warrantgate.example.com"))))
		Expect(w.bundles(ctx)).To(Equal(trusted))
		w.mountCertificate(ctx, pods)

		By("the first step to another CA: both CAs are trusted, and the certificate stays the same")
		w.change(ctx, func(secret *corev1.Secret) { delete(secret.Data, "ca.key") })
		w.upgradeServing(ctx)
		both := w.certificate(ctx)
		Expect(both.Data).To(And(HaveKeyWithValue(formerCA, named.Data["ca.crt"]), HaveKeyWithValue(corev1.TLSCertKey, named.Data[corev1.TLSCertKey])))
		Expect(both.Data["ca.crt"]).NotTo(Equal(named.Data["ca.crt"]))
		Expect(w.bundles(ctx)).To(HaveEach(Equal(slices.Concat(both.Data["ca.crt"], named.Data["ca.crt"]))))
		w.upgradeServing(ctx)
		Expect(w.certificate(ctx).Data).To(Equal(both.Data), "a further upgrade changes nothing before the second step")

		By("the second step: the new CA signs the certificate")
		w.change(ctx, func(secret *corev1.Secret) { delete(secret.Annotations, renewAfter) })
		w.upgradeServing(ctx)
		issued := w.certificate(ctx)
		Expect(parse(issued.Data[corev1.TLSCertKey])[0].CheckSignatureFrom(parse(both.Data["ca.crt"])[0])).To(Succeed())
		Expect(w.bundles(ctx)).To(HaveEach(Equal(slices.Concat(both.Data["ca.crt"], named.Data["ca.crt"]))))
		w.mountCertificate(ctx, pods)

		By("the third step: the former CA is no longer trusted")
		w.change(ctx, func(secret *corev1.Secret) { delete(secret.Data, formerCA) })
		w.upgradeServing(ctx)
		Expect(w.certificate(ctx).Data).To(And(HaveLen(4), HaveKeyWithValue("ca.crt", both.Data["ca.crt"])))
		Expect(w.bundles(ctx)).To(HaveEach(Equal(both.Data["ca.crt"])))
		Expect(failures()).To(BeEmpty())
	}, SpecTimeout(storyTimeout))
})

// The chart never changes a certificate of the operator.
var _ = Describe("The certificate of the operator", func() {
	It("is served, and the chart writes neither the certificate nor its CA", func(ctx SpecContext) {
		w := startWorld(ctx)
		secret := w.bringCertificate(ctx)
		w.install(ctx)
		w.pod.startReady(ctx, w.admin)
		Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
		w.upgrade(ctx)
		now := &corev1.Secret{}
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(secret), now)).To(Succeed())
		Expect(now.ResourceVersion).To(Equal(secret.ResourceVersion))
		Expect(w.bundles(ctx)).To(HaveEach(Equal(secret.Data[corev1.TLSCertKey])))
	}, SpecTimeout(storyTimeout))
})

// bringCertificate makes the release use the certificate of a Secret that the chart did not create.
func (w *world) bringCertificate(ctx context.Context) *corev1.Secret {
	GinkgoHelper()
	serving, key, err := cert.GenerateSelfSignedCertKey(release+"."+namespace+".svc", nil, nil)
	Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "serving"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: serving, corev1.TLSPrivateKeyKey: key},
	}
	Expect(w.admin.Create(ctx, secret)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(w.admin.Delete(ctx, secret)).To(Succeed()) }, NodeTimeout(timeout)) //nolint:contextcheck // a clean-up has a context of its own
	w.values["certificates"] = map[string]any{"secret": map[string]any{"name": secret.Name, "caBundle": string(serving)}}
	return secret
}

// change changes the Secret of the generated certificate, as an operator does with kubectl.
func (w *world) change(ctx context.Context, change func(secret *corev1.Secret)) {
	GinkgoHelper()
	secret := w.certificate(ctx)
	change(secret)
	Expect(w.admin.Update(ctx, secret)).To(Succeed())
}

// upgradeServing upgrades while admissions run. The upgrade removes the Service for a moment, in which no admission runs.
func (w *world) upgradeServing(ctx context.Context, args ...string) {
	GinkgoHelper()
	w.routed.Lock()
	defer w.routed.Unlock()
	w.upgrade(ctx, args...)
	Eventually(w.checkCalled).WithContext(ctx).Should(Succeed())
}

// mountCertificate updates the files of the pods from the Secret, one pod after the other, and returns once they serve the
// certificate.
func (w *world) mountCertificate(ctx context.Context, pods []pod) {
	GinkgoHelper()
	want := parse(w.certificate(ctx).Data[corev1.TLSCertKey])[0]
	for _, p := range pods {
		p.mount(ctx, w.admin, "tls")
		Eventually(w.dial).WithArguments(ctx, p.addresses[":9443"]).Should(HaveField("Raw", want.Raw))
	}
}

// admit tries writes that the gates deny, and new connections to each pod with the CA that the API server trusts, until the caller
// calls the returned function. That function returns the failures.
func (w *world) admit(ctx context.Context, pods []pod) (failures func() []string) {
	deny := func(ctx context.Context, i int) error {
		w.routed.RLock()
		defer w.routed.RUnlock()
		return deniedByGate(w.admin.Create(ctx, policy(metav1.NamespaceDefault, "tried-"+strconv.Itoa(i), broken), client.DryRunAll))
	}
	trust := func(ctx context.Context, _ int) error {
		var err error
		for _, p := range pods {
			_, dialErr := w.dial(ctx, p.addresses[":9443"])
			err = errors.Join(err, dialErr)
		}
		return err
	}
	denied, trusted := repeat(ctx, deny), repeat(ctx, trust)
	return func() []string { return append(denied(), trusted()...) }
}

// repeat makes attempts until the caller calls the returned function. That function returns the failures.
func repeat(ctx context.Context, attempt func(ctx context.Context, i int) error) (failures func() []string) {
	ctx, stop := context.WithCancel(ctx)
	var trying sync.WaitGroup
	var failed []string
	trying.Go(func() {
		defer GinkgoRecover()
		ticker := time.NewTicker(100 * time.Millisecond)
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

// dial opens a new connection as the API server does, and returns the serving certificate.
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

// certificate is the Secret of the generated certificate.
func (w *world) certificate(ctx context.Context) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: certificateName}, secret)).To(Succeed())
	return secret
}

// bundles are the CAs that the API server trusts, for each webhook of both webhook configurations.
func (w *world) bundles(ctx context.Context) [][]byte {
	GinkgoHelper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, configuration := range []client.Object{mutating, validating} {
		Expect(w.admin.Get(ctx, client.ObjectKey{Name: release}, configuration)).To(Succeed())
	}
	var found [][]byte
	for _, hook := range mutating.Webhooks {
		found = append(found, hook.ClientConfig.CABundle)
	}
	for _, hook := range validating.Webhooks {
		found = append(found, hook.ClientConfig.CABundle)
	}
	return found
}

// parse returns the certificates of a bundle.
func parse(bundle []byte) []*x509.Certificate {
	found, err := cert.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	return found
}
