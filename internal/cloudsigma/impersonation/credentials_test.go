package impersonation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/config/v1beta1"
)

func TestCredentialsAreNotShown(t *testing.T) {
	credentials := Credentials{OAuthURL: "https://idp.example.com", ClientID: "client", ClientSecret: secret}
	var seen bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T %[1]v"} {
		fmt.Fprintf(&seen, verb+verb+verb, credentials, &credentials, []any{credentials})
	}
	seen.WriteString(credentials.String())
	slog.New(slog.NewTextHandler(&seen, nil)).Info("x", "credentials", credentials, "pointer", &credentials)
	slog.New(slog.NewJSONHandler(&seen, nil)).Info("x", "credentials", credentials, "nested", []any{credentials})
	encoded, err := json.Marshal(map[string]any{"credentials": credentials, "pointer": &credentials})
	if err != nil {
		t.Fatalf("Marshal() error = %v", err)
	}
	seen.Write(encoded)
	if text := seen.String(); strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
		t.Errorf("the secret was printed: %s", text)
	}
	if got, want := credentials.String(), `client "client" at "https://idp.example.com"`; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func TestFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	read := FromFile("https://idp.example.com", "client", file)
	cases := []struct {
		name, content, wantSecret, wantErr string
	}{
		{name: "there is none", wantErr: "no such file or directory"},
		{name: "with a newline", content: "canary-1\n", wantSecret: "canary-1"},
		{name: "another, without a restart", content: "canary-2", wantSecret: "canary-2"},
		{name: "empty", content: " \n", wantErr: "is empty"},
	}
	for _, tc := range cases { // in this order
		t.Run(tc.name, func(t *testing.T) {
			if tc.content != "" {
				if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := read(t.Context())
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || !strings.Contains(err.Error(), file) {
					t.Errorf("error = %v, want %q with the name of the file", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("error = %v", err)
			}
			want := Credentials{OAuthURL: "https://idp.example.com", ClientID: "client", ClientSecret: tc.wantSecret}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("credentials (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecretOfAFileIsReloaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(secret string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret)
	cloud := newCloud(t)
	opts := options(v1beta1.TokenExchange)
	opts.Credentials = FromFile("https://idp.example.com", "kube-dc-partner", file)
	s := source(t, cloud, opts)
	mustToken(t, s, alice)

	write("canary-2\n")
	mustToken(t, s, bob) // the cached token of the old secret is still valid
	cloud.secrets = []string{"canary-3"}
	write("canary-3\n")
	mustToken(t, s, "carol@example.com")
	wantCounts(t, cloud, map[cloudhttp.Operation]int{stepAccount: 3, stepExchange: 3})
}
