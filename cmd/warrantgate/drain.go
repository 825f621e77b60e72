package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// drain is the time between the signal to end and the end, in which serve still answers, but is not ready, and has clients
// close each connection after the answer (RFC 9112, section 9.6; by GOAWAY in HTTP/2, RFC 9113, section 6.8).
//
// API servers use a connection for one review after the other, and do not repeat a review whose connection breaks under it. A
// server that just closed its connections would break the one that a review is on its way by. Those that are used are closed
// by the client after the next answer, and the others when it has not used them for 90 seconds: after a longer drain there is
// none left to break.
type drain struct {
	begun atomic.Bool
}

// begin drains for that long once ctx ends, and returns a context that ends after that.
func (d *drain) begin(ctx context.Context, period time.Duration) context.Context {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		d.begun.Store(true)
		if period <= 0 {
			stop()
			return
		}
		logf.FromContext(ctx).Info("draining: not ready from now on, and about to end", "period", period.String())
		time.AfterFunc(period, stop)
	})
	return serving
}

// of returns the server, which drains.
func (d *drain) of(server webhook.Server) webhook.Server { return &drained{Server: server, drain: d} }

// drained is a webhook server that takes its leave before it ends.
type drained struct {
	webhook.Server
	drain *drain
}

// Register implements webhook.Server.
func (d *drained) Register(path string, hook http.Handler) {
	d.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.drain.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	}))
}

// StartedChecker implements webhook.Server. The check fails from the signal to end on.
func (d *drained) StartedChecker() healthz.Checker {
	started := d.Server.StartedChecker()
	return func(r *http.Request) error {
		if d.drain.begun.Load() {
			return errors.New("about to end")
		}
		return started(r)
	}
}
