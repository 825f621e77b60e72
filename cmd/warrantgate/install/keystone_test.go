package install

import (
	"strings"
	"testing"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

// TestInstallRegistersTheGateOnPoliciesWithASelector checks the wiring only. The webhook itself is tested in its own package.
func TestInstallRegistersTheGateOnPoliciesWithASelector(t *testing.T) {
	const selector = "keystonePolicy: {selector: {matchLabels: {holds: keystone-policy}}"
	caFile := clitest.NewCertificate(t).Write(t, t.TempDir()).CertFile
	for name, tc := range map[string]struct {
		configuration string
		want          []string // nil if nothing is registered
	}{
		"by default":                    {},
		"with a selector":               {selector + "}\n", []string{"failurePolicy: Fail", "holds: keystone-policy", "url: https://warrantgate.example.com/keystone/policy"}},
		"with a selector, only to warn": {selector + ", mode: Warn}\n", []string{"failurePolicy: Ignore", "holds: keystone-policy"}},
		"with a selector, but off":      {selector + ", mode: Off}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			file := clitest.WriteFile(t, "config.yaml", "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+tc.configuration)
			out, _, err := run(t, "install", "kubernetes", "--dry-run", "--url=https://warrantgate.example.com", "--ca-file="+caFile, "--config="+file)
			if err != nil {
				t.Fatal(err)
			}
			_, webhook, registered := strings.Cut(out, "/keystone/policy")
			if registered != (tc.want != nil) {
				t.Fatalf("registered = %t:\n%s", registered, out)
			}
			webhook = "url: https://warrantgate.example.com/keystone/policy" + webhook
			for _, want := range tc.want {
				if !strings.Contains(webhook, want) {
					t.Errorf("the webhook has no %q:\n%s", want, webhook)
				}
			}
		})
	}
}
