package cloudsigma

import "net/http"

// NewWith is New over the transport of a test.
func NewWith(options Options, transport http.RoundTripper) (*Cloud, error) {
	return newCloud(options, transport)
}

// Stop ends what the cloud has running for as long as the process lives.
func (c *Cloud) Stop() {
	c.profiles.StopAllGoroutines()
	if transport, ok := c.transport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// ParseRefusal returns what is kept of the body of an error.
func ParseRefusal(body []byte) (kind, userID string) {
	r := parseRefusal(body)
	return r.kind, r.userID
}
