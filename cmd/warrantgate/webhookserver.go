package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
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

// lasting is a webhook server that does not close idle connections before its clients do.
type lasting struct {
	webhook.Server // has the hooks
	options        webhook.Options
	listening      atomic.Bool
}

func newLastingServer(options webhook.Options) *lasting {
	return &lasting{Server: webhook.NewServer(options), options: options}
}

// Start implements manager.Runnable. It serves until ctx ends, and then finishes what is under way.
func (l *lasting) Start(ctx context.Context) error {
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}} // HTTP/1.1 is always possible
	for _, change := range l.options.TLSOpts {
		change(config)
	}
	address := net.JoinHostPort(l.options.Host, strconv.Itoa(l.options.Port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	l.listening.Store(true)
	server := &manager.Server{
		Name: "webhooks", Listener: tls.NewListener(listener, config), ShutdownTimeout: ptr.To(shutdownTimeout),
		Server: &http.Server{
			Handler: l.WebhookMux(), BaseContext: func(net.Listener) context.Context { return ctx },
			ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		},
	}
	return server.Start(ctx)
}

// StartedChecker implements webhook.Server.
func (l *lasting) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !l.listening.Load() {
			return errors.New("the webhooks are not listened for yet")
		}
		return nil
	}
}
