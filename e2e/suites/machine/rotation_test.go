//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Secrets are renewed by users and programs that do not know warrantgate, in any order, without a restart of warrantgate.
var _ = Describe("the client secret in the Secret", Ordered, func() {
	var (
		w   *world
		pid int
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{})
		pid = w.gate.PID()
	}, NodeTimeout(3*time.Minute))
	AfterEach(func() { Expect(w.gate.PID()).To(Equal(pid), "it is still the same process") })

	It("is used as soon as it is renewed", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		renewed, err := w.cloud.RotateSecret(serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		w.giveCredentials(ctx, renewed)
		// The identity provider accepts only the new one, and the token of the old one is no longer valid.
		s := w.begin(ctx)
		w.forgetTokens(s.user)
		asked := len(w.cloud.Requests())
		s.admits(ctx)
		tried := 0
		for _, request := range w.cloud.Requests()[asked:] {
			if request.Operation == cloudsigmatest.ClientCredentials {
				tried++
				Expect(request.Status).To(Equal(http.StatusOK), "nothing but the new one was tried")
			}
		}
		Expect(tried).To(BeNumerically(">", 0))
	}, SpecTimeout(timeout))

	It("is replaced by the former one as long as the identity provider rejects it", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		old := w.clientSecret(ctx)
		renewed, err := w.cloud.RotateSecret(serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		late := w.cloud.Fail(notYet(old, renewed.Secret), 0, cloudsigmatest.ClientCredentials)
		DeferCleanup(late.Release)
		w.giveCredentials(ctx, renewed)
		for range 3 {
			s := w.begin(ctx)
			w.forgetTokens(s.user) // even if a new token is needed
			s.admits(ctx)
		}
		Expect(late.Met()).To(BeNumerically(">=", 4), "the new one was tried, and then the old one")
		Expect(w.log()).To(ContainSubstring("the newest credentials are not accepted; using the last accepted ones"))

		By("and then the identity provider takes the new one, and the old one no longer")
		late.Release()
		Eventually(func() bool {
			s := w.begin(ctx)
			w.forgetTokens(s.user)
			return w.setInstanceID(ctx, s.createMachine(ctx, "node"), w.cloud.AddServer(region, s.user, "node").UUID) == nil
		}).WithContext(ctx).Should(BeTrue())
		s := w.begin(ctx)
		w.forgetTokens(s.user)
		s.admits(ctx)
	}, SpecTimeout(timeout))

	It("may be missing for a while", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		Expect(w.client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: secretName}})).To(Succeed())
		s := w.begin(ctx)
		w.forgetTokens(s.user)
		s.admits(ctx)
		w.giveCredentials(ctx, w.cloud.AddClient(serviceAccount))
		w.admitsNewUser(ctx)
	}, SpecTimeout(timeout))

	It("is named in the denial if it is wrong, and its correction is used without a restart", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		renewed, err := w.cloud.RotateSecret(serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		s := w.begin(ctx)
		machine, id := s.createMachine(ctx, "node"), w.cloud.AddServer(region, s.user, "node").UUID
		w.forgetTokens(s.user)
		expectUnknown(w.setInstanceID(ctx, machine, id), id, s.user, "CredentialsDenied", renewCredentials)
		w.giveCredentials(ctx, renewed)
		Eventually(w.setInstanceID).WithContext(ctx).WithArguments(machine, id).Should(Succeed())
	}, SpecTimeout(timeout))
})

var _ = Describe("the client secret in a file", Ordered, func() {
	var (
		w    *world
		file string
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{credentials: func(w *world) (args, env []string) {
			file = filepath.Join(w.api.Dir(), "client-secret")
			writeSecretFile(file, w.cloud.AddClient(serviceAccount).Secret)
			return []string{
				"--impersonation-enabled", "--oauth-url=" + w.cloud.OAuthURL(), "--client-id=" + serviceAccount, "--client-secret-file=" + file,
			}, nil
		}})
	}, NodeTimeout(3*time.Minute))

	It("is used as soon as it is renewed", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		renewed, err := w.cloud.RotateSecret(serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		writeSecretFile(file, renewed.Secret+"\n") // as editors write it
		s := w.begin(ctx)
		w.forgetTokens(s.user)
		s.admits(ctx)
	}, SpecTimeout(timeout))

	It("is replaced by the former one while the file is empty or missing", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		for what, spoil := range map[string]func() error{
			"empty": func() error { return os.Truncate(file, 0) }, "missing": func() error { return os.Remove(file) },
		} {
			By(what)
			Expect(spoil()).To(Succeed())
			s := w.begin(ctx)
			w.forgetTokens(s.user)
			s.admits(ctx)
			writeSecretFile(file, w.cloud.AddClient(serviceAccount).Secret)
		}
	}, SpecTimeout(timeout))
})

// writeSecretFile replaces a file atomically, as a kubelet does.
func writeSecretFile(file, secret string) {
	GinkgoHelper()
	Expect(os.WriteFile(file+".new", []byte(secret), 0o600)).To(Succeed())
	Expect(os.Rename(file+".new", file)).To(Succeed())
}

// notYet is an identity provider that accepts the old secret of a client for a while, and does not know the new one yet.
func notYet(old, renewed string) cloudsigmatest.Fault {
	reject := oauthError(http.StatusUnauthorized, "unauthorized_client")
	return func(w http.ResponseWriter, r *http.Request, released <-chan struct{}, answer http.HandlerFunc) {
		if r.PostForm.Get("client_secret") != old {
			reject(w, r, released, answer)
			return
		}
		r.PostForm.Set("client_secret", renewed)
		r.Form.Set("client_secret", renewed)
		answer(w, r)
	}
}

// clientSecret is the value in the Secret.
func (w *world) clientSecret(ctx context.Context) string {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: secretName}}
	Expect(w.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	return string(secret.Data["client-secret"])
}

// admitsNewUser expects that a user that the gate has not seen before can name a server, for which it needs a token.
func (w *world) admitsNewUser(ctx context.Context) {
	GinkgoHelper()
	w.begin(ctx).admits(ctx)
}

// admits expects that the user can name a server.
func (s story) admits(ctx context.Context) {
	GinkgoHelper()
	name := fmt.Sprintf("node-%d", len(s.cloud.Servers()))
	Expect(s.setInstanceID(ctx, s.createMachine(ctx, name), s.cloud.AddServer(region, s.user, name).UUID)).To(Succeed())
}
