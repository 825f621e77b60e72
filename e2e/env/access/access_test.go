package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"warrantgate.dev/e2e/env/access"
)

// verified returns the certificate of a pair, if the CA signed it for a usage.
func verified(t *testing.T, ca *access.CA, pair access.KeyPair, usage x509.ExtKeyUsage) *x509.Certificate {
	t.Helper()
	both, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	if _, err := both.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
		t.Error(err)
	}
	return both.Leaf
}

func TestCA(t *testing.T) {
	ca, err := access.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.ClientPair("alice", []string{"operators", "people"})
	if err != nil {
		t.Fatal(err)
	}
	subject := verified(t, ca, pair, x509.ExtKeyUsageClientAuth).Subject
	if subject.CommonName != "alice" {
		t.Errorf("user = %q, want alice", subject.CommonName)
	}
	slices.Sort(subject.Organization) // a certificate does not keep the order
	if diff := cmp.Diff([]string{"operators", "people"}, subject.Organization); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(ca.PEM(), key); err != nil {
		t.Errorf("certificate and key of the CA: %v", err)
	}
	server, err := ca.ServingPair("warrantgate")
	if err != nil {
		t.Fatal(err)
	}
	certificate := verified(t, ca, server, x509.ExtKeyUsageServerAuth)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if err := certificate.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestServingPairAppliesChangesBeforeSigning(t *testing.T) {
	ca, err := access.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(5 * time.Minute).Truncate(time.Second).UTC()
	server, err := ca.ServingPair("warrantgate",
		func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "gate.example.com") },
		func(c *x509.Certificate) { c.NotAfter = until })
	if err != nil {
		t.Fatal(err)
	}
	certificate := verified(t, ca, server, x509.ExtKeyUsageServerAuth)
	for _, host := range []string{"127.0.0.1", "localhost", "gate.example.com"} {
		if err := certificate.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if !certificate.NotAfter.Equal(until) {
		t.Errorf("valid until %s, want %s", certificate.NotAfter, until)
	}
}

func TestWriteKubeconfig(t *testing.T) {
	want := &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "token"}
	want.CAData, want.CertData, want.KeyData = []byte("authority"), []byte("certificate"), []byte("key")
	path := filepath.Join(t.TempDir(), "alice.kubeconfig")
	if err := access.WriteKubeconfig(path, "alice", want); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode = %s", info.Mode())
	}
	if err := access.WriteKubeconfig(filepath.Join(path, "x"), "alice", want); err == nil || !strings.Contains(err.Error(), "write kubeconfig of alice") {
		t.Errorf("WriteKubeconfig() below a file: error = %v", err)
	}
}

// newClient is a client of a server that issues tokens for service accounts, except for the service account without-token.
func newClient() client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(
			_ context.Context, _ client.Client, name string, object, sub client.Object, _ ...client.SubResourceCreateOption,
		) error {
			request, is := sub.(*authenticationv1.TokenRequest)
			if !is || name != "token" || object.GetName() == "without-token" {
				return errors.New("no tokens here")
			}
			request.Status.Token = "token of " + object.GetNamespace() + "/" + object.GetName()
			return nil
		},
	}).Build()
}

// withoutNamespaces is a client of a server that rejects the creation of namespaces.
func withoutNamespaces() client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("no namespaces here")
		},
	}).Build()
}

func TestServiceAccount(t *testing.T) {
	admin := &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "admin", QPS: -1}
	admin.CAData, admin.CertData = []byte("authority"), []byte("certificate")
	c := newClient()
	got, err := access.ServiceAccount(t.Context(), c, admin, "capcs-system", "capcs")
	if err != nil {
		t.Fatal(err)
	}
	want := &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "token of capcs-system/capcs", QPS: -1}
	want.CAData = []byte("authority")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ServiceAccount() (-want +got):\n%s", diff)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "capcs-system"}, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
	if _, err := access.ServiceAccount(t.Context(), c, admin, "capcs-system", "other"); err != nil {
		t.Errorf("ServiceAccount() in an existing namespace: %v", err)
	}
}

func TestServiceAccountReturnsErrors(t *testing.T) {
	there := newClient()
	if _, err := access.CreateServiceAccount(t.Context(), there, "default", "there"); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		client        client.Client
		account, want string
	}{
		"namespace": {withoutNamespaces(), "any", "create namespace default: no namespaces here"},
		"account":   {there, "there", `create service account: serviceaccounts "there" already exists`},
		"token":     {there, "without-token", "token of service account default/without-token: no tokens here"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := access.ServiceAccount(t.Context(), tc.client, &rest.Config{}, "default", tc.account)
			if err == nil || err.Error() != tc.want {
				t.Errorf("ServiceAccount() error = %v, want %s", err, tc.want)
			}
		})
	}
}
