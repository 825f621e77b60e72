package webhookserver

import (
	"context"
	"net/http"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// Drain takes leave for that long once ctx ends, and returns a context that ends after that, with which the server has to be
// started. In between the server still answers, but is not ready, and has clients close each connection after the answer (RFC
// 9112, section 9.6; by GOAWAY in HTTP/2, RFC 9113, section 6.8).
//
// API servers use a connection for one review after the other, and do not repeat a review whose connection breaks under it. A
// server that just closed its connections would break the one that a review is on its way by. Those that are used are closed
// by the client after the next answer, and the others when it has not used them for 90 seconds: after a longer drain there is
// none left to break.
func (s *Server) Drain(ctx context.Context, period time.Duration) context.Context {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		s.leaving.Store(true)
		if period <= 0 {
			logf.FromContext(ctx).Info("ending at once: what API servers send at this moment fails; where other replicas take over, --drain-period prevents that")
			stop()
			return
		}
		logf.FromContext(ctx).Info("draining: not ready from now on, and about to end", "period", period.String())
		time.AfterFunc(period, stop)
	})
	return serving
}

// closing has the client close the connection after the hook's answer, once the server takes its leave.
func (s *Server) closing(hook http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	})
}
