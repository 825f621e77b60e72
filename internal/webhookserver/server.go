// Package webhookserver serves admission webhooks over TLS, to API servers of which each keeps its connections for the next
// review and never repeats one.
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
	// idleTimeout is longer than the 90 seconds for which API servers keep a connection that they do not use (as do all
	// clients of net/http with http.DefaultTransport's settings). It has to be them who close it: they know whether a review is
	// about to go by it. controller-runtime's own server closes it after 90 seconds, too.
	idleTimeout = 3 * time.Minute
	// headerTimeout is how long a client may take for the TLS handshake and the head of a request.
	headerTimeout = 32 * time.Second
	// shutdownTimeout is how long admissions under way may take at the end. An API server waits for 30 seconds at most.
	shutdownTimeout = 30 * time.Second
	// maxHeaderBytes is the most that the head of a request may take. API servers send a few hundred bytes; others could hold as
	// much memory with each connection.
	maxHeaderBytes = 16 << 10
	// maxStreams is how many requests a connection of HTTP/2 may carry at a time, and streamBuffer how much of each body is taken
	// in before it is read. Bodies that wait to be read cannot keep others on the same connection from coming.
	maxStreams   = 60
	streamBuffer = 64 << 10
	// errorLogFirst and errorLogInterval bound what net/http logs by itself of connections that fail, which anybody can make.
	errorLogFirst    = 10
	errorLogInterval = 10 * time.Second
)

// Server is a webhook server that answers API servers only, does not close idle connections before its clients do, and can
// take its leave before it ends.
type Server struct {
	webhook.Server     // has the hooks
	address            string
	certificate        func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	callers            *callers
	listening, leaving atomic.Bool
}

var _ webhook.Server = &Server{}

// New returns a server that listens on the address, host:port, and shows that certificate. It answers callers that are among the
// clients and know one of the tokens. Either may be nil, and is not asked for then; where both are, nobody is answered.
func New(address string, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), clients *Clients, tokens *Tokens) *Server {
	hooks := http.NewServeMux()
	return &Server{Server: webhook.NewServer(webhook.Options{WebhookMux: hooks}), address: address, certificate: certificate, callers: &callers{
		clients: clients, tokens: tokens, paths: map[string]bool{}, hooks: hooks, log: rate.Sometimes{Interval: refusedLogInterval},
	}}
}

// Register implements webhook.Server.
func (s *Server) Register(path string, hook http.Handler) {
	s.callers.paths[path] = true
	s.Server.Register(path, s.closing(hook))
}

// Handler answers as the server does.
func (s *Server) Handler() http.Handler { return s.callers }

// Start implements manager.Runnable. It serves until ctx ends, and then finishes what is under way.
func (s *Server) Start(ctx context.Context) error {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: s.certificate,
		NextProtos: []string{"h2"}, // HTTP/1.1 is always possible
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
			Handler: s.callers, BaseContext: func(net.Listener) context.Context { return ctx },
			ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			HTTP2: &http.HTTP2Config{
				MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: maxStreams * streamBuffer,
			},
			DisableGeneralOptionsHandler: true, // or "OPTIONS *" would be answered
			ErrorLog:                     newErrorLog(),
		},
	}
	return server.Start(ctx)
}

// StartedChecker implements webhook.Server. The check fails before it listens, and once it takes its leave.
func (s *Server) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		switch {
		case s.leaving.Load():
			return errors.New("about to end")
		case !s.listening.Load():
			return errors.New("the webhooks are not listened for yet")
		default:
			return nil
		}
	}
}

// sometimes passes on some of the lines of a log.
type sometimes struct {
	rate.Sometimes
	out io.Writer
}

// newErrorLog is net/http's log, of which what anybody can fill it with is left out.
func newErrorLog() *log.Logger {
	return log.New(&sometimes{rate.Sometimes{First: errorLogFirst, Interval: errorLogInterval}, log.Writer()}, "", 0)
}

// Write implements io.Writer.
func (s *sometimes) Write(line []byte) (n int, err error) {
	s.Do(func() { _, err = s.out.Write(line) })
	return len(line), err
}
