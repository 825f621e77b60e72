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
	"warrantgate.dev/internal/message"
	"warrantgate.dev/webhooks"
)

// isOwner is true for a request for a Machine of Cluster API.
func isOwner(request admission.Request) bool {
	return request.Resource.Group == clusterapi.OwnerMachines.Group && request.Resource.Resource == clusterapi.OwnerMachines.Resource
}

// reviewOwner checks the cluster label of a Machine, which providers use for the machines that it owns: these must have the same label,
// because their claims were evaluated with it.
//
// Cluster API sets the label from spec.clusterName, which is immutable. This does not protect the label: the webhook of Cluster API may
// be missing. A Machine that is created is not checked: see ownerHook.
func (g *Gate) reviewOwner(ctx context.Context, request admission.Request) webhooks.Answer {
	unchanged := webhooks.Answer{Decision: webhooks.Allowed, Reason: "NothingClaimed"}
	if request.Operation != admissionv1.Update {
		return unchanged
	}
	machine, err := clusterapi.DecodeMetadata(request.Object.Raw)
	if err != nil {
		return webhooks.Undecodable(fmt.Errorf("decode the Machine: %w", err))
	}
	old, _ := clusterapi.DecodeMetadata(request.OldObject.Raw) // one that cannot be decoded counts as one without a label
	cluster := machine.Labels[clusterapi.ClusterNameLabel]
	if cluster == old.Labels[clusterapi.ClusterNameLabel] {
		return unchanged
	}
	// The object may omit the namespace and name of the request.
	machine.Namespace, machine.Name = cmp.Or(machine.Namespace, request.Namespace), cmp.Or(machine.Name, request.Name)
	return g.concludeOwner(request, machine, g.checkOwner(ctx, machine, cluster))
}

func (g *Gate) checkOwner(ctx context.Context, machine metav1.ObjectMeta, cluster string) webhooks.Answer {
	owned, err := g.objects.Owned(ctx, machine.Namespace, machine.Name)
	if err != nil {
		return unreadable("the machines that it owns cannot be read now; try again", err)
	}
	var names []string
	for _, m := range owned {
		// A machine without a cluster and an instance is evaluated when it gets one of them.
		if m.ClusterName() != cluster && (m.ClusterName() != "" || m.InstanceID != "" || m.ProviderID != "") {
			names = append(names, fmt.Sprintf("%s %q of cluster %q", m.Kind.Kind, message.Value(m.Name), message.Value(m.ClusterName())))
		}
	}
	if len(names) == 0 {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "SameCluster"}
	}
	slices.Sort(names)
	const most = 3
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return deniedf(string(clusterapi.OwnerClusterMismatch), "it owns %s, whose provider would act for the cluster of this label then; "+
		"keep the label, or clear the instance and change the label of the machines that it owns first", strings.Join(names, ", "))
}

// concludeOwner adds the subject of the answer for a Machine.
func (g *Gate) concludeOwner(request admission.Request, machine metav1.ObjectMeta, answer webhooks.Answer) webhooks.Answer {
	name := fmt.Sprintf("label %s %q of Machine %q of namespace %q",
		clusterapi.ClusterNameLabel, message.Value(machine.Labels[clusterapi.ClusterNameLabel]), message.Value(machine.Name), machine.Namespace)
	reference := corev1.ObjectReference{
		APIVersion: schema.GroupVersion{Group: request.Resource.Group, Version: request.Resource.Version}.String(), Kind: clusterapi.OwnerKind,
		Namespace: machine.Namespace, Name: machine.Name, UID: machine.UID, ResourceVersion: machine.ResourceVersion,
	}
	return g.about(webhooks.NewSubject(name, &machine, reference, true), clusterLabelPath, answer)
}
