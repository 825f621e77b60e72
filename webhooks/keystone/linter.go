package keystone

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
)

const (
	// maxBytes limits what is linted for one request, over all keys.
	maxBytes = oslopolicy.MaxFileBytes
	// maxPolicies limits how many keys are linted for one request.
	maxPolicies = 32
	// maxTime is how long the policies of a request may be linted. A policy of a normal size takes milliseconds.
	maxTime = 900 * time.Millisecond
	// maxLinters is how many requests are linted at the same time, one of each tenant, so that policies that were made to take long leave the
	// processor to the other gates, and a linter to the policies of other tenants.
	maxLinters = 2
	// maxWait is how long a request waits for a linter that other tenants use. It is longer than maxTime. Both together are less than the
	// timeout of the webhook.
	maxWait = 1200 * time.Millisecond
	// retryAfter is when to try again while another policy of the tenant is linted.
	retryAfter = time.Second
)

// problem is a finding of the linter, and the field of the object that it is about.
type problem struct {
	oslopolicy.Finding
	field string
}

// refusal is the answer to a request whose policies were not linted.
type refusal webhooks.Answer

// Error implements error.
func (r *refusal) Error() string { return r.Message }

// linter lints policies, in limited time.
type linter struct {
	lint func(ctx context.Context, sources []oslopolicy.Source, base []*oslopolicy.File) ([]oslopolicy.Finding, error)
	base *Base
	// directory is true if the policies are all files of a directory, as in a mounted object, and not those of known keys.
	directory bool
	// time is maxTime.
	time    time.Duration
	running *share.Limit[share.Tenant]
}

func newLinter(options oslopolicy.LintOptions, base *Base, directory bool) *linter {
	return &linter{
		lint: func(ctx context.Context, sources []oslopolicy.Source, base []*oslopolicy.File) ([]oslopolicy.Finding, error) {
			options := options
			options.Base = base
			return oslopolicy.LintKeystone(ctx, sources, options)
		},
		base: base, directory: directory, time: maxTime, running: share.New[share.Tenant](maxLinters),
	}
}

// result is what the linter found in the policies of a request.
type result struct {
	problems []problem
	err      error
}

// write is a change of the policies of an object.
type write struct {
	// after are all policies of the object, as Keystone loads them together, and before those that were checked when they were written.
	before, after []policy
	secret        bool
}

// problems lints the policies of a write. The error is a *refusal if they exceed the limits, if another one of the tenant is being linted, or if
// the base cannot be read. Any other error means that they could not be linted.
func (l *linter) problems(ctx context.Context, tenant share.Tenant, w write) ([]problem, error) {
	if size := sizeOf(w.after); size > maxBytes || len(w.after) > maxPolicies {
		return nil, &refusal{Decision: webhooks.Denied, Reason: reasonTooLarge, Message: fmt.Sprintf(
			"it has %d bytes under %d keys, more than the %d bytes under %d keys that are checked at once; remove keys that are not policies, "+
				"or ask the operator to add the keys with a policy to keystonePolicy.keys of warrantgate's configuration",
			size, len(w.after), maxBytes, maxPolicies)}
	}
	waiting, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	release, err := l.running.Take(waiting, tenant, 1)
	switch {
	case errors.Is(err, share.ErrExceeded):
		return nil, &refusal{
			Decision: webhooks.Denied, Reason: reasonBusy, Status: metav1.StatusReasonTooManyRequests, RetryAfter: retryAfter,
			Message: "another policy of this namespace is being checked; try again in a second, and write one at a time",
		}
	case err != nil:
		return nil, fmt.Errorf("wait for other policies to be checked: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, l.time)
	defer cancel()
	// After the deadline the linter finishes its current step, and counts for its tenant until then.
	linted := make(chan result, 1)
	go func() {
		defer release()
		linted <- l.all(ctx, w)
	}()
	select {
	case r := <-linted:
		return r.problems, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("check the policy: %w", ctx.Err())
	}
}

// all lints the policies together, until ctx ends. It recovers from panics, because it runs in a goroutine of its own, where a panic
// would end the process.
func (l *linter) all(ctx context.Context, w write) (r result) {
	defer func() {
		if cause := recover(); cause != nil {
			r = result{err: fmt.Errorf("the linter panicked: %v", cause)}
		}
	}()
	base, err := l.base.files(ctx)
	if err != nil {
		return result{err: err}
	}
	found, err := l.together(ctx, w.after, base)
	if err != nil {
		return result{err: err}
	}
	found, err = l.caused(ctx, w, found, base)
	if err != nil {
		return result{err: err}
	}
	for _, f := range found {
		i := slices.IndexFunc(w.after, func(p policy) bool { return p.key == f.File })
		if i < 0 {
			continue
		}
		if w.secret {
			f = withoutContent(f, w.after[i].content)
		}
		r.problems = append(r.problems, problem{Finding: f, field: w.after[i].field})
	}
	return r
}

// caused leaves out findings that the write has not caused: those about policies that it does not change, and that had them before. Without
// this, each change of another key would be denied because of a policy that is older than the gate. It leaves out none if there are so many
// errors that not all rules were linted.
func (l *linter) caused(ctx context.Context, w write, found []oslopolicy.Finding, base []*oslopolicy.File) ([]oslopolicy.Finding, error) {
	written := changed(w.before, w.after)
	isWritten := func(f oslopolicy.Finding) bool {
		return slices.ContainsFunc(written, func(p policy) bool { return p.key == f.File })
	}
	if len(w.before) == 0 || !slices.ContainsFunc(found, func(f oslopolicy.Finding) bool { return !isWritten(f) }) ||
		sizeOf(w.before) > maxBytes || len(w.before) > maxPolicies || errorsOf(found) >= oslopolicy.MaxFindings {
		return found, nil
	}
	former, err := l.together(ctx, w.before, base)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(f oslopolicy.Finding) bool {
		return !isWritten(f) && slices.ContainsFunc(former, func(was oslopolicy.Finding) bool {
			was.Operations = f.Operations // others may refer to the rule now
			return reflect.DeepEqual(was, f)
		})
	}), nil
}

// together lints policies as one override.
func (l *linter) together(ctx context.Context, policies []policy, base []*oslopolicy.File) ([]oslopolicy.Finding, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	sources := make([]oslopolicy.Source, 0, len(policies))
	var unloaded []oslopolicy.Finding
	for _, p := range policies {
		if l.directory && !oslopolicy.Loads(p.key) {
			unloaded = append(unloaded, oslopolicy.Finding{
				File: p.key, Severity: oslopolicy.SeverityError, Code: oslopolicy.CodeFile,
				Message: "oslo.policy does not load a file whose name begins with a dot", Suggestion: "rename the key, or remove it",
			})
			continue
		}
		sources = append(sources, oslopolicy.Source{Name: p.key, Data: p.content})
	}
	found, err := l.lint(ctx, sources, base)
	return append(unloaded, found...), err
}

func errorsOf(found []oslopolicy.Finding) int {
	count := 0
	for _, f := range found {
		if f.Severity == oslopolicy.SeverityError {
			count++
		}
	}
	return count
}

func sizeOf(policies []policy) int {
	size := 0
	for _, p := range policies {
		size += len(p.content)
	}
	return size
}

// keystoneRule matches the name of a Keystone operation as the name of a rule.
var keystoneRule = regexp.MustCompile(`identity:[a-z0-9_]+["']?\s*:`)

// withoutContent removes the content of the Secret from a finding, unless the content is a policy: a key of a Secret may hold
// something else, and a reader of Events or logs may not be allowed to read Secrets.
func withoutContent(f oslopolicy.Finding, content []byte) oslopolicy.Finding {
	switch {
	case f.Code == oslopolicy.CodeFile:
		f.Message = "it cannot be read as a policy; why is not repeated here, because it is a Secret"
	case !keystoneRule.Match(content):
		f.Rule, f.Suggestion, f.Witness = "", "", nil
		f.Message = f.Code + "; more is not repeated here, because it is a Secret and names no operation of Keystone"
	}
	return f
}
