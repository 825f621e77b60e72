// Package identity decides which owner kcp impersonates for a workspace, and which permissions an identity may delegate.
//
// kcp records the creator of a Workspace as its owner, and impersonates the owner to initialize the workspace. An owner that is out of
// scope in the new logical cluster has no permissions there: a service account of another workspace, or a user whose scopes are other
// logical clusters. The workspace then never becomes Ready (kcp-dev/kcp#4038). Rewrite returns an owner that is valid in the new logical
// cluster: a service account has its global name and its original identity as a warrant, and a user has the new logical cluster in its
// scopes. In all other logical clusters the owner has at most the permissions of the creator, and the group of its new logical cluster.
//
// The package has no dependency on admission requests or controllers. It uses no clock, no network and no state.
package identity
