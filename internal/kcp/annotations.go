package kcp

import tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"

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
)
