//go:build e2e

package keystonepolicy_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// policyFile writes a policy for the time of the spec.
func policyFile(content string) string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "policy.yaml")
	Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	return file
}

var _ = Describe("A policy file", func() {
	It("with a byte order mark and the line ends of Windows is loaded by Keystone, and read by check and lint", func(ctx SpecContext) {
		w := newWorld(ctx)
		c, asked := w.callers[tenant], lists("project", own)
		r := asked.of(w, c)
		Expect(c.send(ctx, r)).To(Equal(403), "with the rules that Keystone ships")
		for name, policy := range map[string]string{
			"in YAML": "\ufeff# projects\r\nidentity:list_projects: rule:admin_required or\r\n  role:member\r\n",
			"in JSON": "\ufeff{\r\n\"identity:list_projects\": \"rule:admin_required or role:member\"\r\n}\r\n",
		} {
			By(name)
			file := policyFile(policy)
			enforce(ctx, file)
			Expect(c.send(ctx, r)).To(Equal(200))
			agree(ctx, file, []checkCase{newCase(name, c, asked.can, r, 200)})
			Expect(lint(ctx, file)).To(ConsistOf(HaveField("Code", "broader-than-default")))
		}
	}, SpecTimeout(specTimeout))

	It("that is compressed cannot be loaded, and lint says why", func(ctx SpecContext) {
		newWorld(ctx)
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, err := w.Write([]byte("identity:list_projects: rule:admin_required\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(w.Close()).To(Succeed())
		Expect(keystone.SetPolicy(ctx, compressed.Bytes())).To(MatchError(ContainSubstring("cannot load the policy")))
		file := policyFile(compressed.String())
		code, out, errText := run(ctx, "lint", "keystone-policy", file)
		Expect(code).To(Equal(2), out)
		Expect(errText).To(ContainSubstring(file + " is compressed with gzip, so that Keystone cannot read it; unpack it first"))
	}, SpecTimeout(specTimeout))

	It("that exceeds a limit of warrantgate is loaded by Keystone, and the limit is named", func(ctx SpecContext) {
		w := newWorld(ctx)
		file := policyFile("identity:list_projects: role:member\n" + strings.Repeat("# a comment\n", 30_000)) // 360 KB
		enforce(ctx, file)
		c := w.callers[tenant]
		Expect(c.send(ctx, lists("project", own).of(w, c))).To(Equal(200))
		code, out, errText := run(ctx, "lint", "keystone-policy", file)
		Expect(code).To(Equal(1), errText)
		out = strings.Join(strings.Fields(out), " ") // lines are as long as the name of the file permits
		Expect(out).To(And(ContainSubstring("it has more than 262144 bytes: a limit of warrantgate"), ContainSubstring("the gate denies it (KeystonePolicyTooLarge)")))
	}, SpecTimeout(specTimeout))

	It("with rules of an extension has its other rules applied by Keystone", func(ctx SpecContext) {
		w := newWorld(ctx)
		const others = "identity:list_projects: rule:admin_required or rule:members\nmembers: role:member and rule:nothing\nnothing: user_id:%(user.id)s\n"
		file := policyFile("identity:scim_list_users: role:admin\n" + others)
		enforce(ctx, file)
		c, asked := w.callers[tenant], lists("project", own)
		r := asked.of(w, c)
		Expect(c.send(ctx, r)).To(Equal(403))
		agree(ctx, file, []checkCase{newCase("list", c, asked.can, r, 403)})

		By("naming the rules, and the operations of a helper")
		type found struct {
			Rule, Code string
			Operations []string
		}
		var report struct{ Findings []found }
		for args, want := range map[string][]any{
			"":                             {found{Rule: "identity:scim_list_users", Code: "unknown-operation"}, found{Rule: "nothing", Code: "unknown-attribute", Operations: []string{"identity:list_projects"}}},
			"--known-rule=identity:scim_*": {found{Rule: "nothing", Code: "unknown-attribute", Operations: []string{"identity:list_projects"}}},
		} {
			code, out, errText := run(ctx, append([]string{"lint", "keystone-policy", file, "--output=json"}, strings.Fields(args)...)...)
			Expect(code).To(Equal(1), errText)
			report.Findings = nil
			Expect(json.Unmarshal([]byte(out), &report)).To(Succeed())
			Expect(report.Findings).To(ContainElements(want...), args)
			if args != "" {
				Expect(report.Findings).NotTo(ContainElement(HaveField("Code", "unknown-operation")))
			}
		}
	}, SpecTimeout(specTimeout))
})

var _ = Describe("DENY", func() {
	It("names the check because of which Keystone denies the request", func(ctx SpecContext) {
		w := newWorld(ctx)
		c, asked := w.callers[manager], creates("user", other)
		r := asked.of(w, c)
		const rule = "identity:create_user: role:manager and token.domain.id:%%(%s)s\n"
		file := policyFile(fmt.Sprintf(rule, "target.user.domain_id"))
		enforce(ctx, file)
		Expect(c.send(ctx, r)).To(Equal(403))
		args := []string{"check", "keystone-policy", file, "--as", c.as, "--can", asked.can, "--target", "target.user.domain_id=" + w.places[other].domain}
		code, out, errText := run(ctx, args...)
		Expect(code).To(Equal(1), errText)
		Expect(out).To(Equal(fmt.Sprintf("DENY\n  token.domain.id:%%(target.user.domain_id)s in rule \"identity:create_user\": the token has the token.domain.id %q, not %q\n",
			w.places[own].domain, w.places[other].domain)))

		By("removing the check")
		file = policyFile("identity:create_user: role:manager\n")
		enforce(ctx, file)
		Expect(c.send(ctx, r)).To(Equal(201))
		args[2] = file
		code, out, errText = run(ctx, args...)
		Expect(code).To(Equal(0), errText)
		Expect(out).To(Equal("PASS\n"))
	}, SpecTimeout(specTimeout))
})
