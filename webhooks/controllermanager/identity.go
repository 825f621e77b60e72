package controllermanager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/webhooks"
)

// Identity is the mutating gate that sets the environment of a controller manager's container, so that it acts as the user of its
// cluster. It changes nothing else.
//
// It denies objects with problems that it cannot fix: the email of another user, another region, the credentials of all clusters.
// It fails closed: while no replica of warrantgate answers, controller managers cannot be created or changed. Running pods are not
// affected.
type Identity struct {
	gate
}

// NewIdentity returns the gate. Without impersonation it changes nothing, because controller managers then use the credentials of
// all clusters.
func NewIdentity(config v1beta1.ControllerManager, impersonation bool, objects controllermanager.Objects) *Identity {
	return &Identity{gate{config: config, impersonation: impersonation, objects: objects}}
}

var _ webhooks.Gate = &Identity{}

// Name implements webhooks.Gate.
func (*Identity) Name() string { return "controller-manager-identity" }

// Review implements webhooks.Gate.
func (g *Identity) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	return g.review(ctx, request, func(c checked) webhooks.Answer {
		unfixable := slices.DeleteFunc(slices.Clone(c.Problems), func(f controllermanager.Problem) bool { return f.Fix != nil })
		switch {
		case c.Nobody:
			return c.nobody(g.config.ClusterNameLabel)
		case len(unfixable) > 0:
			return c.deny(unfixable)
		case len(c.Problems) > 0:
			return c.fix()
		}
		return c.inPlace()
	})
}

// fix adds the missing variables. If it replaces a value, the answer says so.
func (c checked) fix() webhooks.Answer {
	var names []string
	var replaced []controllermanager.Problem
	for _, f := range c.Problems {
		if !slices.Contains(names, f.Fix.Variable.Name) {
			names = append(names, f.Fix.Variable.Name)
		}
		if f.Fix.Replaces {
			replaced = append(replaced, f)
		}
	}
	container := c.workload.Spec.Template.Spec.Containers[c.Manager]
	message := fmt.Sprintf("container %.100q needs %s to act as user %q in region %q, as CloudSigmaCluster %q does",
		container.Name, strings.Join(names, ", "), c.Account.User, c.Account.Region, c.Cluster)
	decision, reason, eventType := webhooks.Allowed, "IdentityGiven", corev1.EventTypeNormal
	if len(replaced) > 0 {
		// After a replacement the secret is still in the original request, so the requester must be warned.
		decision, reason, eventType = webhooks.Warned, "IdentityReplaced", corev1.EventTypeWarning
		if slices.ContainsFunc(replaced, func(f controllermanager.Problem) bool { return f.Reason == controllermanager.ReasonClientSecretByValue }) {
			reason = controllermanager.ReasonClientSecretByValue
		}
		message += "; " + controllermanager.Joined(replaced)
	}
	answer := webhooks.Answer{
		Decision: decision, Reason: reason, Subject: c.workload.subject(), Message: message,
		Patches: patches(container.Env, c.Problems, c.Manager), Details: c.details,
	}
	answer.Notices = []webhooks.Notice{{Type: eventType, Reason: reason, Message: "Changed: " + answer.Text()}}
	answer.NoticesUnchanged = []webhooks.Notice{{
		Type: corev1.EventTypeWarning, Reason: reason, Message: "Not changed, because the gate only warns: " + answer.Text(),
	}}
	return answer
}

// patches replaces wrong variables in place and appends missing ones. It keeps the order of other variables, because a variable can
// refer to an earlier one.
func patches(env []corev1.EnvVar, problems []controllermanager.Problem, container int) []jsonpatch.JsonPatchOperation {
	at := fmt.Sprintf("/spec/template/spec/containers/%d/env", container)
	var operations []jsonpatch.JsonPatchOperation
	var added []corev1.EnvVar
	for _, f := range problems {
		if f.Fix.Index < 0 {
			added = append(added, f.Fix.Variable)
			continue
		}
		operations = append(operations, jsonpatch.NewOperation("replace", fmt.Sprintf("%s/%d", at, f.Fix.Index), f.Fix.Variable))
	}
	if len(env) == 0 { // the list may not exist yet
		return append(operations, jsonpatch.NewOperation("add", at, added))
	}
	for _, variable := range added {
		operations = append(operations, jsonpatch.NewOperation("add", at+"/-", variable))
	}
	return operations
}
