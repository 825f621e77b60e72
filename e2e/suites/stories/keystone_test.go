//go:build e2e

package stories_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"warrantgate.dev/e2e/env/suite"
)

// Policies: without problems, with an error in line 2, and with a check that is always false.
const (
	soundPolicy    = "identity:create_user: rule:admin_required\n"
	brokenPolicy   = soundPolicy + "identity:list_users: !\n"
	doubtfulPolicy = "identity:create_user: rule:admin_required and domain_idd:x\n"
)

// A policy override that Keystone cannot load, or that does not do what it says, is denied with line and correction.
var _ = Describe("Keystone policy", func() {
	It("is stored if nothing is wrong with it", func(ctx SpecContext) {
		t := begin(ctx)
		Expect(t.client.Create(ctx, newPolicy(t.namespace, soundPolicy))).To(Succeed())
		Expect(t.recorder.TakeWarnings()).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("is denied with line and correction, and kubectl describe shows it", func(ctx SpecContext) {
		t := begin(ctx)
		policy := newPolicy(t.namespace, soundPolicy)
		Expect(t.client.Create(ctx, policy)).To(Succeed())
		err := t.client.Update(ctx, newPolicy(t.namespace, brokenPolicy))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, "always-allows")).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring(`policy.yaml:2, rule "identity:list_users"`), ContainSubstring(`write "!" in quotes to deny`))))
		Eventually(describeObject).WithArguments(newPolicy(t.namespace, "")).Should(MatchRegexp(`(?m)^ +Warning +KeystonePolicyBroken .*policy\.yaml:2`))
	}, SpecTimeout(specTimeout))

	It("is stored with a warning if a check is doubtful", func(ctx SpecContext) {
		t := begin(ctx)
		Expect(t.client.Create(ctx, newPolicy(t.namespace, doubtfulPolicy))).To(Succeed())
		Expect(t.recorder.TakeWarnings()).To(ConsistOf(And(HavePrefix("KeystonePolicyDoubtful: "), ContainSubstring(`write "domain_id"`))))
	}, SpecTimeout(specTimeout))

	It("gets the same verdict from the command", func(ctx SpecContext) {
		linted := suite.Warrantgate(ctx, "lint", "keystone-policy", writeFile(brokenPolicy))
		Expect(linted.Status).To(Equal(1), linted.Stderr)
		Expect(linted.Stdout).To(And(ContainSubstring("identity:list_users"), ContainSubstring("always-allows")))
	}, SpecTimeout(specTimeout))
})

// writeFile writes a file for the time of the spec.
func writeFile(content string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "policy.yaml")
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}
