package keystone

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"warrantgate.dev/internal/fairqueue"
	"warrantgate.dev/internal/oslopolicy"
)

const (
	// maxBytes bounds what is judged for one request, over all keys. Keystone's own sample has about 100 KiB.
	maxBytes = 256 << 10
	// maxPolicies bounds how many keys are judged for one request.
	maxPolicies = 32
	// maxTime is how long a request may be judged. A policy that people wrote takes milliseconds.
	maxTime = 900 * time.Millisecond
	// maxJudges is how many requests are judged at the same time, so that policies that were made to take long leave the
	// processor to the other gates.
	maxJudges = 2
	// maxWait is how long a request waits for that. The next that is done makes room for the tenant that uses least, so it is
	// longer than maxTime: what one tenant sends does not keep another from being judged. Both are less than what the API
	// server waits.
	maxWait = 1200 * time.Millisecond
	// maxWaitingPerTenant and maxWaiting are how many requests of a tenant and of all wait at the same time.
	maxWaitingPerTenant, maxWaiting = 8, 128
	// retryAfter is when to try again after too many others of the tenant.
	retryAfter = time.Second
)

// finding is what is wrong with a policy, and where in the object that is.
type finding struct {
	oslopolicy.Finding
	field string
}

// sizeError says that there is more than is judged. It is for people.
type sizeError struct{ bytes, keys int }

// Error implements error.
func (e *sizeError) Error() string {
	return fmt.Sprintf("it has %d bytes under %d keys, more than the %d bytes under %d keys that are judged at once; take out what is no policy, "+
		"or have the keys that hold one named in keystonePolicy.keys of warrantgate's configuration", e.bytes, e.keys, maxBytes, maxPolicies)
}

// busyError says that too many policies of the same tenant wait. It is for people.
type busyError struct{}

// Error implements error.
func (*busyError) Error() string {
	return "too many policies of this namespace wait to be checked; try again, and write fewer or smaller ones at once"
}

// judge finds out what is wrong with policies, in bounded time.
type judge struct {
	lint func(ctx context.Context, name string, data []byte) ([]oslopolicy.Finding, error)
	// time is maxTime.
	time  time.Duration
	queue *fairqueue.Queue
}

func newJudge(options oslopolicy.LintOptions) *judge {
	return &judge{
		lint: func(ctx context.Context, name string, data []byte) ([]oslopolicy.Finding, error) {
			return oslopolicy.LintKeystone(ctx, name, data, options)
		},
		time: maxTime, queue: fairqueue.New(fairqueue.Limits{Slots: maxJudges, WaitingPerShare: maxWaitingPerTenant, Waiting: maxWaiting}),
	}
}

// verdict is what one judge found. The error is that of a panic.
type verdict struct {
	findings []finding
	err      error
}

// findings judges policies of a tenant. The error is a *sizeError where there is too much of them, and a *busyError where too
// many others of the tenant wait; any other means that they could not be judged.
func (j *judge) findings(ctx context.Context, tenant fairqueue.Tenant, secret bool, policies []policy) ([]finding, error) {
	size := 0
	for _, p := range policies {
		size += len(p.content)
	}
	if size > maxBytes || len(policies) > maxPolicies {
		return nil, &sizeError{bytes: size, keys: len(policies)}
	}
	waiting, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	release, err := j.queue.Acquire(waiting, tenant)
	switch {
	case errors.Is(err, fairqueue.ErrTenant):
		return nil, &busyError{}
	case err != nil:
		return nil, fmt.Errorf("wait for other policies to be judged: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, j.time)
	defer cancel()
	// When the time is up, the linter ends with the step that it is at, and keeps its slot until then.
	judged := make(chan verdict, 1)
	go func() {
		defer release()
		judged <- j.all(ctx, secret, policies)
	}()
	select {
	case v := <-judged:
		return v.findings, v.err
	case <-ctx.Done():
		return nil, fmt.Errorf("judge the policy: %w", ctx.Err())
	}
}

// all judges one policy after the other, until the time is up. A panic here would end the process, as nobody above
// recovers from it.
func (j *judge) all(ctx context.Context, secret bool, policies []policy) (v verdict) {
	defer func() {
		if cause := recover(); cause != nil {
			v = verdict{err: fmt.Errorf("the linter panicked: %v", cause)}
		}
	}()
	for _, p := range policies {
		if ctx.Err() != nil {
			return verdict{err: ctx.Err()}
		}
		found, err := j.one(ctx, p)
		if err != nil {
			return verdict{err: err}
		}
		for _, f := range found {
			if secret {
				f = withoutContent(f, p.content)
			}
			v.findings = append(v.findings, finding{Finding: f, field: p.field})
		}
	}
	return v
}

func (j *judge) one(ctx context.Context, p policy) ([]oslopolicy.Finding, error) {
	if !utf8.Valid(p.content) { // a text in JSON may be anything to the reader here, but not to Python
		return []oslopolicy.Finding{{
			File: p.key, Severity: oslopolicy.SeverityError, Code: oslopolicy.CodeFile, Message: "it is not UTF-8, so that Keystone cannot read it",
		}}, nil
	}
	return j.lint(ctx, p.key, p.content)
}

// keystoneRule finds the name of one of Keystone's operations where a rule has its name.
var keystoneRule = regexp.MustCompile(`identity:[a-z0-9_]+["']?\s*:`)

// withoutContent takes out of a finding what the Secret holds, unless it is about a rule of a policy: a key of a Secret
// may hold what is no policy at all, and people who read Events or logs need not be allowed to read Secrets.
func withoutContent(f oslopolicy.Finding, content []byte) oslopolicy.Finding {
	switch {
	case f.Code == oslopolicy.CodeFile:
		f.Message = "Keystone cannot load it; why is not repeated here, because it is a Secret"
	case !keystoneRule.Match(content):
		f.Rule, f.Suggestion = "", ""
		f.Message = f.Code + "; more is not repeated here, because it is a Secret and names no operation of Keystone"
	}
	return f
}
