// Package webhookserver serves admission webhooks over TLS, to API servers of which each keeps its connections for the next
// review and never repeats one.
package webhookserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

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
	// maxHeaderBytes is the most that the head of a request may take.
	maxHeaderBytes = 1 << 20
)

// Server is a webhook server that does not close idle connections before its clients do, answers some clients only if it is to,
// and can take its leave before it ends.
type Server struct {
	webhook.Server     // has the hooks
	address            string
	certificate        func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	clients            *Clients
	listening, leaving atomic.Bool
}

var _ webhook.Server = &Server{}

// New returns a server that listens on the address, host:port, shows that certificate, and answers those clients.
func New(address string, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), clients *Clients) *Server {
	return &Server{Server: webhook.NewServer(webhook.Options{}), address: address, certificate: certificate, clients: clients}
}

// Register implements webhook.Server.
func (s *Server) Register(path string, hook http.Handler) {
	s.Server.Register(path, s.clients.only(path, s.closing(hook)))
}

// Start implements manager.Runnable. It serves until ctx ends, and then finishes what is under way.
func (s *Server) Start(ctx context.Context) error {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: s.certificate,
		NextProtos: []string{"h2"}, // HTTP/1.1 is always possible
	}
	s.clients.configure(config)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	s.listening.Store(true)
	server := &manager.Server{
		Name: "webhooks", Listener: tls.NewListener(listener, config), ShutdownTimeout: ptr.To(shutdownTimeout),
		Server: &http.Server{
			Handler: s.WebhookMux(), BaseContext: func(net.Listener) context.Context { return ctx },
			ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
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
