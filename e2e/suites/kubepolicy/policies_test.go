//go:build e2e

package kubepolicy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
)

// The author of a policy gets the errors that Keystone would have with it, before Keystone reads it.
var _ = Describe("A policy for Keystone", func() {
	DescribeTable("with an error is denied with the findings, gets an Event, and is stored once the author corrects it",
		func(ctx SpecContext, kind string, newObject func(namespace, policy string) client.Object) {
			namespace := shared.namespace(ctx)
			message := about(kind, namespace, saidOfBroken)
			expectDenial(shared.author.Create(ctx, newObject(namespace, broken)), message, "unknown-attribute", "always-allows")

			By("changing a stored policy")
			object := newObject(namespace, sound)
			Expect(shared.author.Create(ctx, object)).To(Succeed())
			change := newObject(namespace, broken)
			expectDenial(shared.author.Update(ctx, change), message, "unknown-attribute", "always-allows")
			Eventually(shared.events).WithArguments(ctx, namespace).Should(ConsistOf(And(
				HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", "KeystonePolicyBroken"), HaveField("Message", "Denied: "+message),
				HaveField("InvolvedObject.UID", object.GetUID()))))
			Expect(shared.eventsOf(ctx, object)).To(MatchRegexp(`(?m)\bWarning +KeystonePolicyBroken .*Denied: ` + regexp.QuoteMeta(message)))

			By("correcting it")
			corrected := strings.NewReplacer("%(user.", "%(target.user.", ": !", `: "!"`).Replace(broken)
			Expect(shared.author.Update(ctx, newObject(namespace, corrected))).To(Succeed())
			Expect(shared.recorder.TakeWarnings()).To(BeEmpty())
			Expect(shared.author.Delete(ctx, object)).To(Succeed())
		},
		Entry("in a ConfigMap", "ConfigMap", func(namespace, policy string) client.Object { return newConfigMap(namespace, "policy", policy) }, SpecTimeout(timeout)),
		Entry("in a Secret", "Secret", func(namespace, policy string) client.Object { return newSecret(namespace, "policy", policy) }, SpecTimeout(timeout)),
	)

	It("with a doubtful rule is stored, and the author gets a warning", func(ctx SpecContext) {
		namespace := shared.namespace(ctx)
		policy := newConfigMap(namespace, "policy", doubtful)
		Expect(shared.author.Create(ctx, policy)).To(Succeed())
		message := about("ConfigMap", namespace, saidOfDoubtful)
		Expect(shared.recorder.TakeWarnings()).To(HaveExactElements("KeystonePolicyDoubtful: " + message))
		Eventually(shared.eventsOf).WithArguments(ctx, policy).Should(
			MatchRegexp(`(?m)^ +Warning +KeystonePolicyDoubtful .*Admitted with a warning: ConfigMap "policy"`))
	}, SpecTimeout(timeout))

	It("may have rules of extensions that the operator of warrantgate has named", func(ctx SpecContext) {
		namespace := shared.namespace(ctx)
		Expect(shared.author.Create(ctx, newConfigMap(namespace, "policy", "identity:scim_list_users: rule:admin_required\n"))).To(Succeed())
		Expect(shared.recorder.TakeWarnings()).To(BeEmpty())
		err := shared.author.Update(ctx, newConfigMap(namespace, "policy", "identity:other_list_users: rule:admin_required\n"))
		Expect(err).To(MatchError(And(ContainSubstring("Keystone has no such operation"), ContainSubstring("keystonePolicy.knownRules"))))
		err = shared.author.Update(ctx, newConfigMap(namespace, "policy", "identity:scim_list_users: ''\n"))
		Expect(apierrors.HasStatusCause(err, "always-allows")).To(BeTrue(), "%v", err)
	}, SpecTimeout(timeout))

	It("is denied and stored without a word about notes, which the command prints", func(ctx SpecContext) {
		const noted = "unused: role:admin\n"
		namespace := shared.namespace(ctx)
		policy := newConfigMap(namespace, "policy", noted+sound)
		Expect(shared.author.Create(ctx, policy)).To(Succeed())
		Expect(shared.recorder.TakeWarnings()).To(BeEmpty())
		policy.Data["policy.yaml"] = noted + "identity:list_users: !\n"
		err := shared.author.Update(ctx, policy)
		expectDenial(err, about("ConfigMap", namespace, `1 error: policy.yaml:2, rule "identity:list_users": an exclamation mark without quotes is an empty tag to YAML: `+
			`the rule is empty, and an empty rule allows everybody (write "!" in quotes to deny, or "@" in quotes to allow everybody); `+
			`"warrantgate lint keystone-policy" lists all problems of the file`), "always-allows")
		Expect(apierrors.HasStatusCause(err, "unused-rule")).To(BeFalse(), "%v", err)

		file := filepath.Join(GinkgoT().TempDir(), "policy.yaml")
		Expect(os.WriteFile(file, []byte(policy.Data["policy.yaml"]), 0o600)).To(Succeed())
		linted := suite.Warrantgate(ctx, "lint", "keystone-policy", file)
		Expect(linted.Status).To(Equal(1), linted.Stderr)
		Expect(linted.Stdout).To(And(MatchRegexp(`1 error, 1 note; the gate denies it\s+\(KeystonePolicyBroken\)\n$`), ContainSubstring("1 note (--notes)"), Not(ContainSubstring("unused-rule"))))
		Expect(suite.Warrantgate(ctx, "lint", "keystone-policy", file, "--notes").Stdout).To(ContainSubstring("unused-rule"))
	}, SpecTimeout(timeout))

	It("can be corrected with kubectl apply", func(ctx SpecContext) {
		namespace := shared.namespace(ctx)
		printed, err := shared.kubectl(ctx, manifest(namespace, `identity:create_user: ""`), "apply", "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(printed).To(And(ContainSubstring("Error from server (Forbidden): "), ContainSubstring(about("ConfigMap", namespace, `1 error: policy.yaml:1, rule "identity:create_user": `))))
		printed, err = shared.kubectl(ctx, manifest(namespace, doubtful), "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), printed)
		Expect(printed).To(And(ContainSubstring("Warning: KeystonePolicyDoubtful: "), ContainSubstring("configmap/policy created")))
		printed, err = shared.kubectl(ctx, manifest(namespace, sound), "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), printed)
		Expect(printed).To(Equal("configmap/policy configured\n"))
	}, SpecTimeout(timeout))

	It("is the only part of a Secret that a message quotes", func(ctx SpecContext) {
		namespace := shared.namespace(ctx)
		secret := newSecret(namespace, "policy", sound)
		Expect(shared.author.Create(ctx, secret)).To(Succeed())
		for _, content := range []string{"hunter2", "*hunter2", "password: hunter2", "auth: {hunter2: x}"} {
			secret.StringData = map[string]string{"other": content}
			err := shared.author.Update(ctx, secret)
			Expect(err).To(MatchError(And(ContainSubstring("because it is a Secret"), Not(ContainSubstring("hunter2")))))
		}
		Eventually(shared.events).WithArguments(ctx, namespace).Should(Not(BeEmpty()))
		Expect(shared.events(ctx, namespace)).To(HaveEach(HaveField("Message", Not(ContainSubstring("hunter2")))))
		Expect(suite.Log(shared.gate)).NotTo(ContainSubstring("hunter2"))
	}, SpecTimeout(timeout))
})
