package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/internal/certificates"
)

// secretAPI is an API server with one Secret, which others have written. It lets nobody lead.
type secretAPI struct {
	t  *testing.T
	mu sync.Mutex
	c  clitest.Certificate
}

func (a *secretAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch r.Method + " " + r.URL.Path {
	case "GET /api/v1/namespaces/warrantgate/secrets/certificate":
		answer = corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Type: certificates.SecretType,
			Data: map[string][]byte{"ca.crt": a.c.Cert, corev1.TLSCertKey: a.c.Cert, corev1.TLSPrivateKeyKey: a.c.Key},
		}
	case "GET /apis/coordination.k8s.io/v1/namespaces/warrantgate/leases/certificate":
		w.WriteHeader(http.StatusForbidden)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
	default:
		a.t.Errorf("%s %s was not expected", r.Method, r.URL)
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.t.Errorf("answer: %v", err)
	}
}

// TestServeWithTheCertificateOfASecret holds that a replica serves without leading, and is not ready before.
func TestServeWithTheCertificateOfASecret(t *testing.T) {
	s := newServing(t)
	api := &secretAPI{t: t}
	server := httptest.NewServer(api)
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	s.stop, s.ended = stop, make(chan error, 1)
	cmd := clitest.Root(io.Discard, &s.logs, NewCommand())
	cmd.SetArgs([]string{
		"serve", "--webhook-address=" + s.webhook, "--metrics-address=" + s.metrics, "--health-address=" + s.health,
		"--webhook-path-file=" + s.pathFile, "--certificate-secret=warrantgate/certificate", "--certificate-dns-names=warrantgate.example.com",
		"--certificate-kubeconfig=" + clitest.WriteKubeconfig(t, map[string]string{"home": server.URL}),
	})
	go func() { s.ended <- cmd.ExecuteContext(ctx) }()
	clitest.Await(t, "that it is alive", func(ctx context.Context) error {
		code, _, err := clitest.Get(ctx, "http://"+s.health+"/healthz")
		if err == nil && code != http.StatusOK {
			err = errors.New("it is not")
		}
		return err
	})
	for path, want := range map[string]string{"/readyz": "certificate", "/readyz/webhooks": "there is no certificate yet"} {
		code, body, err := clitest.Get(t.Context(), "http://"+s.health+path)
		if err != nil || code != http.StatusInternalServerError || !strings.Contains(body, want) {
			t.Errorf("%s without a certificate = %d %q, %v; want 500 and %q", path, code, body, err, want)
		}
	}

	api.mu.Lock()
	api.c = s.certificate
	api.mu.Unlock()
	s.awaitReady(t)
	client := s.certificate.Client(t)
	if got, _ := s.ask(t, client, "/workspace/owner-integrity"); got.AuditAnnotations["decision"] != "denied" {
		t.Errorf("the gate says %v", got)
	}
	_, exposed, err := clitest.Get(t.Context(), "http://"+s.metrics+"/metrics")
	if err != nil || !strings.Contains(exposed, "warrantgate_certificate_expiry_seconds 3") { // a bit less than an hour
		t.Errorf("the time until the certificate ends is not known: %v", err)
	}
	client.CloseIdleConnections()
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
}
