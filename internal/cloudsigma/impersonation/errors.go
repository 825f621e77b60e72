package impersonation

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// step is one of the requests to get a user token.
type step string

const (
	stepAccount     step = "account"     // the service account's token for its client credentials
	stepTicket      step = "ticket"      // a UMA ticket of the service provider API for that token
	stepImpersonate step = "impersonate" // the user token for that ticket
	stepExchange    step = "exchange"    // the user token for the service account's token (RFC 8693)
)

// forUser reports whether the step requests the token of a user.
func (s step) forUser() bool { return s == stepImpersonate || s == stepExchange }

// fault is the kind of a failure.
type fault int

const (
	faultBroken      fault = iota // the response cannot be parsed
	faultRejected                 // the server rejected the request, or the token is not acceptable
	faultUnavailable              // no response, or a server error
	faultTimeout                  // no response in time
	faultLimited                  // too many requests
)

func (f fault) String() string {
	return [...]string{"broken", "rejected", "unavailable", "timeout", "limited"}[f]
}

// maxRetryAfter limits the Retry-After of a server, so that a wrong value does not require a restart of warrantgate.
const maxRetryAfter = 5 * time.Minute

// requestError describes a failed request. Of the response it contains only the status and a registered error code, because other
// parts may contain a token or a secret.
type requestError struct {
	step       step
	fault      fault
	status     int           // 0 without a response
	code       string        // "" or one of errorCodes
	reason     string        // text of this package
	retryAfter time.Duration // 0 if the response has none
	held       bool          // the request was not sent, because a recent one failed with this error
}

// Error implements error.
func (e *requestError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "token step %q: ", e.step)
	if e.held {
		text.WriteString("not sent, because a recent request failed: ")
	}
	text.WriteString(e.fault.String())
	if e.status != 0 {
		fmt.Fprintf(&text, ", status %d", e.status)
	}
	if e.code != "" {
		fmt.Fprintf(&text, ", error code %q", e.code)
	}
	if e.reason != "" {
		fmt.Fprintf(&text, ": %s", e.reason)
	}
	return text.String()
}

// transient reports whether a retry may soon succeed.
func (e *requestError) transient() bool {
	return !e.held && (e.fault == faultUnavailable || e.fault == faultTimeout || e.fault == faultLimited)
}

// stale reports whether a token in the request may have expired or been revoked. RFC 8693 section 2.2.2 defines invalid_request for
// an invalid subject token. Other servers use the codes of RFC 6749 and RFC 6750.
func (e *requestError) stale() bool {
	if e.step == stepAccount || e.fault != faultRejected {
		return false
	}
	return e.status == http.StatusUnauthorized || e.code == "invalid_grant" || e.code == "invalid_token" ||
		e.step == stepExchange && e.code == "invalid_request"
}

func (e *requestError) cause() ownership.Cause {
	switch {
	case e.fault == faultTimeout:
		return ownership.CauseTimeout
	case e.fault == faultLimited:
		return ownership.CauseRateLimited
	case e.fault != faultRejected:
		return ownership.CauseIdentityProvider
	case e.code == "invalid_client" || e.code == "unauthorized_client" || e.status == http.StatusUnauthorized:
		return ownership.CauseCredentials
	case e.step.forUser() && (e.code == "access_denied" || e.status == http.StatusForbidden || e.status == http.StatusNotFound):
		return ownership.CauseNotImpersonable
	case e.code == "access_denied" || e.status == http.StatusForbidden: // the service account lacks a permission
		return ownership.CauseCredentials
	default:
		return ownership.CauseIdentityProvider
	}
}

// asUnknown converts any error to an *ownership.UnknownError.
func asUnknown(err error) error {
	if unknown, ok := errors.AsType[*ownership.UnknownError](err); ok {
		return unknown
	}
	if failed, ok := errors.AsType[*requestError](err); ok {
		return &ownership.UnknownError{Cause: failed.cause(), RetryAfter: failed.retryAfter, Err: failed}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &ownership.UnknownError{Cause: ownership.CauseTimeout, Err: errors.New("no token in time")}
	}
	// The remaining errors are panics. Their text could contain secrets.
	return &ownership.UnknownError{Cause: ownership.CauseIdentityProvider, Err: errors.New("an internal error prevented the token request")}
}

func causeOf(err error) ownership.Cause {
	if unknown, ok := errors.AsType[*ownership.UnknownError](asUnknown(err)); ok {
		return unknown.Cause
	}
	return ""
}

// errorCodes are the codes of RFC 6749 sections 5.2 and 4.1.2.1, RFC 6750, RFC 8693, RFC 8628 and UMA 2.0. No other text of a
// response is passed on.
var errorCodes = []string{
	"access_denied", "insufficient_scope", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope",
	"invalid_target", "invalid_token", "need_info", "request_denied", "server_error", "slow_down",
	"temporarily_unavailable", "unauthorized_client", "unsupported_grant_type", "unsupported_token_type",
}

// errorOf converts an error of the oauth2 package for a request to a token endpoint. That error prints the body of the response, so
// it is never passed on.
func errorOf(ctx context.Context, at step, err error) error {
	if rejected, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return errorOfAnswer(at, rejected.Response, rejected.ErrorCode)
	}
	return errorOfTransport(ctx, at, err)
}

// errorOfTransport converts the error of a request without a response that can be parsed.
func errorOfTransport(ctx context.Context, at step, err error) error {
	failed := &requestError{step: at, fault: faultUnavailable}
	if timeout, ok := errors.AsType[net.Error](err); ctx.Err() != nil || ok && timeout.Timeout() {
		failed.fault = faultTimeout
		return failed
	}
	// Errors of net/http can contain parts of the response. Errors of lower layers are safe, and describe what to fix.
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		failed.reason = lookup.Error()
	} else if dial, ok := errors.AsType[*net.OpError](err); ok {
		failed.reason = dial.Error()
	} else if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		failed.reason = untrusted.Error()
	} else if _, ok := errors.AsType[*url.Error](err); ok {
		failed.reason = "the connection failed"
	} else {
		failed.fault, failed.reason = faultBroken, "the response cannot be parsed"
	}
	return failed
}

// errorOfAnswer converts an error response.
func errorOfAnswer(at step, response *http.Response, code string) error {
	failed := &requestError{step: at, fault: faultRejected, status: response.StatusCode}
	if slices.Contains(errorCodes, code) {
		failed.code = code
	}
	switch {
	case failed.status == http.StatusTooManyRequests || failed.code == "slow_down":
		failed.fault = faultLimited
	case failed.status >= http.StatusInternalServerError || failed.code == "server_error" || failed.code == "temporarily_unavailable":
		failed.fault = faultUnavailable
	case failed.status >= http.StatusMultipleChoices && failed.status < http.StatusBadRequest:
		failed.fault, failed.reason = faultBroken, "redirects are not followed"
	}
	if failed.transient() {
		failed.retryAfter = retryAfter(response.Header)
	}
	return failed
}

// retryAfter parses Retry-After. It compares a date with the server's clock, if the response has a Date header.
func retryAfter(header http.Header) time.Duration {
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return cloudhttp.RetryAfter(header, now, maxRetryAfter)
}
