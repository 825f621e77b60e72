//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Users and programs that do not know warrantgate renew its Secrets, in any order and without a restart of warrantgate.
var _ = Describe("the client secret in the Secret", Ordered, func() {
	var (
		w   *world
		pid int
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{})
		pid = w.gate.PID()
	}, NodeTimeout(setupTimeout))
	AfterEach(func() { Expect(w.gate.PID()).To(Equal(pid), "warrantgate was not restarted") })

	It("is used as soon as it is renewed", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		renewed, err := w.cloud.RotateSecret(serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		w.giveCredentials(ctx, renewed)
		// The identity provider accepts only the new one, and the token of the old one is no longer valid.
		s := w.begin(ctx)
		w.forgetTokens(s.user)
		sent := len(w.cloud.Requests())
		s.admits(ctx)
		tried := 0
		for _, request := range w.cloud.Requests()[sent:] {
			if request.Operation == cloudsigmatest.ClientCredentials {
				tried++
				Expect(request.Status).To(Equal(http.StatusOK), "only the new secret was used")
			}
		}
		Expect(tried).To(BeNumerically(">", 0))
	}, SpecTimeout(timeout))

	It("is not used while the identity provider rejects it; the former one is", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		old := w.clientSecret(ctx)
		renewed, err := w.cloud.RotateSecret(serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		late := w.cloud.Fail(notYet(old, renewed.Secret), 0, cloudsigmatest.ClientCredentials)
		DeferCleanup(late.Release)
		w.giveCredentials(ctx, renewed)
		for range 3 {
			s := w.begin(ctx)
			w.forgetTokens(s.user) // so that a new token is needed
			s.admits(ctx)
		}
		Expect(late.Met()).To(BeNumerically(">=", 4), "the new secret was tried first, and then the old one")
		Expect(suite.Log(w.gate)).To(ContainSubstring("the newest credentials are not accepted; using the last accepted ones"))

		By("the identity provider accepts only the new secret")
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
	}, NodeTimeout(setupTimeout))

	It("is used as soon as it is renewed", func(ctx SpecContext) {
		w.admitsNewUser(ctx)
		renewed, err := w.cloud.RotateSecret(serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		writeSecretFile(file, renewed.Secret+"\n") // as editors write it
		s := w.begin(ctx)
		w.forgetTokens(s.user)
		s.admits(ctx)
	}, SpecTimeout(timeout))
})

// writeSecretFile replaces a file atomically, as a kubelet does.
func writeSecretFile(file, secret string) {
	GinkgoHelper()
	Expect(os.WriteFile(file+".new", []byte(secret), 0o600)).To(Succeed())
	Expect(os.Rename(file+".new", file)).To(Succeed())
}

// notYet is the fault of an identity provider that still accepts only the old secret of a client.
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

// admitsNewUser expects that a server of a new user can be named, for which the gate needs a token.
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
