// Package cloudhttp sends one request to a cloud and keeps of the answer what may be kept. It is what the clients of all
// clouds have in common below the libraries that know their APIs, which put bodies into the texts of their errors.
package cloudhttp

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
	"time"

	"warrantgate.dev/internal/ownership"
)

// maxRetryAfter is the longest pause that an answer can ask for.
const maxRetryAfter = time.Hour

// Exchange is one request, and what came back for it. The exchange of a cloud embeds it and is the transport of the request.
type Exchange struct {
	// Next is what sends the request.
	Next      http.RoundTripper
	Operation Operation
	// Limit is the largest body that is read, in bytes.
	Limit int64
	// RequestIDHeader is where the cloud says the id of the request.
	RequestIDHeader string

	// Status is that of the answer, 0 as long as there is no complete one.
	Status int
	header http.Header
}

// Send sends the request. It reads the body to its end, so that the connection can be used again. The body of an error is
// returned apart, for the cloud to take out of it what may be kept; the response is without it. It is nil of any other answer.
func (x *Exchange) Send(request *http.Request) (response *http.Response, refusal []byte, err error) {
	response, err = x.Next.RoundTrip(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, x.Limit))
	if err != nil {
		return nil, nil, err
	}
	x.Status, x.header = response.StatusCode, response.Header
	if !x.OK() {
		body, refusal = nil, body
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, refusal, nil
}

// OK tells whether the answer is none of an error.
func (x *Exchange) OK() bool { return x.Status >= 200 && x.Status <= 299 }

// RequestID returns the id by which the cloud finds the request, without what does not print, "" where it did not say.
func (x *Exchange) RequestID() string { return requestID(x.header.Get(x.RequestIDHeader)) }

// Response is the answer in short, such as "403 permission". The kind is what the cloud calls the error, "" if nothing.
func (x *Exchange) Response(kind string) string {
	if kind == "" {
		kind = "unspecified"
	}
	return strconv.Itoa(x.Status) + " " + kind
}

// Unknown says why the request brought no verdict: for that cause, unless there was no answer in time. The kind is that of
// Response, and failure the error of the library that sent the request.
func (x *Exchange) Unknown(cause ownership.Cause, kind string, failure error) *ownership.UnknownError {
	u := &ownership.UnknownError{Cause: cause, RequestID: x.RequestID()}
	var timeout net.Error
	switch {
	case x.Status != 0 && !x.OK():
		u.RetryAfter = RetryAfter(x.header, time.Now(), maxRetryAfter)
		u.Err = fmt.Errorf("%s request: the answer was %s", x.Operation, x.Response(kind))
	case errors.Is(failure, context.Canceled) || errors.As(failure, &timeout) && timeout.Timeout():
		u.Cause = ownership.CauseTimeout
		u.Err = fmt.Errorf("%s request: no answer in time", x.Operation)
	default:
		u.Err = fmt.Errorf("%s request: %w", x.Operation, x.speakable(failure))
	}
	return u
}

// speakable returns an error that says what failed without a word of the answer: decoders and the parser of HTTP quote it.
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
		return errors.New("the answer cannot be understood")
	default:
		return errors.New("the connection broke before the end of the answer")
	}
}
