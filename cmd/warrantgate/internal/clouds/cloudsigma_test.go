package clouds

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/config/v1beta1"
)

// TestStartLogsMissingCredentials: serve starts without the Secret, so that it can be created later.
func TestStartLogsMissingCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		keys map[string][]byte // nil if there is no Secret
		want string
	}{
		"all keys": {keys: map[string][]byte{"oauth-url": []byte("https://idp.example.com"), "client-id": []byte("a"), "client-secret": []byte("b")}},
		"no Secret": {
			want: `there is no Secret "sigma" in namespace "capcs" (--impersonation-secret): create it, with the keys oauth-url, client-id and client-secret`,
		},
		"a missing key": {
			keys: map[string][]byte{"oauth-url": []byte("https://idp.example.com"), "client-secret": []byte("b")},
			want: `the Secret "sigma" in namespace "capcs" (--impersonation-secret) has no key "client-id", or it is empty: add it`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/namespaces/capcs/secrets/sigma" || tc.keys == nil {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, Data: tc.keys}); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			config := v1beta1.Default()
			config.CloudSigma.Regions = []string{"zrh"}
			owners, err := NewOwners(&rest.Config{Host: server.URL}, config, Flags{impersonationEnabled: true, secret: "capcs/sigma"}, logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := owners.credentials(t.Context()); tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var logged string
			ctx, cancel := context.WithCancel(t.Context())
			ctx = logr.NewContext(ctx, funcr.New(func(_, line string) { logged += line; cancel() }, funcr.Options{}))
			if err := owners.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if text := strings.ReplaceAll(logged, `\"`, `"`); !strings.Contains(text, tc.want) {
				t.Errorf("logged %s, want %s", text, tc.want)
			}
		})
	}
}

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
