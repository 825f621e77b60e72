package cloudsigma

import "net/http"

// NewWith is New with another transport, for tests.
func NewWith(options Options, transport http.RoundTripper) (*Cloud, error) {
	return newCloud(options, transport)
}

// ParseRejection exports parseRejection for tests.
func ParseRejection(body []byte) (kind, userID string) {
	r := parseRejection(body)
	return r.kind, r.userID
}
