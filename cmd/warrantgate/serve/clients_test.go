package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

// clientCA is a CA that signs client certificates, and invalid ones.
type clientCA struct {
	clitest.Certificate
	pair tls.Certificate
	x509 *x509.Certificate
}

func newClientCA(t *testing.T) clientCA {
	t.Helper()
	a := clientCA{Certificate: clitest.NewCertificate(t)}
	var err error
	if a.pair, err = tls.X509KeyPair(a.Cert, a.Key); err != nil {
		t.Fatal(err)
	}
	if a.x509, err = x509.ParseCertificate(a.pair.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign returns a certificate for a name, valid until end, for one usage.
func (a clientCA) sign(t *testing.T, name string, usage x509.ExtKeyUsage, end time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.x509, key.Public(), a.pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// call sends a review on a new connection, with a client certificate or, for nil, without one. It returns the status and the body of the
// response.
func (s *serving) call(ctx context.Context, t *testing.T, certificate *tls.Certificate) (code int, text string, err error) {
	t.Helper()
	config := &tls.Config{RootCAs: s.certificate.Pool(t)}
	if certificate != nil {
		// The client sends its certificate regardless of the CAs that the server lists, as an attacker would.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.hook("/workspace/denial-notice"), bytes.NewReader(workspaceReview(t)))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

func TestOnlyKnownClientsGetVerdicts(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	ca, other := newClientCA(t), newClientCA(t)
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	s := startServe(t, "--client-ca-file="+clitest.WriteFile(t, "ca.crt", string(ca.Cert)), "--client-names=kube-apiserver,kcp")
	for name, tc := range map[string]struct {
		certificate *tls.Certificate
		wantCode    int
		wantText    string
		wantErr     bool
	}{
		"the API server": {
			certificate: ca.sign(t, "kube-apiserver", x509.ExtKeyUsageClientAuth, later),
			wantCode:    http.StatusOK, wantText: `"reason":"OwnerChangeDenied"`,
		},
		"another one": {
			certificate: ca.sign(t, "kcp", x509.ExtKeyUsageClientAuth, later),
			wantCode:    http.StatusOK, wantText: `"reason":"OwnerChangeDenied"`,
		},
		"no certificate":                      {wantCode: http.StatusNotFound},
		"another client of the same CA":       {certificate: ca.sign(t, "system:node:a", x509.ExtKeyUsageClientAuth, later), wantCode: http.StatusNotFound},
		"an empty name":                       {certificate: ca.sign(t, "", x509.ExtKeyUsageClientAuth, later), wantCode: http.StatusNotFound},
		"a name with the name as its prefix":  {certificate: ca.sign(t, "kube-apiserver-2", x509.ExtKeyUsageClientAuth, later), wantCode: http.StatusNotFound},
		"the configured name from another CA": {certificate: other.sign(t, "kube-apiserver", x509.ExtKeyUsageClientAuth, later), wantErr: true},
		"the certificate of a server":         {certificate: ca.sign(t, "kube-apiserver", x509.ExtKeyUsageServerAuth, later), wantErr: true},
		"an expired certificate":              {certificate: ca.sign(t, "kube-apiserver", x509.ExtKeyUsageClientAuth, before), wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			code, text, err := s.call(t.Context(), t, tc.certificate)
			if (err != nil) != tc.wantErr || code != tc.wantCode || !strings.Contains(text, tc.wantText) || code == http.StatusNotFound && text != "" {
				t.Errorf("answer = %d %q, %v; want %d %q", code, text, err, tc.wantCode, tc.wantText)
			}
		})
	}
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
	// Only the first denied client is logged.
	if got := strings.Count(s.logs.String(), `"msg":"denied a caller`); got != 1 {
		t.Errorf("%d lines about rejected callers:\n%s", got, s.logs.String())
	}
	goleak.VerifyNone(t, leaks)
}

func TestTheClientCAIsReloaded(t *testing.T) {
	before, after := newClientCA(t), newClientCA(t)
	file := clitest.WriteFile(t, "ca.crt", string(before.Cert))
	s := startServe(t, "--client-ca-file="+file, "--client-names=kcp")
	later := time.Now().Add(time.Hour)
	old, renewed := before.sign(t, "kcp", x509.ExtKeyUsageClientAuth, later), after.sign(t, "kcp", x509.ExtKeyUsageClientAuth, later)
	answered := func(certificate *tls.Certificate, want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			code, _, err := s.call(ctx, t, certificate)
			if (code == http.StatusOK) != want {
				return fmt.Errorf("answer = %d, %s", code, fmt.Sprint(err))
			}
			return nil
		}
	}
	clitest.Await(t, "the first CA", answered(old, true))
	if err := os.WriteFile(file, append(before.Cert, after.Cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, "both CAs", answered(renewed, true))
	clitest.Await(t, "both CAs", answered(old, true))
	if err := os.WriteFile(file, after.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, "that the first CA is not trusted any more", answered(old, false))
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, "that the invalid file is reported", func(context.Context) error {
		if !strings.Contains(s.logs.String(), "error loading CA bundle") {
			return errors.New(s.logs.String())
		}
		return nil
	})
	clitest.Await(t, "the CA before the invalid file", answered(renewed, true))
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
}

// TestClientsOrTokens checks that only the configured method is required: the client certificate, the token, or both.
func TestClientsOrTokens(t *testing.T) {
	ca := newClientCA(t)
	later := time.Now().Add(time.Hour)
	kcp := ca.sign(t, "kcp", x509.ExtKeyUsageClientAuth, later)
	clients := []string{"--client-ca-file=" + clitest.WriteFile(t, "ca.crt", string(ca.Cert)), "--client-names=kcp"}
	for name, tc := range map[string]struct {
		args []string
		// want are the answers without both, with the certificate, with the token, and with both.
		want []int
	}{
		"tokens":  {want: []int{404, 404, 200, 200}},
		"clients": {args: append(clients, "--webhook-path-file="), want: []int{404, 200, 404, 404}}, // no such path exists then
		"both":    {args: clients, want: []int{404, 404, 404, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServe(t, tc.args...)
			known := s.token
			var got []int
			for _, send := range []struct {
				certificate *tls.Certificate
				token       string
			}{{}, {certificate: kcp}, {token: known}, {certificate: kcp, token: known}} {
				s.token = send.token
				code, _, err := s.call(t.Context(), t, send.certificate)
				if err != nil {
					t.Error(err)
				}
				got = append(got, code)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if err := s.shutdown(t); err != nil {
				t.Errorf("serve ends with %v", err)
			}
		})
	}
}
