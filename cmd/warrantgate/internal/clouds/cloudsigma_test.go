package clouds

import (
	"testing"

	"warrantgate.dev/internal/config/v1beta1"
)

// With legacy credentials, one account serves several tenants.
func TestRequireDeny(t *testing.T) {
	const text = `machine.unknown: Required value: legacy credentials are enabled ($CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS), and one account serves several ` +
		`tenants; set machine.unknown: Deny, and install again with this configuration, so that no tenant can claim a server of another one while the cloud ` +
		`or warrantgate is away`
	for name, tc := range map[string]struct {
		access  Access
		machine v1beta1.Machine
		want    string
	}{
		"impersonation":              {access: Access{Impersonating: true}, machine: v1beta1.Machine{Mode: v1beta1.Enforce}},
		"legacy":                     {access: Access{Legacy: true}, machine: v1beta1.Machine{Mode: v1beta1.Enforce}, want: text},
		"both":                       {access: Access{Impersonating: true, Legacy: true}, machine: v1beta1.Machine{Mode: v1beta1.Enforce}, want: text},
		"legacy, AdmitFirstClaims":   {access: Access{Legacy: true}, machine: v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.AdmitFirstClaims}, want: text},
		"legacy, Admit":              {access: Access{Legacy: true}, machine: v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Admit}, want: text},
		"legacy, Deny":               {access: Access{Legacy: true}, machine: v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Deny}},
		"legacy, a gate that warns":  {access: Access{Legacy: true}, machine: v1beta1.Machine{Mode: v1beta1.Warn}},
		"legacy, a gate that is off": {access: Access{Legacy: true}, machine: v1beta1.Machine{Mode: v1beta1.Off}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tc.access.RequireDeny(tc.machine); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("RequireDeny() = %q, want %q", got, tc.want)
			}
		})
	}
}
