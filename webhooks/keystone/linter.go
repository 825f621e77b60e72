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
	// maxBytes limits what is linted for one request, over all keys. Keystone's own sample has about 100 KiB.
	maxBytes = 256 << 10
	// maxPolicies limits how many keys are linted for one request.
	maxPolicies = 32
	// maxTime is how long the policies of a request may be linted. A policy of a normal size takes milliseconds.
	maxTime = 900 * time.Millisecond
	// maxLinters is how many requests are linted at the same time, so that policies that were made to take long leave the
	// processor to the other gates.
	maxLinters = 2
	// maxWait is how long a request waits for a linter. A linter that becomes free is given to the tenant that uses the least, and
	// maxWait is longer than maxTime, so one tenant cannot keep another from being served. Both together are less than the timeout
	// of the webhook.
	maxWait = 1200 * time.Millisecond
	// maxWaitingPerTenant and maxWaiting are how many requests of a tenant and of all wait at the same time.
	maxWaitingPerTenant, maxWaiting = 8, 128
	// retryAfter is when to try again after too many others of the tenant.
	retryAfter = time.Second
)

// problem is a finding of the linter, and the field of the object that it is about.
type problem struct {
	oslopolicy.Finding
	field string
}

// sizeError says that the policies exceed the limits. It is for the requester.
type sizeError struct{ bytes, keys int }

// Error implements error.
func (e *sizeError) Error() string {
	return fmt.Sprintf("it has %d bytes under %d keys, more than the %d bytes under %d keys that are checked at once; remove keys that are not policies, "+
		"or ask the operator to add the keys with a policy to keystonePolicy.keys of warrantgate's configuration", e.bytes, e.keys, maxBytes, maxPolicies)
}

// busyError says that too many policies of the same tenant wait. It is for the requester.
type busyError struct{}

// Error implements error.
func (*busyError) Error() string {
	return "too many policies of this namespace wait to be checked; try again, and write fewer or smaller ones at once"
}

// linter lints policies, in limited time.
type linter struct {
	lint func(ctx context.Context, name string, data []byte) ([]oslopolicy.Finding, error)
	// time is maxTime.
	time  time.Duration
	queue *fairqueue.Queue
}

func newLinter(options oslopolicy.LintOptions) *linter {
	return &linter{
		lint: func(ctx context.Context, name string, data []byte) ([]oslopolicy.Finding, error) {
			return oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: name, Data: data}}, options)
		},
		time: maxTime, queue: fairqueue.New(fairqueue.Limits{Slots: maxLinters, WaitingPerShare: maxWaitingPerTenant, Waiting: maxWaiting}),
	}
}

// result is what the linter found in the policies of a request.
type result struct {
	problems []problem
	err      error
}

// problems lints the policies of a tenant. The error is a *sizeError where they exceed the limits, and a *busyError where too many
// requests of the tenant wait; any other error means that they could not be linted.
func (l *linter) problems(ctx context.Context, tenant fairqueue.Tenant, secret bool, policies []policy) ([]problem, error) {
	size := 0
	for _, p := range policies {
		size += len(p.content)
	}
	if size > maxBytes || len(policies) > maxPolicies {
		return nil, &sizeError{bytes: size, keys: len(policies)}
	}
	waiting, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	release, err := l.queue.Acquire(waiting, tenant)
	switch {
	case errors.Is(err, fairqueue.ErrTenant):
		return nil, &busyError{}
	case err != nil:
		return nil, fmt.Errorf("wait for other policies to be checked: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, l.time)
	defer cancel()
	// After the deadline the linter finishes its current step, and keeps its slot until then.
	linted := make(chan result, 1)
	go func() {
		defer release()
		linted <- l.all(ctx, secret, policies)
	}()
	select {
	case r := <-linted:
		return r.problems, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("check the policy: %w", ctx.Err())
	}
}

// all lints one policy after the other, until ctx ends. It recovers from panics, because it runs in a goroutine of its own, where
// a panic would end the process.
func (l *linter) all(ctx context.Context, secret bool, policies []policy) (r result) {
	defer func() {
		if cause := recover(); cause != nil {
			r = result{err: fmt.Errorf("the linter panicked: %v", cause)}
		}
	}()
	for _, p := range policies {
		if ctx.Err() != nil {
			return result{err: ctx.Err()}
		}
		found, err := l.one(ctx, p)
		if err != nil {
			return result{err: err}
		}
		for _, f := range found {
			if secret {
				f = withoutContent(f, p.content)
			}
			r.problems = append(r.problems, problem{Finding: f, field: p.field})
		}
	}
	return r
}

func (l *linter) one(ctx context.Context, p policy) ([]oslopolicy.Finding, error) {
	if !utf8.Valid(p.content) { // the linter would read it, but Python does not
		return []oslopolicy.Finding{{
			File: p.key, Severity: oslopolicy.SeverityError, Code: oslopolicy.CodeFile, Message: "it is not UTF-8, so that Keystone cannot read it",
		}}, nil
	}
	return l.lint(ctx, p.key, p.content)
}

// keystoneRule matches the name of a Keystone operation as the name of a rule.
var keystoneRule = regexp.MustCompile(`identity:[a-z0-9_]+["']?\s*:`)

// withoutContent removes the content of the Secret from a finding, unless the content is a policy: a key of a Secret may hold
// something else, and a reader of Events or logs may not be allowed to read Secrets.
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
