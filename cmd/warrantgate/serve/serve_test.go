package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

// These tests do not run in parallel, because serve sets the logger of the process.

// serving is a serve under test.
type serving struct {
	webhook, metrics, health string
	token, pathFile          string
	certificate              clitest.Certificate
	certificates             clitest.Files
	logs                     clitest.Output
	// stop has the effect of SIGTERM.
	stop context.CancelFunc
	// ended receives the error that serve returns.
	ended chan error
}

// startServe starts serve on free ports, with its own certificate, and waits until it is ready.
func startServe(t *testing.T, args ...string) *serving {
	t.Helper()
	s := newServing(t)
	ctx, stop := context.WithCancel(t.Context())
	s.stop, s.ended = stop, make(chan error, 1)
	t.Cleanup(stop)
	cmd := clitest.Root(io.Discard, &s.logs, NewCommand())
	cmd.SetArgs(append(s.args(), args...))
	go func() { s.ended <- cmd.ExecuteContext(ctx) }()
	s.awaitReady(t)
	if !slices.Contains(args, "--metrics-address=0") {
		clitest.AwaitListening(t, s.metrics) // readiness does not cover the metrics server
	}
	return s
}

func newServing(t *testing.T) *serving {
	t.Helper()
	certificate := clitest.NewCertificate(t)
	ports := clitest.FreeAddresses(t, 3)
	token := strings.ToLower(rand.Text() + rand.Text())
	return &serving{
		token: token, pathFile: clitest.WriteFile(t, "webhook-path", token+"\n"),
		webhook: ports[0], metrics: ports[1], health: ports[2],
		certificate: certificate, certificates: certificate.Write(t, t.TempDir()),
	}
}

// hook is the URL of a gate.
func (s *serving) hook(path string) string {
	if s.token == "" {
		return "https://" + s.webhook + path
	}
	return "https://" + s.webhook + "/" + s.token + path
}

func (s *serving) args() []string {
	return []string{
		"serve", "--webhook-address=" + s.webhook, "--metrics-address=" + s.metrics, "--health-address=" + s.health,
		"--tls-cert-file=" + s.certificates.CertFile, "--tls-private-key-file=" + s.certificates.KeyFile,
		"--webhook-path-file=" + s.pathFile,
	}
}

func (s *serving) awaitReady(t *testing.T) {
	t.Helper()
	clitest.Await(t, "ready", func(ctx context.Context) error {
		select {
		case err := <-s.ended:
			t.Fatalf("serve has ended: %v\n%s", err, s.logs.String())
		default:
		}
		code, body, err := clitest.Get(ctx, "http://"+s.health+"/readyz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d %s", code, body)
		}
		return err
	})
}

// shutdown stops serve and returns its error.
func (s *serving) shutdown(t *testing.T) error {
	t.Helper()
	s.stop()
	return s.awaitEnd(t)
}

func (s *serving) awaitEnd(t *testing.T) error {
	t.Helper()
	var ended error
	clitest.Await(t, "end", func(context.Context) error {
		select {
		case ended = <-s.ended:
			return nil
		default:
			return errors.New("serve is still running")
		}
	})
	return ended
}

// workspaceReview returns the review of an update by alice that replaces the owner of a Workspace.
func workspaceReview(t *testing.T) []byte {
	t.Helper()
	workspace := func(owner string) runtime.RawExtension {
		raw, err := json.Marshal(map[string]any{
			"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
			"metadata": map[string]any{"name": "team-a", "uid": "6a1b", "annotations": map[string]string{
				"kcp.io/cluster": "1dz6n4ubraua7pul", "experimental.tenancy.kcp.io/owner": owner,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: raw}
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "d1", Name: "team-a", Operation: admissionv1.Update, UserInfo: authenticationv1.UserInfo{Username: "alice"},
			OldObject: workspace(`{"username":"bob"}`), Object: workspace(`{"username":"alice"}`),
		},
	}
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// send sends the review to a gate, and returns the verdict and whether the connection had been used before.
func (s *serving) send(t *testing.T, client *http.Client, path string) (response *admissionv1.AdmissionResponse, reused bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.hook(path)+"?timeout=3s", bytes.NewReader(workspaceReview(t)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		t.Fatalf("call %s: %v", path, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		t.Errorf("%s responds %s over %s, want 200 OK over HTTP/2.0", path, answer.Status, answer.Proto)
	}
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(answer.Body).Decode(&review); err != nil {
		t.Fatalf("decode the answer of %s: %v", path, err)
	}
	if review.Response == nil || review.Response.UID != "d1" {
		t.Fatalf("%s responds %v, want a response to d1", path, review.Response)
	}
	return review.Response, reused
}

func TestServeNeedsNoKubeconfig(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	s := startServe(t)

	for url, want := range map[string]string{
		"http://" + s.health + "/healthz":         "ok",
		"http://" + s.health + "/healthz/ping":    "ok",
		"http://" + s.health + "/readyz":          "ok",
		"http://" + s.health + "/readyz/webhooks": "ok",
	} {
		if code, body, err := clitest.Get(t.Context(), url); err != nil || code != http.StatusOK || body != want {
			t.Errorf("%s = %d %q, %v; want 200 %q", url, code, body, err, want)
		}
	}

	client := s.certificate.Client(t)
	for path, want := range map[string]string{
		"/workspace/owner-rewrite": "allowed",
		"/workspace/owner-notice":  "allowed",
		"/workspace/denial-notice": "allowed",
	} {
		if got, _ := s.send(t, client, path); got.AuditAnnotations["decision"] != want {
			t.Errorf("%s responds %v, want %s", path, got, want)
		}
	}

	_, exposed, err := clitest.Get(t.Context(), "http://"+s.metrics+"/metrics")
	if err != nil {
		t.Fatalf("read the metrics: %v", err)
	}
	for _, want := range []string{
		`warrantgate_admissions_total{decision="allowed",gate="denial-notice",reason="OwnerChangeDenied"} `,
		`warrantgate_admission_duration_seconds_count{decision="allowed",gate="denial-notice"} `,
		`warrantgate_events_total{outcome="off"} `,
		"certwatcher_read_certificate_total ", "warrantgate_certificate_expiry_seconds ",
	} {
		if !strings.Contains(exposed, want) {
			t.Errorf("no metric %s", want)
		}
	}
	if !strings.Contains(exposed, "warrantgate_certificate_expiry_seconds 3") { // a bit less than an hour
		t.Error("the time until the certificate expires is not known")
	}

	client.CloseIdleConnections()
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
	for _, want := range []string{
		`"msg":"starting","version":"dev","webhookAddress":"` + s.webhook + `","ownerRewrite":"Enforce","ownerIntegrity":"Enforce"`,
		`"msg":"Events are off: no kubeconfig for kcp was given (--kcp-kubeconfig)"`,
	} {
		if !strings.Contains(s.logs.String(), want) {
			t.Errorf("no line with %s in the log:\n%s", want, s.logs.String())
		}
	}
	goleak.VerifyNone(t, leaks)
}

func TestServeSpeaksTLS13Only(t *testing.T) {
	s := startServe(t)
	for name, tc := range map[string]struct {
		config  *tls.Config
		want    uint16
		wantErr string
	}{
		"1.3 is spoken": {
			config: &tls.Config{MinVersion: tls.VersionTLS12},
			want:   tls.VersionTLS13,
		},
		"1.2 is rejected": {
			config:  &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12},
			wantErr: "remote error: tls: protocol version not supported",
		},
		"HTTP/2 is agreed on": {
			config: &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}},
			want:   tls.VersionTLS13,
		},
		"HTTP/1.1 is possible": {
			config: &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}},
			want:   tls.VersionTLS13,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.config.RootCAs = s.certificate.Pool(t)
			conn, err := (&tls.Dialer{Config: tc.config}).DialContext(t.Context(), "tcp", s.webhook)
			if err != nil {
				if err.Error() != tc.wantErr {
					t.Errorf("error = %v, want %q", err, tc.wantErr)
				}
				return
			}
			defer conn.Close()
			secured, ok := conn.(*tls.Conn)
			if !ok || secured.ConnectionState().Version != tc.want || tc.wantErr != "" {
				t.Errorf("a connection of %v, want version %x, error %q", conn, tc.want, tc.wantErr)
			}
		})
	}
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
}

func TestServeReloadsItsCertificate(t *testing.T) {
	// mounted writes the certificate in the way kubelet mounts Secrets: the files are symlinks through a directory ..data, which is a symlink
	// that is replaced.
	mounted := func(t *testing.T, c clitest.Certificate, dir string) {
		t.Helper()
		version := t.TempDir()
		c.Write(t, version)
		before, _ := os.Readlink(filepath.Join(dir, "..data"))
		link := filepath.Join(dir, "..data_tmp")
		if err := errors.Join(os.Symlink(version, link), os.Rename(link, filepath.Join(dir, "..data"))); err != nil {
			t.Fatal(err)
		}
		if before != "" {
			if err := os.RemoveAll(before); err != nil {
				t.Fatal(err)
			}
			return
		}
		for _, name := range []string{"tls.crt", "tls.key"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	renamed := func(t *testing.T, c clitest.Certificate, dir string) {
		t.Helper()
		files := c.Write(t, t.TempDir())
		for _, path := range []string{files.CertFile, files.KeyFile} {
			if err := os.Rename(path, filepath.Join(dir, filepath.Base(path))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, put := range map[string]func(t *testing.T, c clitest.Certificate, dir string){
		"written over the old one": func(t *testing.T, c clitest.Certificate, dir string) { t.Helper(); c.Write(t, dir) },
		"renamed to the old one":   renamed,
		"mounted by kubelet":       mounted,
	} {
		t.Run(name, func(t *testing.T) {
			s := newServing(t)
			dir := filepath.Dir(s.certificates.CertFile)
			put(t, s.certificate, dir)
			ctx, stop := context.WithCancel(t.Context())
			s.stop, s.ended = stop, make(chan error, 1)
			defer stop()
			cmd := clitest.Root(io.Discard, &s.logs, NewCommand())
			cmd.SetArgs(s.args())
			go func() { s.ended <- cmd.ExecuteContext(ctx) }()
			s.awaitReady(t)

			before := s.certificate.Client(t)
			s.send(t, before, "/workspace/owner-notice")

			renewed := clitest.NewCertificate(t)
			put(t, renewed, dir)
			after := renewed.Client(t)
			clitest.Await(t, "the new certificate", func(ctx context.Context) error {
				conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: renewed.Pool(t)}}).DialContext(ctx, "tcp", s.webhook)
				if err != nil {
					return err
				}
				return conn.Close()
			})
			if _, reused := s.send(t, after, "/workspace/owner-notice"); reused {
				t.Error("the new client found a connection")
			}
			if _, reused := s.send(t, before, "/workspace/owner-notice"); !reused {
				t.Error("the open connection was closed")
			}
			before.CloseIdleConnections()
			after.CloseIdleConnections()
			if err := s.shutdown(t); err != nil {
				t.Errorf("serve ends with %v", err)
			}
		})
	}
}

func TestServeKeepsItsCertificateUntilTheNewOneIsComplete(t *testing.T) {
	s := startServe(t)
	serves := func(c clitest.Certificate) func(context.Context) error {
		return func(ctx context.Context) error {
			conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: c.Pool(t)}}).DialContext(ctx, "tcp", s.webhook)
			if err != nil {
				return err
			}
			return conn.Close()
		}
	}
	failures := func(ctx context.Context) (string, error) {
		_, exposed, err := clitest.Get(ctx, "http://"+s.metrics+"/metrics")
		_, rest, _ := strings.Cut(exposed, "\ncertwatcher_read_certificate_errors_total ")
		count, _, _ := strings.Cut(rest, "\n")
		return count, err
	}
	before, err := failures(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	renewed := clitest.NewCertificate(t)
	if err := os.WriteFile(s.certificates.CertFile, renewed.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, "that the half is noticed", func(ctx context.Context) error {
		now, err := failures(ctx)
		if err == nil && now == before {
			err = fmt.Errorf("still %s failures to read the certificate", now)
		}
		return err
	})
	if err := serves(s.certificate)(t.Context()); err != nil {
		t.Errorf("the old certificate is no longer served: %v", err)
	}
	if err := os.WriteFile(s.certificates.KeyFile, renewed.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, "the new certificate", serves(renewed))
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
}

func TestServeAppliesItsConfiguration(t *testing.T) {
	config := clitest.WriteFile(t, "config.yaml", "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
		"workspace: {ownerRewrite: {mode: Off}, ownerIntegrity: {mode: Warn}}\n")
	s := startServe(t, "--config="+config)
	client := s.certificate.Client(t)
	for path, want := range map[string]map[string]string{
		"/workspace/owner-rewrite": {"decision": "allowed", "reason": "Off", "decision-id": "d1"},
		"/workspace/owner-notice":  {"decision": "allowed", "reason": "Off", "decision-id": "d1"},
		"/workspace/denial-notice": {"decision": "allowed", "reason": "OwnerChangeDenied", "decision-id": "d1"},
	} {
		got, _ := s.send(t, client, path)
		if diff := cmp.Diff(want, got.AuditAnnotations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	client.CloseIdleConnections()
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
}

// eventKCP is a kcp that allows Events and records them.
type eventKCP struct {
	t      *testing.T
	mu     sync.Mutex
	events []string
}

func (k *eventKCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var answer string
	switch r.Method + " " + r.URL.Path {
	case "GET /clusters/root/version":
		answer = `{"gitVersion":"v1.36.0+kcp-v0.32.3"}`
	case "POST /clusters/root/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		answer = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`
	case "POST /clusters/1dz6n4ubraua7pul/api/v1/namespaces/default/events":
		var event corev1.Event
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			k.t.Errorf("decode the Event: %v", err)
		}
		k.mu.Lock()
		k.events = append(k.events, fmt.Sprintf("%s on %s (%s)", event.Reason, event.InvolvedObject.Name, event.InvolvedObject.UID))
		k.mu.Unlock()
		answer = `{"kind":"Event","apiVersion":"v1","metadata":{"name":"team-a.1","namespace":"default"}}`
	default:
		k.t.Errorf("%s %s was not expected", r.Method, r.URL)
	}
	if _, err := io.WriteString(w, answer); err != nil {
		k.t.Errorf("answer: %v", err)
	}
}

func (k *eventKCP) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.events)
}

// The pending request is one whose body is not complete yet: the gates themselves take no time.
func TestServeCompletesPendingAdmissions(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	kcp := &eventKCP{t: t}
	server := httptest.NewServer(kcp)
	defer server.Close()
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": server.URL + "/clusters/root:home"})
	s := startServe(t, "--kcp-kubeconfig="+kubeconfig)
	clitest.Await(t, "Events on", func(context.Context) error {
		if !strings.Contains(s.logs.String(), `"msg":"Events are on"`) {
			return errors.New(s.logs.String())
		}
		return nil
	})

	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: s.certificate.Pool(t)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", s.webhook)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	body := workspaceReview(t)
	if _, err := fmt.Fprintf(conn, "POST /%s/workspace/denial-notice?timeout=3s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", s.token, s.webhook, len(body)); err != nil {
		t.Fatal(err)
	}
	if line, err := reader.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" { // its handler is reading
		t.Fatalf("answer = %q, %v", line, err)
	}
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}

	s.stop()
	clitest.Await(t, "that no new client connects", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.webhook)
		if err != nil {
			return nil //nolint:nilerr // this is what is awaited
		}
		_ = conn.Close()
		return errors.New("it still listens")
	})
	select {
	case err := <-s.ended:
		t.Fatalf("serve ended with an admission under way: %v", err)
	default:
	}

	if _, err := conn.Write(body); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	defer response.Body.Close()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		t.Fatalf("decode the answer: %v", err)
	}
	if got := review.Response.AuditAnnotations["reason"]; got != "OwnerChangeDenied" {
		t.Errorf("answer = %v", review.Response)
	}
	if err := s.awaitEnd(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
	if diff := cmp.Diff([]string{"OwnerChangeDenied on team-a (6a1b)"}, kcp.all()); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	server.Close()
	goleak.VerifyNone(t, leaks)
}

func TestServeEndsWhenOneOfItsServersFails(t *testing.T) {
	var listening net.ListenConfig
	listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().String()

	for _, flag := range []string{"--webhook-address=", "--metrics-address=", "--health-address="} {
		t.Run(flag, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			_, logs, err := clitest.Run(t, []*cobra.Command{NewCommand()}, append(newServing(t).args(), flag+taken)...)
			if err == nil || !strings.HasSuffix(err.Error(), "listen tcp "+taken+": bind: address already in use") {
				t.Errorf("error = %v, want that the address is in use", err)
			}
			if !strings.Contains(logs, `"msg":"starting"`) {
				t.Errorf("log = %s", logs)
			}
			goleak.VerifyNone(t, leaks)
		})
	}
}

func TestServeWithoutMetrics(t *testing.T) {
	s := startServe(t, "--metrics-address=0", "--log-format=text", "--log-level=debug")
	if code, body, err := clitest.Get(t.Context(), "http://"+s.metrics+"/metrics"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("/metrics = %d %q, %v; want no listener", code, body, err)
	}
	if err := s.shutdown(t); err != nil {
		t.Errorf("serve ends with %v", err)
	}
	if !strings.Contains(s.logs.String(), "level=INFO msg=starting version=dev") {
		t.Errorf("log = %s, want text", s.logs.String())
	}
}

func TestServeMistakes(t *testing.T) {
	certificates := clitest.NewCertificate(t).Write(t, t.TempDir())
	other := clitest.NewCertificate(t).Write(t, t.TempDir())
	missing := filepath.Join(t.TempDir(), "missing")
	noPEM := clitest.WriteFile(t, "tls.crt", "no PEM")
	badConfig := clitest.WriteFile(t, "config.yaml", "apiVersion: config.warrantgate.dev/v1beta1\nkind: Gate\n")
	badAddress := clitest.WriteKubeconfig(t, map[string]string{"home": "https://kcp example"})
	short := clitest.WriteFile(t, "short", "too-short-to-show")

	path := "--webhook-path-file=" + clitest.WriteFile(t, "webhook-path", strings.Repeat("a", 32))
	serve := func(args ...string) []string {
		return append([]string{"serve", path, "--tls-cert-file=" + certificates.CertFile, "--tls-private-key-file=" + certificates.KeyFile}, args...)
	}
	const certificate = "read the serving certificate (--tls-cert-file, --tls-private-key-file): "
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no certificate at all": {args: []string{"serve"}, want: `required flag(s) "tls-cert-file", "tls-private-key-file" not set`},
		"a certificate without key": {
			args: []string{"serve", "--tls-cert-file=" + certificates.CertFile}, want: `required flag(s) "tls-private-key-file" not set`,
		},
		"an unknown log format":     {args: serve("--log-format=xml"), want: `--log-format: "xml" is neither json nor text`},
		"an unknown log level":      {args: serve("--log-level=loud"), want: `--log-level: slog: level string "loud": unknown name`},
		"no configuration":          {args: serve("--config=" + missing), want: "read the configuration: open " + missing + ": no such file or directory"},
		"a mistaken configuration":  {args: serve("--config=" + badConfig), want: "configuration " + badConfig + `: line 2: kind: Unsupported value: "Gate": supported values: "GateConfiguration"`},
		"no kubeconfig":             {args: serve("--kcp-kubeconfig=" + missing), want: `--kcp-kubeconfig: read kubeconfig "` + missing + `": stat ` + missing + ": no such file or directory"},
		"an unused kubeconfig":      {args: serve("--kcp-kubeconfig=" + badAddress), want: `address of kcp "https://kcp example": parse "https://kcp example": invalid character " " in host name`},
		"no certificate":            {args: serve("--tls-cert-file=" + missing), want: certificate + "open " + missing + ": no such file or directory"},
		"no key":                    {args: serve("--tls-private-key-file=" + missing), want: certificate + "open " + missing + ": no such file or directory"},
		"a certificate without PEM": {args: serve("--tls-cert-file=" + noPEM), want: certificate + "tls: failed to find any PEM data in certificate input"},
		"no webhook path":           {args: serve("--webhook-path-file=" + missing), want: "--webhook-path-file: open " + missing + ": no such file or directory"},
		"a short webhook path": {
			args: serve("--webhook-path-file=" + short),
			want: "--webhook-path-file: " + short + `: line 1 is not a token: it must be 32 to 128 lower-case letters and digits, such as the output of "openssl rand -hex 32"`,
		},
		"no authentication of callers": {
			args: serve("--webhook-path-file="),
			want: "no authentication of callers is configured: set --webhook-path-file, a file of tokens with which the request path begins " +
				`("openssl rand -hex 32" prints a token; give the same file to install), or --client-ca-file and --client-names, the client certificates of API servers`,
		},
		"the key of another certificate": {args: serve("--tls-private-key-file=" + other.KeyFile), want: certificate + "tls: private key does not match public key"},
	} {
		t.Run(name, func(t *testing.T) {
			out, logs, err := clitest.Run(t, []*cobra.Command{NewCommand()}, tc.args...)
			if err == nil {
				t.Fatal("there is no error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if out != "" || logs != "" {
				t.Errorf("output = %q, %q, want none beside the error", out, logs)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for address, tc := range map[string]struct {
		wantHost string
		wantPort int
		wantErr  string
	}{
		":9443":           {wantPort: 9443},
		"127.0.0.1:1":     {wantHost: "127.0.0.1", wantPort: 1},
		"[::1]:65535":     {wantHost: "::1", wantPort: 65535},
		"localhost":       {wantErr: "address localhost: missing port in address"},
		"":                {wantErr: "missing port in address"},
		":":               {wantErr: `"" is not a port`},
		":https":          {wantErr: `"https" is not a port`},
		":0":              {wantErr: `"0" is not a port`},
		":-1":             {wantErr: `"-1" is not a port`},
		":65536":          {wantErr: `"65536" is not a port`},
		"https://a:9443/": {wantErr: "address https://a:9443/: too many colons in address"},
	} {
		t.Run(address, func(t *testing.T) {
			host, port, err := splitAddress(address)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if host != tc.wantHost || port != tc.wantPort || gotErr != tc.wantErr {
				t.Errorf("splitAddress() = %q, %d, %q; want %q, %d, %q", host, port, gotErr, tc.wantHost, tc.wantPort, tc.wantErr)
			}
		})
	}
}
