package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/webhooks"
)

// isOwner is true of a request about a Machine of Cluster API.
func isOwner(request admission.Request) bool {
	return request.Resource.Group == clusterapi.OwnerMachines.Group && request.Resource.Resource == clusterapi.OwnerMachines.Resource
}

// reviewOwner judges what a request does to the label by which providers find the cluster of the machines that the Machine
// owns: these have to be of the same cluster, because they were judged by that.
//
// Cluster API sets the label from spec.clusterName, which it lets nobody change. It cannot be relied on: its webhook may be
// missing, and whoever deletes the Machine can make another one of that name.
func (g *Gate) reviewOwner(ctx context.Context, request admission.Request) (answer webhooks.Answer) {
	unchanged := webhooks.Answer{Decision: webhooks.Allowed, Reason: "NothingClaimed"}
	if request.Operation == admissionv1.Delete {
		return unchanged
	}
	machine, err := clusterapi.DecodeMetadata(request.Object.Raw)
	if err != nil {
		return webhooks.Undecodable(fmt.Errorf("decode the Machine: %w", err))
	}
	exists, was, replaced := request.Operation != admissionv1.Create, "", ""
	if old, err := clusterapi.DecodeMetadata(request.OldObject.Raw); exists && err == nil { // else as if it had been of none
		was, replaced = old.Labels[clusterapi.ClusterNameLabel], old.ResourceVersion
	}
	cluster := machine.Labels[clusterapi.ClusterNameLabel]
	if cluster == was {
		return unchanged
	}
	// An object need not repeat where it is sent to.
	machine.Namespace, machine.Name = cmp.Or(machine.Namespace, request.Namespace), cmp.Or(machine.Name, request.Name)
	_, end, err := g.writes.begin(ctx, request, inflight.Write{
		Object: inflight.Object{
			Resource: clusterapi.OwnerMachines.WithVersion(request.Resource.Version), Namespace: machine.Namespace, Name: machine.Name,
		},
		ResourceVersion: replaced, Changes: []inflight.Key{clusterapi.OwnerKey(machine.Namespace, machine.Name)},
	})
	if err != nil {
		return g.concludeOwner(request, machine, exists, *pending("names an instance for a machine that it owns, or changes this label", err))
	}
	defer func() { end(answer.Decision) }()
	return g.concludeOwner(request, machine, exists, g.judgeOwner(ctx, machine, cluster))
}

func (g *Gate) judgeOwner(ctx context.Context, machine metav1.ObjectMeta, cluster string) finding {
	owned, err := g.objects.Owned(ctx, machine.Namespace, machine.Name)
	if err != nil {
		return undecided("ObjectsUnknown", "it cannot be told now which machines it owns; try again", err)
	}
	var names []string
	for _, m := range owned {
		// One that is of no cluster yet and names no instance is judged once it is or does.
		if m.ClusterName() != cluster && (m.ClusterName() != "" || m.InstanceID != "" || m.ProviderID != "") {
			names = append(names, fmt.Sprintf("%s %q of cluster %q", m.Kind.Kind, clip(m.Name), clip(m.ClusterName())))
		}
	}
	if len(names) == 0 {
		return finding{decision: webhooks.Allowed, reason: "SameCluster"}
	}
	slices.Sort(names)
	const most = 3
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return deniedf(string(clusterapi.OwnerClusterMismatch), "it owns %s, whose provider would act for the cluster of this label from now on; "+
		"keep the label, or clear the instance and change the label of what it owns first", strings.Join(names, ", "))
}

// concludeOwner makes an answer of a finding about a Machine.
func (g *Gate) concludeOwner(request admission.Request, machine metav1.ObjectMeta, exists bool, f finding) webhooks.Answer {
	subject := fmt.Sprintf("label %s %q of Machine %q of namespace %q",
		clusterapi.ClusterNameLabel, clip(machine.Labels[clusterapi.ClusterNameLabel]), clip(machine.Name), machine.Namespace)
	self := corev1.ObjectReference{
		APIVersion: schema.GroupVersion{Group: request.Resource.Group, Version: request.Resource.Version}.String(), Kind: clusterapi.OwnerKind,
		Namespace: machine.Namespace, Name: machine.Name, UID: machine.UID, ResourceVersion: machine.ResourceVersion,
	}
	return g.answer(f, subject, clusterLabelPath, func() (corev1.ObjectReference, bool) {
		return webhooks.EventObject(&machine, self, exists)
	})
}

// answer makes an answer of a finding about a subject, whose field is at the path, with its Event on the object that about
// returns.
func (g *Gate) answer(f finding, subject, path string, about func() (corev1.ObjectReference, bool), details ...any) webhooks.Answer {
	answer := webhooks.Answer{
		Decision: f.decision, Status: f.status, RetryAfter: f.retryAfter, Reason: f.reason,
		Message: subject + ": " + f.message, Field: path, Causes: f.causes,
		Details: func() []any { return append(details, f.details...) },
	}
	if f.decision == webhooks.Allowed {
		return answer
	}
	verb := "Refused"
	if f.decision == webhooks.Undecided && !f.pending && g.unknown == v1beta1.Admit {
		answer.Decision = webhooks.Warned
	}
	if g.mode == v1beta1.Warn || answer.Decision == webhooks.Warned {
		verb = "Admitted with a warning"
	}
	if object, found := about(); found {
		answer.Events = []events.Event{{
			Object: object, Type: corev1.EventTypeWarning, Reason: f.reason,
			Message: fmt.Sprintf("%s: %s: %s", verb, subject, f.lasting),
		}}
	}
	return answer
}
