package webhooks

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// withTrace adds the trace of a request to its context, for the log line and the exemplar. API servers send it in the header
// traceparent (W3C Trace Context) if their tracing is enabled (KEP-647). A header that cannot be parsed is ignored, because every
// client that reaches the port can send one.
func withTrace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The key is in canonical form, so that the common request without the header costs nothing.
		if len(r.Header["Traceparent"]) > 0 {
			ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// traceOf returns the trace ID of a request. sampled is true if the trace is recorded. If not, at most the logs of API servers
// contain the ID.
func traceOf(ctx context.Context) (id string, sampled bool) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return "", false
	}
	return span.TraceID().String(), span.IsSampled()
}
