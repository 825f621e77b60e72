// Package owner corrects the recorded owner of logical clusters if that owner is foreign: kcp cannot act as it, and the workspace is stuck
// in Initializing, or it is Ready and owned by a name that another service account can get.
//
// It has two controllers. The repair watches Workspaces that are Initializing. The initializer watches LogicalClusters that wait for the
// initializer of the WorkspaceType warranted. Both run the same steps on a LogicalCluster:
//
//  1. Rewrite the owner, as package identity says.
//  2. Wait until kcp has adopted it: the ClusterRoleBinding workspace-admin names the new owner.
//  3. Retrigger system:apibindings, which acts as the owner.
//
// Each step reads what it needs and returns at once; waiting is a requeue. The progress is recorded in an annotation of the LogicalCluster,
// so another replica continues after a crash.
//
// The command repair runs the steps once on all workspaces that are stuck.
//
// The files depend on each other in one direction: command.go → controller.go (wiring) → reconciler.go, source.go, report.go → steps.go →
// logicalcluster.go.
package owner
