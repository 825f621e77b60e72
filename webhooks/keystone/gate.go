// Package keystone holds the gate on ConfigMaps and Secrets with a policy for Keystone. It denies a policy that Keystone would not
// apply as written.
//
// Keystone accepts a policy that oslo.policy cannot parse without an error, and applies it from the next request on. The API
// server is the last place that can report the mistake.
package keystone

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
)

// Path is the path of the gate.
const Path = "/keystone/policy"

// Reasons of answers about a policy.
const (
	// reasonBroken: at least one problem is an error.
	reasonBroken = "KeystonePolicyBroken"
	// reasonDoubtful: there are warnings, and no errors.
	reasonDoubtful = "KeystonePolicyDoubtful"
	// reasonMissing: the object is selected, and has no policy.
	reasonMissing = "KeystonePolicyMissing"
	// reasonDeselected: the write removes the labels by which the object is selected, and keeps policies in it.
	reasonDeselected = "KeystonePolicyDeselected"
	// reasonTooLarge: the policies exceed the limits.
	reasonTooLarge = "KeystonePolicyTooLarge"
	// reasonNoBase: the policy that the configuration names as the base cannot be read.
	reasonNoBase = "KeystonePolicyBaseUnreadable"
	// reasonUnchecked: the policy could not be linted in time.
	reasonUnchecked = "KeystonePolicyUnchecked"
	// reasonBusy: another policy of the same tenant is being checked.
	reasonBusy = "TooManyRequests"
)

// Gate is the validating gate. It fails closed: while no warrantgate answers, no policy can be changed, and Keystone continues with
// the one that it has.
//
// It checks what a request writes into an object that is selected before or after the write, together with the other policies of the
// object and over those of the base. A policy that is older than the gate, in a key that the request does not change, is not a
// reason to deny unless the request breaks it. The labels that select an object cannot be removed while it holds a policy; otherwise two writes could
// do what one must not. The object can still be deleted and created again without labels, so Keystone must not mount an object whose
// name others can write unless it is selected by name.
type Gate struct {
	keys     []string
	selector labels.Selector
	objects  map[v1beta1.NamedObject]bool
	linter   *linter
}

// New returns the gate on policies over a base. It returns an error if the selector or the release is invalid.
func New(config v1beta1.KeystonePolicy, base *Base) (*Gate, error) {
	selector, err := metav1.LabelSelectorAsSelector(config.Selector)
	if err != nil {
		return nil, fmt.Errorf("keystonePolicy.selector: %w", err)
	}
	objects := map[v1beta1.NamedObject]bool{}
	for _, object := range config.Objects {
		objects[object] = true
	}
	release, err := oslopolicy.ParseRelease(config.KeystoneRelease)
	if err != nil {
		return nil, fmt.Errorf("keystonePolicy.keystoneRelease: %w", err)
	}
	options := oslopolicy.LintOptions{
		Release: release, ManagerRoles: config.ManagerRoles, ManagedRoles: config.ManagedRoles, KnownRules: config.KnownRules,
	}
	return &Gate{keys: config.Keys, selector: selector, objects: objects, linter: newLinter(options, base, len(config.Keys) == 0)}, nil
}

var _ webhooks.Gate = &Gate{}

// Name implements webhooks.Gate.
func (*Gate) Name() string { return "keystone-policy" }

// Review implements webhooks.Gate.
func (g *Gate) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "NothingWritten"}
	}
	after, err := decode(request, request.Object)
	if err != nil {
		return webhooks.Undecodable(err)
	}
	var before object
	if after.exists {
		if before, err = decode(request, request.OldObject); err != nil {
			return webhooks.Undecodable(err)
		}
	}
	policies, was := after.policies(g.keys), before.policies(g.keys)
	selectedBefore := after.exists && g.selects(before)
	switch {
	case !g.selects(after) && !selectedBefore:
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "NotSelected"}
	case !g.selects(after) && len(policies) == 0:
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "KeystonePolicyRemoved"}
	case !g.selects(after):
		return webhooks.Answer{Decision: webhooks.Denied, Reason: reasonDeselected, Subject: after.subject(), Message: deselected(after, policies)}
	case selectedBefore: // an object that was not selected before is checked as if it were new
		if len(changed(was, policies)) == 0 && len(was) == len(policies) { // nothing is written, and no key removed
			return webhooks.Answer{Decision: webhooks.Allowed, Reason: "KeystonePolicyUnchanged"}
		}
	}
	if len(policies) == 0 {
		return webhooks.Answer{Decision: webhooks.Warned, Reason: reasonMissing, Subject: after.subject(), Message: missing(after, g.keys, g.named(after))}
	}
	w := write{after: policies, secret: after.secret}
	if selectedBefore {
		w.before = was
	}
	return g.lint(ctx, after, w)
}

// selects reports whether the gate checks an object. Selection by name applies to both kinds, because a projected volume takes either.
func (g *Gate) selects(o object) bool { return g.named(o) || g.selector.Matches(labels.Set(o.Labels)) }

func (g *Gate) named(o object) bool {
	return o.named && g.objects[v1beta1.NamedObject{Namespace: o.Namespace, Name: o.Name}]
}

// lint checks a write. There is at least one policy after it.
func (g *Gate) lint(ctx context.Context, o object, w write) webhooks.Answer {
	problems, err := g.linter.problems(ctx, share.FromContext(ctx), w)
	answer := webhooks.Answer{Decision: webhooks.Undecided, Reason: reasonUnchecked, Subject: o.subject()}
	if refused, ok := errors.AsType[*refusal](err); ok {
		answer = webhooks.Answer(*refused)
		answer.Subject = o.subject()
		return answer
	}
	if err != nil {
		answer.Message = `it could not be checked in time; try again, or run "warrantgate lint keystone-policy" on the file`
		answer.Details = func() []any { return []any{"error", err.Error()} }
		return answer
	}
	broken, doubtful := bySeverity(problems, oslopolicy.SeverityError), bySeverity(problems, oslopolicy.SeverityWarning)
	answer.Decision, answer.Reason = verdict(len(broken), len(doubtful))
	shown := broken
	switch answer.Decision {
	case webhooks.Allowed:
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: answer.Reason}
	case webhooks.Warned:
		shown = doubtful
	case webhooks.Denied, webhooks.Undecided:
	}
	answer.Message = summary(broken, doubtful, maxMessage-len(o.String()+": "))
	answer.Field, answer.Causes = shown[0].field, causes(shown)
	answer.Details = func() []any { return []any{"errors", len(broken), "warnings", len(doubtful)} }
	return answer
}

// verdict returns the decision on policies with a number of errors and of warnings, and its reason. Notes are no reason to deny or to warn.
func verdict(broken, doubtful int) (webhooks.Decision, string) {
	switch {
	case broken > 0:
		return webhooks.Denied, reasonBroken
	case doubtful > 0:
		return webhooks.Warned, reasonDoubtful
	}
	return webhooks.Allowed, "KeystonePolicySound"
}

// Verdict returns the decision on an object that is created with these policies, and its reason, from the findings of the linter.
func Verdict(policies []oslopolicy.Source, findings []oslopolicy.Finding) (webhooks.Decision, string) {
	size := 0
	for _, p := range policies {
		size += len(p.Data)
	}
	if size > maxBytes || len(policies) > maxPolicies {
		return webhooks.Denied, reasonTooLarge
	}
	counts := map[oslopolicy.Severity]int{}
	for _, f := range findings {
		counts[f.Severity]++
	}
	return verdict(counts[oslopolicy.SeverityError], counts[oslopolicy.SeverityWarning])
}
