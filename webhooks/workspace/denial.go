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

// DenialNotice is the mutating gate that reports updates that OwnerIntegrity denies. The admission policy of the same rule denies them
// before any validating webhook is called, but after the mutating ones: without this gate, only the requester sees the denial.
//
// It decides as OwnerIntegrity does, changes and denies nothing, and fails open. It is not called for a Workspace that is created: no
// object could have the Event. It is registered only where OwnerIntegrity enforces.
type DenialNotice struct{ integrity OwnerIntegrity }

// NewDenialNotice returns the gate.
func NewDenialNotice() *DenialNotice { return &DenialNotice{} }

var _ webhooks.Gate = &DenialNotice{}

// maxUserBytes limits the name of a user in an Event. A user who may impersonate in a workspace may claim any name there.
const maxUserBytes = 128

// Name implements webhooks.Gate.
func (*DenialNotice) Name() string { return "denial-notice" }

// Review implements webhooks.Gate.
func (g *DenialNotice) Review(ctx context.Context, request admission.Request) webhooks.Answer {
	denial := g.integrity.Review(ctx, request)
	answer := webhooks.Answer{
		Decision: webhooks.Allowed, Reason: denial.Reason, Message: denial.Message, Details: denial.Details,
		NoticesUnchanged: []webhooks.Notice{}, // the mode Warn denies nothing
	}
	workspace, err := decode(request)
	if err != nil || denial.Reason != events.OwnerChangeDenied || !workspace.exists {
		return answer
	}
	// The object of the request is not validated yet, so the Event is about the stored one.
	workspace.object.Name, workspace.object.UID, workspace.object.ResourceVersion = workspace.old.Name, workspace.old.UID, workspace.old.ResourceVersion
	answer.Subject = workspace.subject()
	user, changed := request.UserInfo.Username, workspace.changes(request)
	why, _ := whyDenied(request, changed)
	answer.Notices = []webhooks.Notice{{
		Type: corev1.EventTypeWarning, Reason: events.OwnerChangeDenied, By: user,
		Message: fmt.Sprintf("User %q tried to change %s: %s. Nothing was changed", message.Clip(user, maxUserBytes),
			strings.Join(knownKeys(changed), ", "), why),
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
