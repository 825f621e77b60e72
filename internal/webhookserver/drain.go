package webhookserver

import (
	"context"
	"net/http"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// Drain returns a context for Start. The context ends period after ctx ends. In this period the server fails readiness and keeps
// serving. It closes each connection after a response (RFC 9112, section 9.6; with GOAWAY in HTTP/2, RFC 9113, section 6.8).
//
// API servers reuse connections, and do not repeat a review if the connection breaks. If the server closed its connections itself,
// a review on its way would fail. During the drain, the client closes a used connection after the next response, and an unused one
// after 90 seconds. After a longer drain no connection is left.
func (s *Server) Drain(ctx context.Context, period time.Duration) context.Context {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		s.leaving.Store(true)
		if period <= 0 {
			logf.FromContext(ctx).Info("stopping without a drain period: reviews that API servers send at this moment fail; with several replicas, set --drain-period")
			stop()
			return
		}
		logf.FromContext(ctx).Info("draining: the server fails readiness and stops after the period", "period", period.String())
		time.AfterFunc(period, stop)
	})
	return serving
}

// closing makes the client close the connection after the response, during the drain.
func (s *Server) closing(hook http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	})
}
