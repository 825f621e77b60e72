//go:build e2e

package keystonepolicy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/e2e/env/suite"
)

// checkCase is a case for "warrantgate check keystone-policy".
type checkCase struct {
	Name   string `json:"name"`
	As     string `json:"as"`
	Can    string `json:"can"`
	Target object `json:"target"`
	Expect string `json:"expect"`
}

// newCase is the case of a request that Keystone has answered with a status.
func newCase(name string, c caller, can string, r request, status int) checkCase {
	expect := "PASS"
	if status == http.StatusForbidden {
		expect = "DENY"
	}
	return checkCase{Name: name, As: c.as, Can: can, Target: r.target, Expect: expect}
}

// agree fails the spec unless warrantgate and Keystone have the same verdict in all cases.
func agree(ctx context.Context, policyFile string, cases []checkCase) {
	GinkgoHelper()
	document, err := yaml.Marshal(map[string]any{"cases": cases})
	Expect(err).NotTo(HaveOccurred())
	table := filepath.Join(GinkgoT().TempDir(), "cases.yaml")
	Expect(os.WriteFile(table, document, 0o600)).To(Succeed())
	code, out, errText := run(ctx, "check", "keystone-policy", policyFile, "--cases", table)
	var failed []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "ok ") {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	Expect(failed).To(Equal([]string{fmt.Sprintf("%d cases, 0 failed", len(cases))}), "where Keystone and warrantgate disagree, Keystone's verdict is the expected one")
	Expect(errText).To(BeEmpty())
	Expect(code).To(Equal(0))
}

// finding is a finding of "warrantgate lint keystone-policy".
type finding struct {
	Rule, Severity, Code, Message string
}

// lint returns the findings in a policy, without the notes for rules that grant less than Keystone's own rules: all overrides have some.
func lint(ctx context.Context, policyFile string) []finding {
	GinkgoHelper()
	code, out, errText := run(ctx, "lint", "keystone-policy", policyFile, "--output=json")
	var report struct{ Findings []finding }
	Expect(json.Unmarshal([]byte(out), &report)).To(Succeed(), out+errText)
	Expect(errText).To(BeEmpty())
	findings := slices.DeleteFunc(report.Findings, func(f finding) bool { return f.Severity == "note" && f.Code == "narrower-than-default" })
	if len(findings) == 0 {
		Expect(code).To(Equal(0))
	}
	return findings
}

// run runs a command of warrantgate.
func run(ctx context.Context, args ...string) (code int, out, errText string) {
	GinkgoHelper()
	printed := suite.Warrantgate(ctx, args...)
	return printed.Status, printed.Stdout, printed.Stderr
}
