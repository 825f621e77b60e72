//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// A careless cloud or identity provider repeats parts of the request in its response. warrantgate must not log them. The end of every world
// searches all output for secrets. This world logs as much as possible.
var _ = Describe("secrets and tokens", func() {
	for _, flow := range []struct {
		name       string
		operations []cloudsigmatest.Operation
	}{
		{"ServiceProvider", []cloudsigmatest.Operation{cloudsigmatest.ClientCredentials, cloudsigmatest.UMATicket, cloudsigmatest.Impersonate}},
		{"TokenExchange", []cloudsigmatest.Operation{cloudsigmatest.ClientCredentials, cloudsigmatest.TokenExchange}},
	} {
		Describe("of the flow "+flow.name, Ordered, func() {
			var w *world
			BeforeAll(func(ctx SpecContext) {
				w = newWorld(ctx, setup{cloud: "  flow: " + flow.name, args: []string{"--log-level=debug"}})
			}, NodeTimeout(setupTimeout))

			It("are not in logs, Events, metrics and errors, though responses of the cloud repeat them", func(ctx SpecContext) {
				for _, operation := range append(flow.operations, cloudsigmatest.GetProfile, cloudsigmatest.GetServer, cloudsigmatest.ListServers) {
					w.provokeEcho(ctx, operation)
				}
				audit := w.failingAudit(ctx)

				By("each of the texts contains output about these requests")
				Expect(suite.Log(w.gate)).To(And(ContainSubstring(`"level":"DEBUG`), ContainSubstring("OwnershipUnknown"), ContainSubstring("401")))
				Expect(w.recorder.Texts()).To(ContainSubstring("OwnershipUnknown"))
				Expect(audit).To(ContainSubstring("OwnershipUnknown"))
				metrics := w.metrics(ctx)
				Expect(metrics).To(ContainSubstring(`warrantgate_cloud_requests_total{cloud="cloudsigma",code="4xx",operation="account"}`))
				for where, text := range map[string]string{
					"the log": suite.Log(w.gate), "the metrics": metrics, "denials and warnings": w.recorder.Texts(), "the audit": audit,
				} {
					Expect(w.leaks(text)).To(BeEmpty(), "secrets in "+where)
					Expect(strings.Contains(text, w.webhookToken())).To(BeFalse(), "the token of the webhook path is in "+where)
				}
			}, SpecTimeout(3*time.Minute))

			It("would be found in these texts", func() {
				secrets := w.cloud.Secrets()
				Expect(len(secrets)).To(BeNumerically(">", 4))
				for _, secret := range secrets {
					Expect(w.leaks("it says " + secret + ".")).To(ContainElement(secret))
					if _, claims, isToken := strings.Cut(secret, "."); isToken {
						Expect(w.leaks("it says "+claims[:40]+"…")).To(ContainElement(secret), "a truncated token")
					}
				}
			})
		})
	}
})

// webhookToken is the first segment of the path of each webhook.
func (w *world) webhookToken() string {
	GinkgoHelper()
	content, err := os.ReadFile(w.gate.PathFile())
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(content))
}

// provokeEcho makes an operation respond with parts of the request, in several kinds of errors.
func (w *world) provokeEcho(ctx context.Context, operation cloudsigmatest.Operation) {
	GinkgoHelper()
	for _, code := range []int{http.StatusUnauthorized, http.StatusInternalServerError} {
		By(fmt.Sprintf("%s is answered %d", operation, code))
		s := w.begin(ctx)
		machine := s.createMachine(ctx, "echo")
		own := w.cloud.AddServer(region, s.user, "echo")
		foreign := w.cloud.AddServer(region, w.user("someone-else@example.com"), "echo")
		failure := w.cloud.Fail(cloudsigmatest.Status(code), 0, operation)
		Eventually(func() int {
			w.forgetTokens(s.user) // otherwise no token would be requested
			// Which of these is rejected depends on the operation.
			_ = w.setInstanceID(ctx, machine, own.UUID)
			_ = w.setInstanceID(ctx, machine, foreign.UUID)
			Expect(w.setInstanceID(ctx, machine, "")).To(Succeed())
			return failure.Met()
		}).WithContext(ctx).Should(BeNumerically(">", 0))
		failure.Release()
	}
}

// failingAudit is the output of the command while the cloud repeats parts of the request.
func (w *world) failingAudit(ctx context.Context) string {
	GinkgoHelper()
	failure := w.cloud.Fail(cloudsigmatest.Status(http.StatusInternalServerError), 0, cloudsigmatest.ListServers)
	defer failure.Release()
	output, err := w.runAudit(ctx)
	Expect(err).To(MatchError(ContainSubstring("exit status 2")))
	Expect(failure.Met()).To(BeNumerically(">", 0))
	return output
}

// runAudit is the output of the command and, as an error, its exit status.
func (w *world) runAudit(ctx context.Context) (string, error) {
	return w.gate.Run(ctx, "audit", "--kubeconfig="+w.api.AdminKubeconfig(), "--config="+w.gate.ConfigFile(), "--output=json", "--rate=1000",
		"--impersonation-enabled", "--impersonation-secret="+secretNamespace+"/"+secretName)
}

// forgetTokens makes all issued tokens of a user and of the service account itself invalid.
func (w *world) forgetTokens(user cloudsigmatest.User) {
	w.cloud.RevokeTokens("service-account-" + serviceAccount)
	w.cloud.RevokeTokens(user.Email)
}

// leaks returns the secrets in a text. A part of a token is a secret as well, because texts are truncated.
func (w *world) leaks(text string) []string {
	return slices.DeleteFunc(w.cloud.Secrets(), func(secret string) bool {
		return !slices.ContainsFunc(parts(secret), func(part string) bool { return strings.Contains(text, part) })
	})
}

// parts are the substrings by which a secret is found: the whole of a short one; of a token, the beginning of its claims and of its
// signature.
func parts(secret string) []string {
	const enough = 32
	if segments := strings.Split(secret, "."); len(segments) == 3 {
		return []string{segments[1][:min(enough, len(segments[1]))], segments[2][:min(enough, len(segments[2]))]}
	}
	return []string{secret}
}

// metrics is the page that Prometheus reads.
func (w *world) metrics(ctx context.Context) string {
	GinkgoHelper()
	page, err := w.gate.OpenMetrics(ctx)
	Expect(err).NotTo(HaveOccurred())
	return page
}

// listening returns a client whose denials and warnings are recorded.
func (w *world) listening(config *rest.Config) client.Client {
	return suite.KubeClient(w.api, w.recorder.Listen(config))
}
