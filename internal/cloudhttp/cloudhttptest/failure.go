package cloudhttptest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/ownership"
)

// Canary is a text in data that must not reach the caller: passwords, tokens, bodies.
const Canary = "canary"

// Failure contains the compared fields of an error of ownership.Cloud.
type Failure struct {
	// Reason is that of an *ownership.IdentityError, or "RegionError".
	Reason string
	// RequestID and RetryAfter are those of an *ownership.UnknownError. Its text begins with its cause.
	RequestID  string
	RetryAfter time.Duration
	Text       string
}

// FailureOf returns the compared fields of an error. The error must have a type that ownership.Cloud names, and contain no canary.
func FailureOf(t *testing.T, err error) Failure {
	t.Helper()
	f := Failure{}
	var unknown *ownership.UnknownError
	var unusable *ownership.IdentityError
	var elsewhere *ownership.RegionError
	switch {
	case errors.As(err, &unusable):
		f.Reason = unusable.Reason
	case errors.As(err, &elsewhere):
		f.Reason = "RegionError"
	case errors.As(err, &unknown):
		f.RequestID, f.RetryAfter = unknown.RequestID, unknown.RetryAfter
	default:
		t.Fatalf("error = %v (%T), want one of the interface", err, err)
	}
	f.Text = err.Error()
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(fmt.Sprintf("%+v %#v", e, e), Canary) {
			t.Errorf("error %q contains data that must not be returned", e)
		}
	}
	return f
}

// ExpectFailure compares an error.
func ExpectFailure(t *testing.T, err error, want Failure) {
	t.Helper()
	if diff := cmp.Diff(want, FailureOf(t, err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}
