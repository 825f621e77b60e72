package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/webhooks"
)

const (
	// reasonOwnerDiffers: the annotation of a KdcCluster and spec.userEmail of its CloudSigmaCluster name two users.
	reasonOwnerDiffers = "OwnerEmailDiffers"
	// reasonOwnerNotCompared: one of the two cannot be read.
	reasonOwnerNotCompared = "OwnerEmailNotCompared"
)

// compareOwner warns about a KdcCluster and its CloudSigmaCluster, which has the same name and namespace, if they name two users. The cloud
// controller manager then acts as the one and does not see the servers that the provider creates as the other.
//
// It only warns: these are two objects, so a change of both users always has an intermediate state in which they differ. The message does
// not quote the other object, which the requester may not be allowed to read. If that object cannot be read, the warning says so.
func (g *Impersonation) compareOwner(ctx context.Context, o object, names []naming, admitted webhooks.Answer) webhooks.Answer {
	at, email := "", ""
	switch o.kind.resource {
	case kdcClusters:
		at, email = annotatedOwner(o.Annotations)
	case clusterapi.CloudSigmaClusters:
		at = userEmailField
		for _, n := range names {
			email = n.email // "" if a Secret names the user
		}
	}
	if email == "" || len(names) == 0 {
		return admitted
	}
	otherField, other, kind, err := g.counterpart(ctx, o)
	switch {
	case err != nil:
		return about(o, at, webhooks.Answer{Decision: webhooks.Warned, Reason: reasonOwnerNotCompared, Message: "warrantgate cannot read " + kind +
			" of the same name, so the users were not compared; the cause is in its log"}.WithDetails("error", err.Error()))
	case other == "" || sameEmail(email, other):
		return admitted
	}
	return about(o, at, webhooks.Answer{Decision: webhooks.Warned, Reason: reasonOwnerDiffers, Message: fmt.Sprintf(
		"it names another user than %s of %s of the same name: the cloud controller manager acts as the user of the KdcCluster and does not see "+
			"the servers of the user of the CloudSigmaCluster; set annotation %s and %s to the same user", otherField, kind, ownerAnnotations[0], userEmailField)})
}

// counterpart returns the user that the other object names, with the field and the kind, "" if there is no such object or user.
func (g *Impersonation) counterpart(ctx context.Context, o object) (at, email, kind string, err error) {
	resource, kind := clusterapi.CloudSigmaClusters, "CloudSigmaCluster"
	if o.kind.resource == clusterapi.CloudSigmaClusters {
		resource, kind = kdcClusters, "KdcCluster"
	}
	found, err := g.users.Object(ctx, resource, o.Namespace, o.Name)
	if err != nil || found == nil {
		return "", "", kind, err
	}
	if resource == kdcClusters {
		at, email = annotatedOwner(found.GetAnnotations())
		return at, email, kind, nil
	}
	ref, err := clusterapi.ReadUserRef(found)
	return userEmailField, ref.Email, kind, err
}

// annotatedOwner returns the user that a KdcCluster names, and the field.
func annotatedOwner(annotations map[string]string) (at, email string) {
	for _, key := range ownerAnnotations {
		if email = annotations[key]; email != "" {
			return field.NewPath("metadata", "annotations").Key(key).String(), email
		}
	}
	return "", ""
}
