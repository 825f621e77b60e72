package webhooks

// WithTrace exports withTrace, to measure its cost without a trace.
var WithTrace = withTrace
