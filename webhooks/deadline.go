package webhooks

import (
	"context"
	"net/http"
	"time"
)

const (
	// defaultTimeout holds where the request does not say how long the API server waits. It is its default.
	defaultTimeout = 10 * time.Second
	// budgetShare is the part of the API server's patience that a gate may use. The rest is for the way back: an
	// answer that comes too late is worth less than a refusal that says why.
	budgetShare = 0.8
	// readTimeout bounds how long a client may take to send a request's body.
	readTimeout = 5 * time.Second
)

// withDeadline ends the context of a request before the API server gives up on it. The server's own context is cut
// off, because it ends when shutdown begins, and admissions under way then are to be finished.
func withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A connection that cannot have a deadline (a test's recorder) has nobody to wait for either.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))

		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), budget(r))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// budget reads the parameter that the API server adds to the URL of a webhook, such as timeout=3s.
func budget(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 || timeout > defaultTimeout*3 {
		timeout = defaultTimeout
	}
	return time.Duration(float64(timeout) * budgetShare)
}
