// Package cloudhttp sends requests to clouds and separates the bodies of error responses from the responses, so that they do not
// reach logs and messages. The clients of all clouds share it as the transport below their SDKs, which include bodies in error
// texts.
package cloudhttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"warrantgate.dev/internal/ownership"
)

// maxRetryAfter limits the pause that a response can request, so that a wrong value does not require a restart.
const maxRetryAfter = 5 * time.Minute

const (
	// MaxBytes limits the size of a response about one object, which usually has a few KiB.
	MaxBytes = 1 << 20
	// MaxListBytes limits the size of a page of 100 objects, to 80 KiB for each.
	MaxListBytes = 8 << 20
)

// Exchange is one request and its response. It is the http.RoundTripper of this request.
type Exchange struct {
	// Next sends the request.
	Next      http.RoundTripper
	Operation Operation
	// Limit is the maximum size of a response body, in bytes.
	Limit int64
	// RequestIDHeader is the response header that contains the request ID.
	RequestIDHeader string
	// KindOf returns the cloud's name for the error in the body of an error response, or "". No other part of this body is passed on.
	KindOf func(status int, body []byte) string

	// Status is the status code of the response, or 0 until the whole response is read.
	Status int
	// Kind is the result of KindOf, if it was called.
	Kind   string
	header http.Header
}

// RoundTrip implements http.RoundTripper. It reads the whole body, so that the connection can be reused. The body of an error response is empty.
func (x *Exchange) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := x.Next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, x.Limit))
	if err != nil {
		return nil, err
	}
	x.Status, x.header = response.StatusCode, response.Header
	if !x.OK() {
		x.Kind = x.KindOf(x.Status, body)
		body = nil
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// OK reports whether the status is 2xx.
func (x *Exchange) OK() bool { return x.Status >= 200 && x.Status <= 299 }

// RequestID returns the ID that the cloud assigned to the request, without unprintable characters, or "" if it assigned none.
func (x *Exchange) RequestID() string { return requestID(x.header.Get(x.RequestIDHeader)) }

// Response returns a short form of the response, such as "403 permission".
func (x *Exchange) Response() string {
	return strconv.Itoa(x.Status) + " " + cmp.Or(x.Kind, "unspecified")
}

// Unknown returns the error of a request without a verdict. Its cause is CauseTimeout if the request timed out or was canceled, CauseRateLimited
// if the response says so, and otherwise the given cause. failure is the error of the SDK that sent the request.
func (x *Exchange) Unknown(cause ownership.Cause, failure error) *ownership.UnknownError {
	u := &ownership.UnknownError{Cause: cause, RequestID: x.RequestID()}
	var timeout net.Error
	switch {
	case x.Status != 0 && !x.OK():
		if x.Status == http.StatusTooManyRequests {
			u.Cause = ownership.CauseRateLimited
		}
		u.RetryAfter = retryAfter(x.header)
		u.Err = fmt.Errorf("%s request: the answer was %s", x.Operation, x.Response())
	case errors.Is(failure, context.Canceled) || errors.As(failure, &timeout) && timeout.Timeout():
		u.Cause = ownership.CauseTimeout
		u.Err = fmt.Errorf("%s request: no answer in time", x.Operation)
	default:
		u.Err = fmt.Errorf("%s request: %w", x.Operation, x.speakable(failure))
	}
	return u
}

// speakable returns an error without any content of the response. The errors of decoders and of the HTTP parser quote the response.
func (x *Exchange) speakable(failure error) error {
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
	case x.OK():
		return errors.New("the response cannot be parsed")
	default:
		return errors.New("the connection broke before the end of the answer")
	}
}
