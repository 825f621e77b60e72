// Package identity decides as whom kcp may act for a workspace.
//
// kcp records who created a Workspace and later impersonates that owner to set the workspace up. An owner that is
// out of scope in the new logical cluster (a service account of another workspace, a person whose identity is
// scoped elsewhere) is refused there, and the workspace never becomes Ready (kcp-dev/kcp#4038). Rewrite turns such
// an owner into a warrant-backed identity: it is valid in the new logical cluster, carries the creator as it was as
// a warrant, and is worth nothing more than the creator in any other logical cluster.
//
// The package knows neither admission requests nor controllers. It is pure: no clock, no network, no state.
package identity
