// Package webhookserver serves admission webhooks over TLS. Its clients are API servers: they reuse connections, and never repeat a
// review.
package webhookserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// idleTimeout is longer than the 90 seconds for which API servers keep an idle connection (the default of
	// http.DefaultTransport). The client has to close the connection, because only the client knows whether it is about to send a
	// review. The server of controller-runtime closes idle connections after 90 seconds as well.
	idleTimeout = 3 * time.Minute
	// headerTimeout limits the TLS handshake and the request header.
	headerTimeout = 32 * time.Second
	// shutdownTimeout limits the wait for running admissions at the end. An API server waits for at most 30 seconds.
	shutdownTimeout = 30 * time.Second
	// maxHeaderBytes limits the size of a request header. API servers send a few hundred bytes. Other clients could occupy as much
	// memory with each connection.
	maxHeaderBytes = 16 << 10
	// maxStreams limits the concurrent requests of an HTTP/2 connection. streamBuffer is the flow control window of each body before
	// it is read. Bodies that wait to be read do not block other requests of the connection.
	maxStreams   = 60
	streamBuffer = 64 << 10
	// errorLogFirst and errorLogInterval limit net/http's log lines about failed connections, because every client can cause them.
	errorLogFirst    = 10
	errorLogInterval = 10 * time.Second
)

// Server is a webhook server for API servers only. It does not close idle connections before its clients do, and it can drain
// before it stops.
type Server struct {
	webhook.Server     // contains the hooks
	address            string
	certificate        func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	callers            *callers
	listening, leaving atomic.Bool
}

var _ webhook.Server = &Server{}

// New returns a server that listens on address (host:port) with that certificate. It serves callers that are among clients and know
// one of the tokens. If clients or tokens is nil, the server skips this check. If both are nil, it serves no caller.
func New(address string, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), clients *Clients, tokens *Tokens) *Server {
	hooks := http.NewServeMux()
	return &Server{Server: webhook.NewServer(webhook.Options{WebhookMux: hooks}), address: address, certificate: certificate, callers: &callers{
		clients: clients, tokens: tokens, paths: map[string]bool{}, hooks: hooks, log: rate.Sometimes{Interval: rejectionLogInterval},
	}}
}

// Register implements webhook.Server.
func (s *Server) Register(path string, hook http.Handler) {
	s.callers.paths[path] = true
	s.Server.Register(path, s.closing(hook))
}

// Start implements manager.Runnable. It serves until ctx ends, and then completes running admissions.
func (s *Server) Start(ctx context.Context) error {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: s.certificate,
		NextProtos: []string{"h2"}, // HTTP/1.1 is always supported
	}
	if s.callers.clients != nil {
		s.callers.clients.configure(config)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	s.listening.Store(true)
	server := &manager.Server{
		Name: "webhooks", Listener: tls.NewListener(listener, config), ShutdownTimeout: ptr.To(shutdownTimeout),
		Server: &http.Server{
			Handler: s.callers, BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: new(Strangers).Accept,
			ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: maxStreams * streamBuffer,
			},
			DisableGeneralOptionsHandler: true, // otherwise net/http would answer "OPTIONS *"
			ErrorLog:                     newErrorLog(),
		},
	}
	return server.Start(ctx)
}

// StartedChecker implements webhook.Server. The check fails before the server listens and during the drain.
func (s *Server) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		switch {
		case s.leaving.Load():
			return errors.New("draining")
		case !s.listening.Load():
			return errors.New("the webhook server does not listen yet")
		default:
			return nil
		}
	}
}

// sometimes writes only some of the lines of a log.
type sometimes struct {
	rate.Sometimes
	out io.Writer
}

// newErrorLog returns net/http's log with a rate limit.
func newErrorLog() *log.Logger {
	return log.New(&sometimes{rate.Sometimes{First: errorLogFirst, Interval: errorLogInterval}, log.Writer()}, "", 0)
}

// Write implements io.Writer.
func (s *sometimes) Write(line []byte) (n int, err error) {
	s.Do(func() { _, err = s.out.Write(line) })
	return len(line), err
}
