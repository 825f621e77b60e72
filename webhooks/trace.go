package webhooks

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// withTrace returns a context with the trace of a request, for the log line and the exemplar. API servers send it in the header
// traceparent (W3C Trace Context) if their tracing is enabled (KEP-647). A header that cannot be parsed is ignored, because every
// client that reaches the port can send one.
func withTrace(ctx context.Context, header http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
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
