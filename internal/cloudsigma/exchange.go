package cloudsigma

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"warrantgate.dev/internal/ownership"
)

const (
	// requestTimeout bounds a request whose context does not end earlier.
	requestTimeout = 30 * time.Second
	// handshakeTimeout bounds the TLS handshake of a new connection.
	handshakeTimeout = 10 * time.Second
	// maxIdleConnections is how many connections to a region are kept for the next question. It is more than anybody lets be
	// asked at the same time: one that is given up costs the next question a TLS handshake.
	maxIdleConnections = 256
	// idleTimeout is how long they are kept.
	idleTimeout = 90 * time.Second
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 64 << 10
	// maxRequestIDBytes bounds the request id, which goes into logs and messages.
	maxRequestIDBytes = 128
	// maxRetryAfter is the longest pause that an answer can ask for.
	maxRetryAfter = time.Hour
)

// newTransport returns the connections that all questions share. Without roots the authorities of the system are trusted.
func newTransport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    maxIdleConnections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// exchange is the transport of one request, and what came back for it. The SDK puts the whole body of an error into the
// text of its own one, so it is shown no such body: what may be kept of it is taken out here.
type exchange struct {
	next http.RoundTripper
	// limit is the largest body that is read, in bytes.
	limit int64

	status  int // 0 as long as there is no complete answer
	header  http.Header
	refusal refusal
}

// RoundTrip implements http.RoundTripper. It reads the body to its end, so that the connection can be used again.
func (x *exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := x.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, x.limit))
	if err != nil {
		return nil, err
	}
	x.status, x.header = response.StatusCode, response.Header
	if !x.ok() {
		x.refusal = parseRefusal(body)
		body = nil
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// client returns an HTTP client for this one request. A redirect is an answer like any other: who follows it shows the
// credentials to somebody else.
func (x *exchange) client() *http.Client {
	return &http.Client{
		Transport:     x,
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (x *exchange) ok() bool { return x.status >= 200 && x.status <= 299 }

// requestID returns the id by which CloudSigma finds the request, without what does not print.
func (x *exchange) requestID() string {
	id := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, x.header.Get("X-REQUEST-ID"))
	return id[:min(len(id), maxRequestIDBytes)]
}

// retryAfter returns for how long the answer asks to be left alone, as seconds or as a date (RFC 9110, section 10.2.3).
func (x *exchange) retryAfter() time.Duration {
	value := x.header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(time.Until(at), 0), maxRetryAfter)
}

// unknown says why the request brought no verdict. failure is the SDK's error.
func (x *exchange) unknown(op operation, failure error) *ownership.UnknownError {
	u := &ownership.UnknownError{Cause: ownership.CauseCloud, RequestID: x.requestID()}
	var timeout net.Error
	switch {
	case x.status != 0 && !x.ok():
		u.RetryAfter = x.retryAfter()
		switch x.status {
		case http.StatusUnauthorized:
			u.Cause = ownership.CauseCredentials
		case http.StatusTooManyRequests:
			u.Cause = ownership.CauseRateLimited
		}
		u.Err = fmt.Errorf("%s request: the answer was %d %s", op, x.status, orUnspecified(x.refusal.kind))
	case errors.Is(failure, context.Canceled) || errors.As(failure, &timeout) && timeout.Timeout():
		u.Cause = ownership.CauseTimeout
		u.Err = fmt.Errorf("%s request: no answer in time", op)
	default:
		u.Err = fmt.Errorf("%s request: %w", op, x.speakable(failure))
	}
	return u
}

// speakable returns an error that says what failed without a word of the answer: decoders and the parser of HTTP quote it.
func (x *exchange) speakable(failure error) error {
	var tooLarge *http.MaxBytesError
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(failure, &tooLarge):
		return fmt.Errorf("the answer is larger than %d bytes", tooLarge.Limit)
	case errors.As(failure, &network):
		return network
	case errors.As(failure, &certificate):
		return certificate
	case x.ok():
		return errors.New("the answer cannot be understood")
	default:
		return errors.New("the connection broke before the end of the answer")
	}
}

func orUnspecified(kind string) string {
	if kind == "" {
		return "unspecified"
	}
	return kind
}
