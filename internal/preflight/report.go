package preflight

import (
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/identity"
)

// Reason is the reason of a finding. The values are stable.
type Reason string

// Reasons.
const (
	// OwnerForeign: the recorded owner is out of scope in the workspace, or only its bare name is left.
	OwnerForeign Reason = "OwnerForeign"
	// OwnerUnusable: there is no owner that kcp could act as.
	OwnerUnusable Reason = "OwnerUnusable"
	// OwnerDiffers: the owner on the LogicalCluster is not the one on the Workspace.
	OwnerDiffers Reason = "OwnerDiffers"
	// PrivilegedOwner: a warrant of the owner has the permissions of an administrator, or cannot be read; or the owner has them for terminators.
	PrivilegedOwner Reason = "PrivilegedOwner"
	// OwnerDenied: the owner is in scope, but may not create API bindings in the workspace.
	OwnerDenied Reason = "OwnerDenied"
	// TypeMissing: the WorkspaceType, or one that it extends, does not exist.
	TypeMissing Reason = "TypeMissing"
	// TypeDiffers: the type on the LogicalCluster is not the one of the Workspace.
	TypeDiffers Reason = "TypeDiffers"
	// PathDiffers: the path on the LogicalCluster is not that of the workspace.
	PathDiffers Reason = "PathDiffers"
	// UsePermissionMissing: the owner may not create workspaces of this type. kcp checks this only when a workspace is created.
	UsePermissionMissing Reason = "UsePermissionMissing"
	// CreatePermissionMissing: the creator may not create Workspaces in the parent.
	CreatePermissionMissing Reason = "CreatePermissionMissing"
	// APIExportMissing: a default API binding refers to an APIExport that does not exist.
	APIExportMissing Reason = "APIExportMissing"
	// BindPermissionMissing: the owner may not bind the APIExport of a default API binding.
	BindPermissionMissing Reason = "BindPermissionMissing"
	// BindingIncomplete: a default API binding exists, but kcp has not completed it.
	BindingIncomplete Reason = "BindingIncomplete"
	// InitializerPending: an initializer has not finished.
	InitializerPending Reason = "InitializerPending"
	// EventsNeedGroups: the workspace requires groups, so warrantgate may not be able to write Events about it.
	EventsNeedGroups Reason = "EventsNeedGroups"
	// NotReady: the workspace is in another phase than Initializing or Ready, or about to be Ready.
	NotReady Reason = "NotReady"
	// Undetermined: an object could not be read, or a check failed.
	Undetermined Reason = "Undetermined"
)

// Finding is one problem, or one check that failed.
type Finding struct {
	// Reason is the kind of the finding.
	Reason Reason `json:"reason"`
	// Message describes the finding in a sentence.
	Message string `json:"message"`
	// Next is the remedy.
	Next string `json:"next,omitempty"`
	// Grant contains the missing RBAC objects, if there are any.
	Grant *Grant `json:"grant,omitempty"`
	// Advisory is true if the finding does not keep the workspace from becoming Ready.
	Advisory bool `json:"advisory,omitempty"`
}

// Grant contains missing RBAC objects.
type Grant struct {
	// Workspace is the workspace for the objects, a path or the name of a logical cluster.
	Workspace string `json:"workspace"`
	// Objects are the objects to create.
	Objects []client.Object `json:"objects"`
}

// Answer is one of yes, no and unknown.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Owner is the recorded owner as kcp sees it.
type Owner struct {
	// Description describes it for users, such as `service account default/bot of root:provider`.
	Description string `json:"description"`
	// Recorded is the identity that kcp uses.
	Recorded identity.Owner `json:"recorded"`
	// InScope reports whether it is valid in the workspace.
	InScope bool `json:"inScope"`
	// Places are the workspace and the homes of the owner, with all identities that the owner has there if kcp has global service accounts
	// (the default from v0.31 on).
	Places []Place `json:"places"`
}

// Place is a logical cluster, with the identities that an owner has there.
type Place struct {
	Cluster logicalcluster.Name `json:"cluster"`
	// Workspace is the path of the logical cluster; empty if it could not be read.
	Workspace string `json:"workspace,omitempty"`
	// Home is true for a home of the owner, and false for the checked workspace.
	Home bool `json:"home"`
	// As are user names without duplicates, with their groups. Extra fields are left out, because they are already evaluated.
	As []identity.Owner `json:"as"`
}

// Type is the workspace's type, or one that it extends.
type Type struct {
	Name string `json:"name"`
	// Use reports whether the owner may create workspaces of it.
	Use Answer `json:"use"`
}

// Initializer is an initializer of a workspace.
type Initializer struct {
	Name string `json:"name"`
	// Waiting reports whether it has not finished.
	Waiting bool `json:"waiting"`
	// Of describes the component that runs it.
	Of string `json:"of"`
}

// Binding is a default API binding of the workspace's types.
type Binding struct {
	// Export is the APIExport: path and name.
	Export string `json:"export"`
	// Type is the WorkspaceType with the default API binding.
	Type string `json:"type"`
	// Answer reports whether it is bound or can be.
	Answer Answer `json:"answer"`
	// Why is the reason for the answer.
	Why string `json:"why"`
}

// Report is the result of the checks of a workspace.
type Report struct {
	Workspace    Workspace     `json:"workspace"`
	Owner        *Owner        `json:"owner,omitempty"`
	Types        []Type        `json:"types"`
	Initializers []Initializer `json:"initializers"`
	Bindings     []Binding     `json:"bindings"`
	Findings     []Finding     `json:"findings"`
}

// Verdict returns the summary of findings: Yes if nothing is wrong, No if something is, Unknown if that could not be determined.
func Verdict(findings []Finding) Answer {
	verdict := Yes
	for _, finding := range findings {
		switch {
		case finding.Advisory:
		case finding.Reason != Undetermined:
			return No
		default:
			verdict = Unknown
		}
	}
	return verdict
}

// NothingMissing reports whether kcp would create the default API bindings now if it tried again: they do not all exist, and nothing that
// kcp needs is missing or unknown.
func (r Report) NothingMissing() bool {
	if !slices.ContainsFunc(r.Initializers, func(i Initializer) bool {
		return i.Waiting && i.Name == string(tenancyv1alpha1.WorkspaceAPIBindingsInitializer)
	}) {
		return false
	}
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return !f.Advisory && f.Reason != InitializerPending })
}

// has reports whether there is a finding that keeps the workspace from becoming Ready, of one of the reasons, if any are given.
func (r *Report) has(reasons ...Reason) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return !f.Advisory && (len(reasons) == 0 || slices.Contains(reasons, f.Reason))
	})
}
