package cloudhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRequestIDBytes bounds the request id, which goes into logs and messages.
	maxRequestIDBytes = 128
	// maxTokenBytes bounds a token. Servers take headers of 8 to 16 KiB.
	maxTokenBytes = 16 << 10
)

// requestID returns what prints of the id of a request.
func requestID(value string) string {
	id := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, value)
	return id[:min(len(id), maxRequestIDBytes)]
}

// RetryAfter returns for how long an answer asks to be left alone, as seconds or as a date (RFC 9110, section 10.2.3), and no
// longer than longest. It is 0 where the answer does not say, or says what is past at the time now.
func RetryAfter(header http.Header, now time.Time, longest time.Duration) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(float64(seconds), longest.Seconds()) * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longest)
}

// Sendable tells whether a token can be sent in a header.
func Sendable(token string) bool {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	return token != "" && len(token) <= maxTokenBytes && !strings.ContainsFunc(token, unprintable)
}
