package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/webhooks"
)

// DenialNotice is the mutating gate that reports updates that the policy of owner integrity denies, and what restorePolicy removes from
// Workspaces that are created. Policies decide about both before any validating webhook is called, but after the mutating ones: without this
// gate, only the requester sees it.
//
// It denies nothing, and fails open. It puts back annotations that an update leaves out, as restorePolicy does. Where that is registered, it
// is not called for those. It is registered for creations only together with restorePolicy. In mode Warn it is
// called for changes only, which the policy then admits with a warning.
type DenialNotice struct{}

// NewDenialNotice returns the gate.
func NewDenialNotice() *DenialNotice { return &DenialNotice{} }

var _ webhooks.Gate = &DenialNotice{}

// maxUserBytes and maxNameBytes limit texts of a requester in an Event. A user who may impersonate in a workspace may claim any name there, and
// the name of a new object is not validated yet.
const maxUserBytes, maxNameBytes = 128, 64

// Name implements webhooks.Gate.
func (*DenialNotice) Name() string { return "denial-notice" }

// Review implements webhooks.Gate.
func (*DenialNotice) Review(_ context.Context, request admission.Request) webhooks.Answer {
	workspace, err := decode(request)
	switch {
	case err != nil:
		denial := webhooks.Undecodable(err)
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: denial.Reason, Message: denial.Message}
	case !workspace.exists:
		return noticeRemoved(request, workspace)
	}
	sent := workspace.object.Annotations
	all, leftOut := sent, []string(nil)
	if keepsRecorded(request.UserInfo) {
		all, leftOut = putBack(workspace.old.Annotations, sent)
	}
	workspace.object.Annotations = all
	changed := workspace.changes(request)
	answer := webhooks.Answer{
		Decision: webhooks.Allowed, Reason: reasonUnchanged, Details: func() []any { return []any{"cluster", workspace.cluster, "changed", changed} },
	}
	for _, key := range leftOut {
		answer.Patches = append(answer.Patches, webhooks.SetAnnotation(sent, key, all[key]))
		sent = all // exists from the first patch on
	}
	if !isDenied(request, changed) {
		return answer
	}
	// The object of the request is not validated yet, so the Event is about the stored one.
	workspace.object.Name, workspace.object.UID, workspace.object.ResourceVersion = workspace.old.Name, workspace.old.UID, workspace.old.ResourceVersion
	user := request.UserInfo.Username
	answer.Reason, answer.Subject = events.OwnerChangeDenied, workspace.subject()
	answer.Message = fmt.Sprintf("user %q tried to change %s: %s", message.Clip(user, maxUserBytes), strings.Join(knownKeys(changed), ", "), whyDenied(request, changed))
	notice := func(result string) []webhooks.Notice {
		return []webhooks.Notice{{
			Type: corev1.EventTypeWarning, Reason: events.OwnerChangeDenied, By: user, Message: sentence(answer.Message) + ". " + result,
		}}
	}
	answer.Notices = notice("Nothing was changed")
	answer.NoticesUnchanged = notice("It was changed, because the gate only warns")
	return answer
}

// noticeRemoved reports, with a warning and an Event on the LogicalCluster, what restorePolicy removes from a Workspace that is created. It
// reports nothing about a creation that the policy of owner integrity denies.
func noticeRemoved(request admission.Request, workspace reviewed) webhooks.Answer {
	answer := webhooks.Answer{Decision: webhooks.Allowed, Reason: reasonUnchanged, Subject: workspace.subject()}
	removed, remaining := removedFrom(request.Object, workspace.object.Annotations)
	if len(removed) == 0 || !keepsRecorded(request.UserInfo) || len(guardedChanges(request.Operation, nil, remaining)) > 0 {
		return answer
	}
	user := request.UserInfo.Username
	answer.Decision, answer.Reason = webhooks.Warned, events.NotRestored
	// The requester can choose the UID of a new object here, and the object may not be created.
	answer.Subject.Object.UID = ""
	what := fmt.Sprintf("workspace %q with %s: only kcp and warrantgate set them, so they are not stored. "+
		"The workspace gets a logical cluster of its own, and its creator as owner", message.Clip(workspace.name(), maxNameBytes), strings.Join(removed, ", "))
	answer.Message = what
	answer.Notices = []webhooks.Notice{{
		Type: corev1.EventTypeWarning, Reason: events.NotRestored, By: user,
		Message: fmt.Sprintf("User %q sent %s", message.Clip(user, maxUserBytes), what),
	}}
	return answer
}

// knownKeys replaces the names of annotations that the requester can choose.
func knownKeys(keys []string) []string {
	var known []string
	for _, key := range keys {
		if strings.HasPrefix(key, annotationPrefix) && key != kcp.CreatedByAnnotation && key != kcp.RewrittenByAnnotation {
			key = annotationPrefix + "*"
		}
		if !slices.Contains(known, key) {
			known = append(known, key)
		}
	}
	return known
}
