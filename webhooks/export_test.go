package webhooks

// WithTrace is withTrace, for what it costs where there is no trace.
var WithTrace = withTrace
