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

// ParseRefusal exports parseRefusal for tests.
func ParseRefusal(body []byte) (kind, userID string) {
	r := parseRefusal(body)
	return r.kind, r.userID
}
