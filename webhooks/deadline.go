package webhooks

import (
	"net/http"
	"time"
)

const (
	// defaultTimeout is used if the request does not contain the timeout of the API server. It is the default of the API server.
	defaultTimeout = 10 * time.Second
	// budgetShare is the part of the API server's timeout that a gate may use. The rest is for the response. After a timeout the API
	// server denies the request without a reason.
	budgetShare = 0.8
	// readTimeout limits the time that a client needs to send a request body.
	readTimeout = 5 * time.Second
)

// budget returns the time limit of a gate, from the parameter that the API server adds to the URL of a webhook, such as timeout=3s.
func budget(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 || timeout > defaultTimeout*3 {
		timeout = defaultTimeout
	}
	return time.Duration(float64(timeout) * budgetShare)
}
