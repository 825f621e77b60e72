package cloudsigma

import "net/http"

// NewWith is New with another transport, for tests.
func NewWith(options Options, transport http.RoundTripper) *Cloud {
	return newCloud(options, transport)
}

// ParseRejection exports parseRejection for tests.
var ParseRejection = parseRejection
