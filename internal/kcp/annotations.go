package kcp

import (
	"encoding/json"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations on Workspaces and LogicalClusters.
const (
	// OwnerAnnotation holds the owner that kcp acts as, as JSON of authentication/v1 UserInfo. From kcp v0.32 on,
	// LogicalCluster.spec.createdBy holds it too and takes precedence.
	OwnerAnnotation = tenancyv1alpha1.ExperimentalWorkspaceOwnerAnnotationKey
	// ClusterAnnotation holds the name of a Workspace's logical cluster. kcp's scheduler sets it before it creates the
	// LogicalCluster.
	ClusterAnnotation = "internal.tenancy.kcp.io/cluster"
	// ShardAnnotation and ShardHashAnnotation hold the shard of a Workspace's logical cluster. kcp's scheduler keeps a shard that is set
	// already, and a Workspace of a shard that does not exist is never scheduled. kcp before v0.32 knows only the hash.
	ShardAnnotation     = corev1alpha1.LogicalClusterShardAnnotationKey
	ShardHashAnnotation = "internal.tenancy.kcp.io/shard"
	// RequiredGroupsAnnotation holds the groups that a user needs for access to the workspace. kcp copies it from the parent when a
	// Workspace is created.
	RequiredGroupsAnnotation = "authorization.kcp.io/required-groups"
	// CreatedByAnnotation holds the creator of a workspace whose owner warrantgate rewrote. It never changes.
	CreatedByAnnotation = "warrantgate.dev/created-by"
	// RewrittenByAnnotation is RewrittenByPolicy on a Workspace whose owner the admission policy changed. The webhook and the
	// controllers do not set it.
	RewrittenByAnnotation = "warrantgate.dev/rewritten-by"
	// RepairedAtAnnotation is set on a Workspace that kcp has yet to find Ready. It is outside of warrantgate.dev, because only kcp
	// may write those annotations.
	RepairedAtAnnotation = "repaired.warrantgate.dev/at"
	// CanaryAnnotation is never stored. The policy that protects recorded owners denies a Workspace with it. If the value is PolicyCanary or
	// WebhookCanary, the policy or the webhook that rewrites owners removes the annotation before.
	CanaryAnnotation = "warrantgate.dev/canary"
)

// Values of annotations.
const (
	RewrittenByPolicy = "policy"
	PolicyCanary      = "rewrite-policy"
	WebhookCanary     = "rewrite-webhook"
)

// PathIn returns the path in an annotation of an object. It is empty if the annotation is missing or has another text. The administrator of a
// workspace can write any text into the annotations of its LogicalCluster, and messages contain commands with paths.
func PathIn(object metav1.Object, annotation string) string {
	path := object.GetAnnotations()[annotation]
	if validatePath(logicalcluster.NewPath(path)) != nil {
		return ""
	}
	return path
}

// RecordedOwner returns the owner that kcp uses, as JSON of authentication/v1 UserInfo: spec.createdBy from kcp v0.32 on, and the
// annotation before.
func RecordedOwner(lc *corev1alpha1.LogicalCluster) string {
	if lc.Spec.CreatedBy != nil {
		if raw, err := json.Marshal(lc.Spec.CreatedBy); err == nil {
			return string(raw)
		}
	}
	return lc.Annotations[OwnerAnnotation]
}
