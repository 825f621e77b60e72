package kcp

import (
	"encoding/json"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
)

// Annotations on Workspaces and LogicalClusters.
const (
	// OwnerAnnotation holds the owner that kcp acts as, JSON of authentication/v1 UserInfo. From v0.32 on
	// LogicalCluster.spec.createdBy says the same and counts.
	OwnerAnnotation = tenancyv1alpha1.ExperimentalWorkspaceOwnerAnnotationKey
	// ClusterAnnotation names a Workspace's logical cluster. kcp's scheduler sets it before it makes the cluster.
	ClusterAnnotation = "internal.tenancy.kcp.io/cluster"
	// RequiredGroupsAnnotation holds the groups that one needs for access to the workspace. kcp copies it from the
	// parent when a Workspace is created.
	RequiredGroupsAnnotation = "authorization.kcp.io/required-groups"
	// CreatedByAnnotation is warrantgate's own, and names for good who created a workspace whose owner was rewritten.
	CreatedByAnnotation = "warrantgate.dev/created-by"
	// RewrittenByAnnotation says RewrittenByPolicy on a Workspace whose owner was rewritten by the admission policy. Webhook and
	// controllers do not set it.
	RewrittenByAnnotation = "warrantgate.dev/rewritten-by"
	// CanaryAnnotation is on no Workspace that is stored. Only the webhook refuses it, so that a refusal shows that the webhook
	// answers. With the value PolicyCanary the policy that rewrites owners removes it before the webhook is asked.
	CanaryAnnotation = "warrantgate.dev/canary"
)

// Values of annotations.
const (
	RewrittenByPolicy = "policy"
	PolicyCanary      = "rewrite-policy"
)

// RecordedOwner is the owner that kcp goes by, JSON of authentication/v1 UserInfo: from v0.32 on spec.createdBy, before that
// the annotation.
func RecordedOwner(lc *corev1alpha1.LogicalCluster) string {
	if lc.Spec.CreatedBy != nil {
		if raw, err := json.Marshal(lc.Spec.CreatedBy); err == nil {
			return string(raw)
		}
	}
	return lc.Annotations[OwnerAnnotation]
}
