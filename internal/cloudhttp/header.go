package cloudhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRequestIDBytes limits the length of the request ID in logs and messages.
	maxRequestIDBytes = 128
	// maxTokenBytes limits the length of a token. Servers accept headers of 8 to 16 KiB.
	maxTokenBytes = 16 << 10
)

// requestID returns the printable characters of a request ID.
func requestID(value string) string {
	id := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, value)
	return id[:min(len(id), maxRequestIDBytes)]
}

// retryAfter returns the value of the Retry-After header, given in seconds or as a date (RFC 9110, section 10.2.3), and at most
// maxRetryAfter. It returns 0 if the header is missing or invalid, or if the date is in the past.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(float64(seconds), maxRetryAfter.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(time.Until(at), 0), maxRetryAfter)
}

// Sendable reports whether a token is valid in a header.
func Sendable(token string) bool {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	return token != "" && len(token) <= maxTokenBytes && !strings.ContainsFunc(token, unprintable)
}
