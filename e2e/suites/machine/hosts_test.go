//go:build e2e

package machine_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// At CloudSigma an impersonated token acts as its user at one host of a region only. At the other it acts as the service account's own user, so
// that each server of the user looks like another user's.
var _ = Describe("the wrong host in cloudSigma.api", Ordered, func() {
	const remedy = "set cloudSigma.api to the URL at which the token acts as its user"
	var (
		w        *world
		at       string
		explains string
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{wrongHost: true, configuration: "machine: {unknown: Deny}\n"})
		at = strings.ReplaceAll(w.cloud.LegacyAPITemplate(), "{region}", region)
		explains = fmt.Sprintf("the API at %s treats the token of this user as that of another user; the operator of warrantgate has to %s", at, remedy)
	}, NodeTimeout(setupTimeout))

	It("decides nothing, and says what to set", func(ctx SpecContext) {
		s := w.begin(ctx)
		account := w.cloud.AddUser("service-account-" + serviceAccount)
		machine := s.createMachine(ctx, "node")
		for _, id := range []string{
			w.cloud.AddServer(region, s.user, "node").UUID,
			w.cloud.AddServer(region, w.user("someone-else@example.com"), "node").UUID,
			w.cloud.AddServer(region, account, "node").UUID, // which the API returns
			noServer,
		} {
			err := s.setInstanceID(ctx, machine, id)
			expectUnknown(err, id, s.user, "WrongUser", explains)
			Expect(err).NotTo(MatchError(Or(ContainSubstring("does not permit"), ContainSubstring(account.UUID), ContainSubstring(account.Email))),
				"a tenant must not learn about other users")
		}
		Eventually(s.eventsAbout).WithContext(ctx).WithArguments(machine).Should(ContainElement(And(
			HavePrefix("OwnershipUnknown: Denied: "), HaveSuffix(explains))))
		Expect(suite.Log(w.gate)).To(ContainSubstring(fmt.Sprintf(`the API at %s treats the token of user \"%s\" as user \"%s\" (%s); %s`,
			at, s.user.Email, account.Email, account.UUID, remedy)), "the operator sees the user")
	}, SpecTimeout(timeout))

	It("is a finding of the audit without a verdict", func(ctx SpecContext) {
		s := w.begin(ctx)
		w.cloud.AddServer(region, s.user, "node", cloudsigmatest.WithMeta(cloudsigmatest.MachineUID, "any"))
		output, err := w.runAudit(ctx)
		Expect(err).To(MatchError(ContainSubstring("exit status 2")))
		Expect(strings.Split(output, "\n")).To(ContainElement(And(
			ContainSubstring(s.namespace), ContainSubstring("OwnershipUnknown"), ContainSubstring(explains))))
		Expect(output).NotTo(ContainSubstring("InstanceOrphaned"))
	}, SpecTimeout(timeout))

	It("is found by warrantgate check cloudsigma", func(ctx SpecContext) {
		s := w.begin(ctx)
		account := w.cloud.AddUser("service-account-" + serviceAccount)
		output, err := w.checkCloudSigma(ctx, s.namespace+"/"+clusterName)
		Expect(err).To(MatchError(ContainSubstring("exit status 1")))
		Expect(output).To(And(
			HavePrefix(fmt.Sprintf("cluster %q, user %q, region %q: WRONG\n", s.namespace+"/"+clusterName, s.user.Email, region)),
			ContainSubstring(fmt.Sprintf("WrongUser: %s treats the token as user %q (%s), and not as %q", at, account.Email, account.UUID, s.user.Email)),
			ContainSubstring("set cloudSigma.api, which is "+w.cloud.LegacyAPITemplate()+", to the URL at which the token acts as its user"),
		))
	}, SpecTimeout(timeout))
})

var _ = Describe("warrantgate check cloudsigma", sharing, func() {
	It("confirms the user of a cluster, and of an email address", func(ctx SpecContext) {
		s := begin(ctx)
		treated := fmt.Sprintf("  %s treats the token as user %q (%s), request id ", strings.ReplaceAll(s.cloud.APITemplate(), "{region}", region), s.user.Email, s.user.UUID)
		output, err := s.checkCloudSigma(ctx, s.namespace+"/"+clusterName)
		Expect(err).NotTo(HaveOccurred())
		Expect(output).To(And(
			HavePrefix(fmt.Sprintf("cluster %q, user %q, region %q: ok\n", s.namespace+"/"+clusterName, s.user.Email, region)), ContainSubstring(treated)))
		output, err = s.checkCloudSigma(ctx, s.user.Email, "--region="+region)
		Expect(err).NotTo(HaveOccurred())
		Expect(output).To(And(HavePrefix(fmt.Sprintf("user %q, region %q: ok\n", s.user.Email, region)), ContainSubstring(treated)))
	}, SpecTimeout(timeout))

	It("says that a user may not be impersonated", func(ctx SpecContext) {
		s := begin(ctx)
		Expect(s.cloud.DenyImpersonation(serviceAccount, s.user.Email)).To(Succeed())
		output, err := s.checkCloudSigma(ctx, s.namespace+"/"+clusterName)
		Expect(err).To(MatchError(ContainSubstring("exit status 1")))
		Expect(output).To(And(ContainSubstring(": WRONG\n  UserNotImpersonable: "), ContainSubstring(allowUser)))
	}, SpecTimeout(timeout))
})

// checkCloudSigma runs "warrantgate check cloudsigma" as an administrator, and returns its output.
func (w *world) checkCloudSigma(ctx context.Context, args ...string) (string, error) {
	GinkgoHelper()
	return w.gate.Run(ctx, append([]string{
		"check", "cloudsigma", "--kubeconfig=" + w.api.AdminKubeconfig(), "--config=" + w.gate.ConfigFile(),
		"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName,
	}, args...)...)
}
