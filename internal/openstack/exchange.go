package openstack

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"warrantgate.dev/internal/ownership"
)

const (
	// requestTimeout bounds a request whose context does not end earlier.
	requestTimeout = 30 * time.Second
	// maxRequestIDBytes bounds the request id, which goes into logs and messages.
	maxRequestIDBytes = 128
	// maxRetryAfter is the longest pause that an answer can ask for.
	maxRetryAfter = time.Hour
)

// exchange is the transport of one request, and what came back for it. gophercloud puts the whole body of an error into the
// text of its own one, so it is shown no such body: what may be kept of it is taken out here.
type exchange struct {
	next      http.RoundTripper
	operation operation
	// limit is the largest body that is read, in bytes.
	limit int64
	// otherwise is the cause of a failure that is neither a timeout nor too many requests.
	otherwise ownership.Cause

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
		x.refusal = parseRefusal(x.status, body)
		body = nil
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// client returns a client for this one request. It neither repeats it nor gets a token by itself. A redirect is an answer
// like any other: who follows it shows the token to somebody else.
func (x *exchange) client(userAgent, token string) *gophercloud.ProviderClient {
	client := &gophercloud.ProviderClient{
		TokenID: token,
		HTTPClient: http.Client{
			Transport:     x,
			Timeout:       requestTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	client.UserAgent.Prepend(userAgent)
	return client
}

func (x *exchange) ok() bool { return x.status >= 200 && x.status <= 299 }

// requestID returns the id by which OpenStack's operator finds the request, without what does not print.
func (x *exchange) requestID() string {
	id := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, x.header.Get("X-Openstack-Request-Id"))
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

// unknown says why the request brought no verdict. failure is gophercloud's error.
func (x *exchange) unknown(failure error) *ownership.UnknownError {
	u := &ownership.UnknownError{Cause: x.otherwise, RequestID: x.requestID()}
	var timeout net.Error
	switch {
	case x.status != 0 && !x.ok():
		u.RetryAfter = x.retryAfter()
		if x.asksForFewer() {
			u.Cause = ownership.CauseRateLimited
		}
		u.Err = fmt.Errorf("%s request: the answer was %s", x.operation, x.response())
	case errors.Is(failure, context.Canceled) || errors.As(failure, &timeout) && timeout.Timeout():
		u.Cause = ownership.CauseTimeout
		u.Err = fmt.Errorf("%s request: no answer in time", x.operation)
	default:
		u.Err = fmt.Errorf("%s request: %w", x.operation, x.speakable(failure))
	}
	return u
}

// asksForFewer tells whether the answer is that of a limit of rate. Nova's own was 413 overLimit.
func (x *exchange) asksForFewer() bool {
	return x.status == http.StatusTooManyRequests || x.status == http.StatusRequestEntityTooLarge && x.refusal.kind == "overLimit"
}

// response is the answer in short, such as "404 itemNotFound".
func (x *exchange) response() string {
	kind := x.refusal.kind
	if kind == "" {
		kind = "unspecified"
	}
	return strconv.Itoa(x.status) + " " + kind
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

func unknown(cause ownership.Cause, requestID, format string, args ...any) *ownership.UnknownError {
	return &ownership.UnknownError{Cause: cause, RequestID: requestID, Err: fmt.Errorf(format, args...)}
}
