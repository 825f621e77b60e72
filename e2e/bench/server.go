package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/warrantgatetest"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/webhookserver"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/machine"
	"warrantgate.dev/webhooks/workspace"
)

// loopback is the address of the handlers.
const loopback = "127.0.0.1"

// Paths of the handlers that are compared.
const (
	rewritePath = workspace.OwnerRewritePath
	machinePath = machine.Path
	noopPath    = "/noop"
)

// handlers are the compared handlers: the owner rewrite as "warrantgate serve" serves it, with deadline, metrics and Events, and a no-op
// webhook of controller-runtime.
func handlers(recorder webhooks.EventRecorder) map[string]http.Handler {
	config := v1beta1.Default()
	mode := config.Workspace.OwnerRewrite.Mode
	return map[string]http.Handler{
		rewritePath: webhooks.Handler(workspace.NewOwnerRewrite(config.Policy()), mode, recorder),
		noopPath: &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			return admission.Allowed("")
		})},
	}
}

// eventWriteTime is about the time that kcp takes to write an Event. Meanwhile the others wait, and at the rates of this benchmark
// most find the queue full.
const eventWriteTime = 5 * time.Millisecond

// nowhere accepts Events as slowly as kcp does, and discards them.
type nowhere struct{}

func (nowhere) Create(ctx context.Context, _ logicalcluster.Name, _ *corev1.Event) error {
	return writeSlowly(ctx)
}

func (nowhere) Patch(ctx context.Context, _ logicalcluster.Name, _ *corev1.Event, _ []byte) error {
	return writeSlowly(ctx)
}

func writeSlowly(ctx context.Context) error {
	select {
	case <-time.After(eventWriteTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (nowhere) Permitted(context.Context) (permitted bool, reason string, err error) {
	return true, "", nil
}

// serveArgument makes this program run as the server.
const serveArgument = "serve-handlers"

// address is the information that the server sends to its caller.
type address struct {
	URL string
	CA  []byte
}

// serveHandlers serves the handlers over TLS, with the server and the settings of "warrantgate serve". It writes its address to out,
// and ends when in is closed, at the latest when the calling process ends.
func serveHandlers(ctx context.Context, in io.Reader, out io.Writer) error {
	certificate, key, err := certutil.GenerateSelfSignedCertKey(loopback, []net.IP{net.ParseIP(loopback)}, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	ports, err := process.FreePorts(ctx, 1)
	if err != nil {
		return err
	}
	certificateOf := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	token := warrantgatetest.NewToken()
	tokens, err := webhookserver.ParseTokens([]byte(token))
	if err != nil {
		return err
	}
	server := webhookserver.New(process.Loopback(ports[0]), certificateOf, nil, tokens)
	recorder := events.NewRecorder(nowhere{})
	for path, handler := range handlers(recorder) {
		server.Register(path, handler)
	}
	if err := json.NewEncoder(out).Encode(address{URL: fmt.Sprintf("https://%s/%s", process.Loopback(ports[0]), token), CA: certificate}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return recorder.Start(ctx) })
	group.Go(func() error { return server.Start(ctx) })
	return group.Wait()
}

// server is this program, running as the server in a separate process: kcp and a webhook do not share a scheduler and a garbage
// collector either.
type server struct {
	url   string
	roots *x509.CertPool
	stop  func() error
}

func startServer(ctx context.Context, logFile string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, serveArgument, logFile)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() error { return errors.Join(in.Close(), cmd.Wait()) }

	var found address
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &found)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the server of the handlers: %w", err), stop())
	}
	s := &server{url: found.URL, roots: x509.NewCertPool(), stop: stop}
	s.roots.AppendCertsFromPEM(found.CA)
	return s, nil
}
