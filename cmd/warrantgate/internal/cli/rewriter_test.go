package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

func TestRewritesOwners(t *testing.T) {
	const webhook, policy = "/mutatingwebhookconfigurations/warrantgate", "/mutatingadmissionpolicybindings/warrantgate-owner-rewrite"
	for name, tc := range map[string]struct {
		answers map[string]int
		want    bool
		wantErr bool
	}{
		"the webhook is registered":           {answers: map[string]int{webhook: http.StatusOK}, want: true},
		"the policy is registered":            {answers: map[string]int{policy: http.StatusOK}, want: true},
		"nothing is registered":               {},
		"the webhook may not be read":         {answers: map[string]int{webhook: http.StatusForbidden}, wantErr: true},
		"the policy may not be read":          {answers: map[string]int{policy: http.StatusForbidden}, wantErr: true},
		"only the registered one may be read": {answers: map[string]int{webhook: http.StatusForbidden, policy: http.StatusOK}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				code := http.StatusNotFound
				for suffix, answer := range tc.answers {
					if strings.HasSuffix(r.URL.Path, suffix) && strings.HasPrefix(r.URL.Path, "/clusters/root/") {
						code = answer
					}
				}
				w.WriteHeader(code)
				_, _ = w.Write([]byte("{}"))
			}))
			defer server.Close()
			got, err := cli.RewritesOwners(t.Context(), &rest.Config{Host: server.URL + "/clusters/root:org"})
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("RewritesOwners() = %t, %v, want %t", got, err, tc.want)
			}
		})
	}
}
