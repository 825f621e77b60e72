package workspace

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
)

// OwnerIntegrity is the validating gate that keeps the recorded owner, and what it is made of, from being forged:
// kcp itself checks it only when a Workspace is created, and a PATCH that wins the race against the scheduler would
// have kcp act as anybody.
//
// A ValidatingAdmissionPolicy with the same rule is installed along with it and answers first, so that the rule also
// holds while no warrantgate is running. This gate is the second line. It fails closed, and is only asked about
// requests that change something it guards.
type OwnerIntegrity struct{}

// NewOwnerIntegrity returns the gate.
func NewOwnerIntegrity() *OwnerIntegrity { return &OwnerIntegrity{} }

var _ webhooks.Gate = &OwnerIntegrity{}

// guardedOnUpdate are kcp's annotations that only the system may change. Next to the owner these are what a rewrite
// rests on: the new owner is scoped to the logical cluster, and counts there as a member of the required groups.
var guardedOnUpdate = []string{kcp.OwnerAnnotation, kcp.ClusterAnnotation, kcp.RequiredGroupsAnnotation}

// guardedOnCreate are those of them that kcp does not set, check or overwrite by itself when a Workspace is created.
var guardedOnCreate = []string{kcp.ClusterAnnotation}

// systemGroup is whom kcp's own controllers act as.
const systemGroup = user.SystemPrivilegedGroup

// What a refusal says after who, what and where. The admission policy says the same.
const (
	whyGuarded = "this is where kcp reads as whom it acts for the workspace, so only the system may write it"
	whatToDo   = "leave it as it is; to give others access, bind them to a role inside the workspace"
)

// Name implements webhooks.Gate.
func (*OwnerIntegrity) Name() string { return "owner-integrity" }

// Review implements webhooks.Gate.
func (*OwnerIntegrity) Review(_ context.Context, request admission.Request) webhooks.Answer {
	workspace, err := decode(request)
	if err != nil {
		return webhooks.Undecodable(err)
	}
	changed := guardedChanges(request.Operation, workspace.old.Annotations, workspace.object.Annotations)
	details := func() []any { return []any{"cluster", workspace.cluster, "changed", changed} }
	switch {
	case len(changed) == 0:
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "Unchanged", Details: details}
	case slices.Contains(request.UserInfo.Groups, systemGroup):
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "System", Details: details}
	}
	where := ""
	if !workspace.cluster.Empty() {
		where = fmt.Sprintf(" in logical cluster %q", workspace.cluster)
	}
	message := fmt.Sprintf("user %q tried to change %s of workspace %q%s: %s; %s",
		request.UserInfo.Username, strings.Join(changed, ", "), workspace.object.Name, where, whyGuarded, whatToDo)
	return webhooks.Answer{
		Decision: webhooks.Denied, Reason: events.OwnerChangeRefused, Subject: workspace.subject(), Message: message, Details: details,
		Notices: []webhooks.Notice{{Type: corev1.EventTypeWarning, Reason: events.OwnerChangeRefused, Message: sentence(message)}},
	}
}

// guardedChanges returns the guarded annotations that differ, sorted.
func guardedChanges(operation admissionv1.Operation, before, after map[string]string) []string {
	guarded := guardedOnUpdate
	if operation == admissionv1.Create {
		guarded = guardedOnCreate
	}
	changed := map[string]bool{}
	for _, annotations := range []map[string]string{before, after} {
		for key := range annotations {
			was, had := before[key]
			is, has := after[key]
			// An update need not repeat where the object lives, but must not say that it lives elsewhere.
			moved := key == logicalcluster.AnnotationKey && operation == admissionv1.Update && has
			if !moved && !slices.Contains(guarded, key) && !strings.HasPrefix(key, annotationPrefix) {
				continue
			}
			if had != has || was != is {
				changed[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}
