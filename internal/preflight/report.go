package preflight

import (
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/identity"
)

// Reason is a stable word for what was found.
type Reason string

// What can be found.
const (
	// OwnerForeign: the recorded owner is out of scope in the workspace, or only its bare name is left.
	OwnerForeign Reason = "OwnerForeign"
	// OwnerUnusable: there is no owner that kcp could act as.
	OwnerUnusable Reason = "OwnerUnusable"
	// OwnerDiffers: the owner on the LogicalCluster is not the one on the Workspace.
	OwnerDiffers Reason = "OwnerDiffers"
	// OwnerRefused: the owner is in scope, and still may not set the workspace up.
	OwnerRefused Reason = "OwnerRefused"
	// TypeMissing: the WorkspaceType, or one that it extends, does not exist.
	TypeMissing Reason = "TypeMissing"
	// UsePermissionMissing: the owner may not create workspaces of this type. kcp asks that only once, at the creation.
	UsePermissionMissing Reason = "UsePermissionMissing"
	// CreatePermissionMissing: the creator may not create Workspaces in the parent.
	CreatePermissionMissing Reason = "CreatePermissionMissing"
	// APIExportMissing: a default API binding leads to an APIExport that does not exist.
	APIExportMissing Reason = "APIExportMissing"
	// BindPermissionMissing: the owner may not bind the APIExport of a default API binding.
	BindPermissionMissing Reason = "BindPermissionMissing"
	// BindingIncomplete: a default API binding has been made, but kcp has not completed it.
	BindingIncomplete Reason = "BindingIncomplete"
	// InitializerPending: an initializer has yet to do its work.
	InitializerPending Reason = "InitializerPending"
	// EventsNeedGroups: the workspace requires groups, so warrantgate may not be able to write Events about it.
	EventsNeedGroups Reason = "EventsNeedGroups"
	// NotReady: the workspace is in another phase than Initializing or Ready, or about to be Ready.
	NotReady Reason = "NotReady"
	// CouldNotTell: something could not be read or asked.
	CouldNotTell Reason = "CouldNotTell"
)

// Finding is one thing that is wrong, or that could not be found out.
type Finding struct {
	// Reason is what was found.
	Reason Reason `json:"reason"`
	// Message says it in a sentence.
	Message string `json:"message"`
	// Next is what to do about it.
	Next string `json:"next,omitempty"`
	// Grant would mend it.
	Grant *Grant `json:"grant,omitempty"`
	// Advisory marks what does not keep the workspace from becoming Ready.
	Advisory bool `json:"advisory,omitempty"`
}

// Grant is RBAC that is missing.
type Grant struct {
	// Workspace is where the objects belong, a path or the name of a logical cluster.
	Workspace string `json:"workspace"`
	// Objects are to be created there.
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
	// Description names it for people, such as `service account default/bot of root:provider`.
	Description string `json:"description"`
	// Recorded is the identity that kcp goes by.
	Recorded identity.Owner `json:"recorded"`
	// InScope reports whether it is valid in the workspace.
	InScope bool `json:"inScope"`
	// Places are the workspace and where the owner is at home, with everybody as whom it counts there, if kcp has global
	// service accounts, as it has by default from v0.31.
	Places []Place `json:"places"`
}

// Place is a logical cluster, and as whom an owner counts there.
type Place struct {
	Cluster logicalcluster.Name `json:"cluster"`
	// Workspace is the path of the logical cluster; empty where it could not be read.
	Workspace string `json:"workspace,omitempty"`
	// Home tells the owner's home from the workspace that is asked about.
	Home bool `json:"home"`
	// As are names, each once, and groups. Extra fields are left out: they have been counted in.
	As []identity.Owner `json:"as"`
}

// Type is the workspace's type, or one that it extends.
type Type struct {
	Name string `json:"name"`
	// Use reports whether the owner may create workspaces of it.
	Use Answer `json:"use"`
}

// Initializer is one of those that a workspace has to pass.
type Initializer struct {
	Name string `json:"name"`
	// Waiting reports whether its work is still to be done.
	Waiting bool `json:"waiting"`
	// Of says whose it is.
	Of string `json:"of"`
}

// Binding is a default API binding of the workspace's types.
type Binding struct {
	// Export is the APIExport: path and name.
	Export string `json:"export"`
	// Type asks for it.
	Type string `json:"type"`
	// Answer reports whether it is bound or can be.
	Answer Answer `json:"answer"`
	// Why says more.
	Why string `json:"why"`
}

// Report is all that was found out about a workspace.
type Report struct {
	Workspace    Workspace     `json:"workspace"`
	Owner        *Owner        `json:"owner,omitempty"`
	Types        []Type        `json:"types"`
	Initializers []Initializer `json:"initializers"`
	Bindings     []Binding     `json:"bindings"`
	Findings     []Finding     `json:"findings"`
}

// Verdict sums a report up: Yes if nothing is wrong, No if something is, Unknown if that could not be determined.
func (r Report) Verdict() Answer {
	verdict := Yes
	for _, finding := range r.Findings {
		switch {
		case finding.Advisory:
		case finding.Reason != CouldNotTell:
			return No
		default:
			verdict = Unknown
		}
	}
	return verdict
}

// NothingMissing reports whether kcp would make the default API bindings now if it tried again: it has not made them all, and nothing that
// it needs is missing or unknown.
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
