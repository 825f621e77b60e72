package webhooks

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// withTrace keeps in the context the trace of which a request is part, so that its log line and its exemplar can name it. API
// servers tell of it in the header traceparent (W3C Trace Context) where their tracing is on (KEP-647). What does not parse is
// as good as none: it comes from whoever reaches the port, and ends in a log.
func withTrace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Looked up under the name that net/http gives it, so that a request without it, as most are, costs nothing.
		if len(r.Header["Traceparent"]) > 0 {
			ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// traceOf returns the trace that a request is part of. sampled tells whether anybody keeps it; if not, it can be found in the
// logs of API servers at most.
func traceOf(ctx context.Context) (id string, sampled bool) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return "", false
	}
	return span.TraceID().String(), span.IsSampled()
}
