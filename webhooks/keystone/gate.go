// Package keystone holds the gate on ConfigMaps and Secrets with a policy for Keystone: none is stored by which Keystone
// would deny or allow something else than is written there.
//
// Keystone takes a policy that oslo.policy cannot understand without a word, and goes by it from the next request on. The
// API server is the last place where somebody is told.
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
	"warrantgate.dev/webhooks"
)

// Path is where the gate is served.
const Path = "/keystone/policy"

// Reasons of what is said about a policy.
const (
	// reasonBroken: at least one finding is an error.
	reasonBroken = "KeystonePolicyBroken"
	// reasonDoubtful: there are warnings, and no errors.
	reasonDoubtful = "KeystonePolicyDoubtful"
	// reasonMissing: the object is selected, and has nothing that could be judged.
	reasonMissing = "KeystonePolicyMissing"
	// reasonDeselected: the write takes the labels away by which the object is selected, and leaves policies in it.
	reasonDeselected = "KeystonePolicyDeselected"
	// reasonTooLarge: there is more than is judged.
	reasonTooLarge = "KeystonePolicyTooLarge"
	// reasonUnjudged: there was not enough time.
	reasonUnjudged = "KeystonePolicyUnjudged"
	// reasonBusy: too many requests of the same tenant wait.
	reasonBusy = "TooManyRequests"
)

// Gate is the validating gate. It fails closed: while no warrantgate answers, no policy is changed. Keystone goes on with
// the one that it has.
//
// It judges what a request writes into an object that is selected before or after the write. A policy that was there before
// the gate stays as it is, and so do the keys that a request leaves alone. An object that holds a policy and is selected by
// its labels keeps them: else two writes would do what one must not. It can still be deleted and created anew without them,
// so Keystone must not mount such an object by a name that others can write: that is what selection by name is for.
type Gate struct {
	keys     []string
	selector labels.Selector
	objects  map[v1beta1.KeystonePolicyObject]bool
	judge    *judge
}

// New returns the gate. The error is about the selector.
func New(config v1beta1.KeystonePolicy) (*Gate, error) {
	selector, err := metav1.LabelSelectorAsSelector(config.Selector)
	if err != nil {
		return nil, fmt.Errorf("keystonePolicy.selector: %w", err)
	}
	objects := map[v1beta1.KeystonePolicyObject]bool{}
	for _, object := range config.Objects {
		objects[object] = true
	}
	options := oslopolicy.LintOptions{ManagerRoles: config.ManagerRoles, ManagedRoles: config.ManagedRoles}
	return &Gate{keys: config.Keys, selector: selector, objects: objects, judge: newJudge(options)}, nil
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
	case selectedBefore: // what was not selected before is judged as if it had not been there
		written := changed(was, policies)
		if len(written) == 0 && (len(was) == 0 || len(policies) > 0) {
			return webhooks.Answer{Decision: webhooks.Allowed, Reason: "KeystonePolicyUnchanged"}
		}
		policies = written
	}
	if len(policies) == 0 {
		return webhooks.Answer{Decision: webhooks.Warned, Reason: reasonMissing, Subject: after.subject(), Message: missing(after, g.keys, g.named(after))}
	}
	return g.review(ctx, after, policies)
}

// selects tells whether an object is one that the gate judges. Its kind does not matter to those selected by name, because a
// projected volume takes either.
func (g *Gate) selects(o object) bool { return g.named(o) || g.selector.Matches(labels.Set(o.Labels)) }

func (g *Gate) named(o object) bool {
	return o.named && g.objects[v1beta1.KeystonePolicyObject{Namespace: o.Namespace, Name: o.Name}]
}

// review judges what is written. There is at least one policy.
func (g *Gate) review(ctx context.Context, o object, policies []policy) webhooks.Answer {
	findings, err := g.judge.findings(ctx, webhooks.TenantOf(ctx), o.secret, policies)
	answer := webhooks.Answer{Decision: webhooks.Denied, Subject: o.subject()}
	var large *sizeError
	var busy *busyError
	switch {
	case errors.As(err, &large):
		answer.Reason, answer.Message = reasonTooLarge, large.Error()
		return answer
	case errors.As(err, &busy):
		answer.Reason, answer.Message = reasonBusy, busy.Error()
		answer.Status, answer.RetryAfter = metav1.StatusReasonTooManyRequests, retryAfter
		return answer
	case err != nil:
		answer.Decision, answer.Reason = webhooks.Undecided, reasonUnjudged
		answer.Message = `it could not be judged in time; try again, or see what "warrantgate lint keystone-policy" says of the file`
		answer.Details = func() []any { return []any{"error", err.Error()} }
		return answer
	}
	broken, doubtful := bySeverity(findings, oslopolicy.SeverityError), bySeverity(findings, oslopolicy.SeverityWarning)
	shown := broken
	switch {
	case len(broken)+len(doubtful) == 0:
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "KeystonePolicySound"}
	case len(broken) == 0:
		shown, answer.Decision, answer.Reason = doubtful, webhooks.Warned, reasonDoubtful
	default:
		answer.Reason = reasonBroken
	}
	answer.Message = summary(broken, doubtful, maxMessage-len(o.String()+": "))
	answer.Field, answer.Causes = shown[0].field, causes(shown)
	answer.Details = func() []any { return []any{"errors", len(broken), "warnings", len(doubtful)} }
	return answer
}
