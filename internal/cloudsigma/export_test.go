package cloudsigma

import "net/http"

// NewWith is New with another transport, for tests.
func NewWith(options Options, transport http.RoundTripper) (*Cloud, error) {
	return newCloud(options, transport)
}

// Stop stops the goroutines of the cache, which otherwise run until the process ends.
func (c *Cloud) Stop() {
	c.profiles.StopAllGoroutines()
	if transport, ok := c.transport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// ParseRejection exports parseRejection for tests.
func ParseRejection(body []byte) (kind, userID string) {
	r := parseRejection(body)
	return r.kind, r.userID
}
