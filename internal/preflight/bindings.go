package preflight

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/message"
)

// bindings checks each default API binding of all types, each APIExport once.
func (c *check) bindings(ctx context.Context) {
	made, err := c.made(ctx)
	if err != nil {
		c.undetermined(true, fmt.Sprintf("which API bindings there are in %s could not be determined", c.ws.Path),
			missingRight(err, "list", "apibindings.apis.kcp.io", c.ws.Cluster.Path()))
	}
	seen := map[tenancyv1alpha1.APIExportReference]bool{}
	for _, hidden := range []bool{false, true} {
		for i, t := range c.types {
			if hidden != c.hides(i) {
				continue
			}
			findings, bindings := len(c.report.Findings), len(c.report.Bindings)
			c.bindingsOf(ctx, t, seen, made, err == nil)
			if hidden {
				c.hide(findings, bindings)
			}
		}
	}
}

// bindingsOf checks the default API bindings of a type, without those in seen. read is false if made could not be read.
func (c *check) bindingsOf(
	ctx context.Context, t *tenancyv1alpha1.WorkspaceType, seen map[tenancyv1alpha1.APIExportReference]bool,
	made map[tenancyv1alpha1.APIExportReference]*madeBinding, read bool,
) {
	for _, export := range t.Spec.DefaultAPIBindings {
		bound := exportOf(t, export)
		if c.exhausted() {
			return
		}
		if seen[bound] {
			continue
		}
		seen[bound] = true
		export.Path = cmp.Or(export.Path, typePath(t).String()) // users do not know the name of the type's logical cluster
		binding := Binding{
			Export: logicalcluster.NewPath(export.Path).Join(export.Export).String(), Type: typeName(t), Answer: Unknown,
		}
		switch existing := made[bound]; {
		case existing != nil:
			c.existing(existing, &binding)
		case c.ready() && !read:
			binding.Why = "the API bindings could not be read"
		case c.ready():
			binding.Answer, binding.Why = No, "it is no longer bound"
		default:
			c.missing(ctx, export, &binding)
		}
		c.report.Bindings = append(c.report.Bindings, binding)
	}
}

// exportOf returns a default API binding of a type as kcp binds it. Without a path, kcp uses the name of the type's logical cluster.
func exportOf(t *tenancyv1alpha1.WorkspaceType, export tenancyv1alpha1.APIExportReference) tenancyv1alpha1.APIExportReference {
	export.Path = cmp.Or(export.Path, logicalcluster.From(t).String())
	return export
}

// hides reports whether the report must not say what a type, by its index, contains.
func (c *check) hides(i int) bool { return c.HideUnusableTypes && c.report.Types[i].Use != Yes }

// hide replaces the report about the API bindings of a type, which begins at these numbers of findings and bindings, by one finding without
// their names, if one of them keeps the workspace from becoming Ready. It has the reason of one that somebody has to correct, if there is one. It
// does not name the type either, because another hidden one may extend it.
func (c *check) hide(findings, bindings int) {
	var reason Reason
	for _, finding := range c.report.Findings[findings:] {
		switch {
		case finding.Advisory:
		case finding.Reason != Undetermined && finding.Reason != BindingIncomplete:
			reason = finding.Reason
		default:
			reason = cmp.Or(reason, finding.Reason)
		}
	}
	c.report.Findings, c.report.Bindings = c.report.Findings[:findings], c.report.Bindings[:bindings]
	if reason != "" {
		c.add(Finding{
			Reason: reason,
			Message: fmt.Sprintf("a default API binding of the type %s, or of one that it extends, is missing or incomplete, or could not be determined; "+
				"it is not named, because %s does not certainly have \"use\" on the type that has it", c.ws.Type, c.description),
			Next: fmt.Sprintf("an administrator can find it with `warrantgate explain workspace %s`", c.ws.Path),
		})
	}
}

// bindingsPage and maxWhyBytes limit what is held of the API bindings: a tenant can create many of more than a MiB in its workspace.
const (
	bindingsPage = 5
	maxWhyBytes  = 1024
)

// madeBinding is an existing API binding.
type madeBinding struct {
	name string
	// lacks is what kcp has not completed, "" if nothing that the workspace waits for.
	lacks string
	// why is the reason.
	why string
}

// made returns the default API bindings of all types by their APIExports, nil for those that do not exist. Each page counts as a request.
func (c *check) made(ctx context.Context) (map[tenancyv1alpha1.APIExportReference]*madeBinding, error) {
	if c.ws.NotCreated {
		return nil, nil //nolint:nilnil // a workspace that does not exist has none
	}
	made := map[tenancyv1alpha1.APIExportReference]*madeBinding{}
	for _, t := range c.types {
		for _, export := range t.Spec.DefaultAPIBindings {
			made[exportOf(t, export)] = nil
		}
	}
	for page := (client.ListOptions{Limit: bindingsPage}); ; {
		within, err := c.Client(c.ws.Cluster.Path())
		if err != nil {
			return nil, err
		}
		list := &apisv1alpha2.APIBindingList{}
		if err := within.List(ctx, list, &page); err != nil {
			return nil, err
		}
		for i := range list.Items {
			to := list.Items[i].Spec.Reference.Export
			if to == nil {
				continue
			}
			bound := tenancyv1alpha1.APIExportReference{Path: to.Path, Export: to.Name}
			if _, isDefault := made[bound]; isDefault {
				made[bound] = c.newMadeBinding(&list.Items[i])
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return made, nil
		}
	}
}

func (c *check) newMadeBinding(from *apisv1alpha2.APIBinding) *madeBinding {
	made := &madeBinding{name: from.Name, why: "no reason is given"}
	reasons := from.Status.Conditions
	switch {
	case from.Status.Phase != apisv1alpha2.APIBindingPhaseBound:
		made.lacks = "is not bound"
	case c.waitsForClaims() && !hasAppliedClaims(from):
		made.lacks = "is bound, but its permission claims are not applied"
		reasons = slices.DeleteFunc(reasons, func(condition conditionsv1alpha1.Condition) bool {
			return condition.Type != apisv1alpha2.PermissionClaimsApplied
		})
	}
	if messages := unmet(reasons); len(messages) > 0 {
		made.why = strings.Clone(message.Clip(messages[0], maxWhyBytes))
	}
	return made
}

// waitsForClaims reports whether kcp has created all default API bindings, and only waits until they are complete: from v0.31 on, until their
// permission claims are applied, too. While one is missing, claims do not count: those of another binding may be for its resources. v0.30 waits for the bindings only, so there the
// claims of one are reported while another one is not bound.
func (c *check) waitsForClaims() bool { return c.waitsForBindings() && c.ws.bindingsMade }

// hasAppliedClaims reports whether kcp has applied the permission claims that an API binding accepts.
func hasAppliedClaims(binding *apisv1alpha2.APIBinding) bool {
	return conditions.IsTrue(binding, apisv1alpha2.PermissionClaimsApplied) ||
		!slices.ContainsFunc(binding.Spec.PermissionClaims, func(claim apisv1alpha2.AcceptablePermissionClaim) bool {
			return claim.State == apisv1alpha2.ClaimAccepted
		})
}

// existing checks an API binding that exists.
func (c *check) existing(made *madeBinding, binding *Binding) {
	if made.lacks == "" {
		binding.Answer, binding.Why = Yes, "bound"
		return
	}
	binding.Answer, binding.Why = No, fmt.Sprintf("APIBinding %s %s: %s", made.name, made.lacks, made.why)
	c.add(Finding{
		Reason: BindingIncomplete, Message: fmt.Sprintf("APIBinding %s to %s %s: %s", made.name, binding.Export, made.lacks, made.why),
		Next: fmt.Sprintf("see `kubectl describe apibinding %s` in %s", made.name, c.ws.Cluster),
	})
}

// missing checks whether the owner may create an API binding. To an owner who may not, kcp does not disclose whether there is such an APIExport, or its
// workspace. A report for others does not either.
func (c *check) missing(ctx context.Context, reference tenancyv1alpha1.APIExportReference, binding *Binding) {
	at := logicalcluster.NewPath(reference.Path)
	export := &apisv1alpha2.APIExport{}
	found, err := c.get(ctx, at, reference.Export, export)
	absent := err == nil && !found
	switch {
	case err != nil:
		binding.Why = missingRight(err, "get", "apiexports.apis.kcp.io", at)
		c.undetermined(false, fmt.Sprintf("whether there is an APIExport %s could not be determined", binding.Export), binding.Why)
	case absent && !c.HideUnusableTypes:
		c.exportMissing(reference, binding)
		return
	}
	if c.actor == nil {
		binding.Why = cmp.Or(binding.Why, "there is no valid owner")
		return
	}
	cluster := logicalcluster.From(export) // empty if it could not be read
	allowed, unknown := c.allowed(ctx, cmp.Or(cluster.Path(), at), at, authorizationv1.ResourceAttributes{
		Group: apisv1alpha2.SchemeGroupVersion.Group, Version: apisv1alpha2.SchemeGroupVersion.Version,
		Resource: "apiexports", Name: reference.Export, Verb: "bind",
	}, true)
	switch {
	case unknown != "" && !absent:
		binding.Why = unknown
		c.undetermined(false, fmt.Sprintf("whether %s may bind the APIExport %s could not be determined", c.description, binding.Export), unknown)
	case !allowed:
		binding.Answer, binding.Why = No, "the owner lacks \"bind\""
		c.add(c.bindMissing(reference, cluster))
	case absent:
		c.exportMissing(reference, binding)
	case err == nil:
		binding.Answer, binding.Why = Yes, "the owner may bind it"
	}
}

// exportMissing reports an APIExport that does not exist.
func (c *check) exportMissing(reference tenancyv1alpha1.APIExportReference, binding *Binding) {
	binding.Answer, binding.Why = No, "there is no such APIExport"
	c.add(Finding{
		Reason:  APIExportMissing,
		Message: fmt.Sprintf("there is no APIExport %q in %s, which the type %s binds", reference.Export, reference.Path, binding.Type),
		Next:    fmt.Sprintf("create the APIExport, or remove it from spec.defaultAPIBindings of the type %s; kcp continues by itself", binding.Type),
	})
}

// bindMissing returns the finding for an owner that may not bind an APIExport, with the missing RBAC objects if RBAC can permit it.
func (c *check) bindMissing(reference tenancyv1alpha1.APIExportReference, cluster logicalcluster.Name) Finding {
	finding := Finding{
		Reason:  BindPermissionMissing,
		Message: fmt.Sprintf("%s lacks \"bind\" on the APIExport %q in %s", c.description, reference.Export, reference.Path),
	}
	if c.HideUnusableTypes {
		finding.Message += ", or there is none"
	}
	subject, ok := subjectIn(*c.actor, cluster, c.ws.NotCreated)
	home, _, _, isServiceAccount := c.actor.ServiceAccount()
	switch {
	case subject.Kind == rbacv1.GroupKind:
		finding.Message += fmt.Sprintf("; there kcp knows it only as a member of %q, as all users of that logical cluster", subject.Name)
	case isServiceAccount && len(c.actor.Extra[identity.ScopesKey]) > 0 && c.actor.InScope(home):
		finding.Message += fmt.Sprintf("; it was impersonated, so only permissions of %q count", c.actor.Username)
	}
	if !ok {
		finding.Next = fmt.Sprintf("create the workspace again as a user who may: in %s the owner has no user or group of its own, so no permission can be granted to it alone",
			reference.Path)
		return finding
	}
	// This needs no access to the workspace of the APIExport.
	finding.Grant = &Grant{Workspace: reference.Path, Objects: grant("warrantgate:bind:"+reference.Export, subject, rbacv1.PolicyRule{
		APIGroups: []string{apisv1alpha2.SchemeGroupVersion.Group}, Resources: []string{"apiexports"},
		ResourceNames: []string{reference.Export}, Verbs: []string{"bind"},
	})}
	if c.ws.NotCreated {
		finding.Next = createAgain(reference.Path)
		return finding
	}
	finding.Next = fmt.Sprintf("apply the objects below in %s; kcp up to v0.30 then tries again by itself, and so does the repair of `warrantgate serve` within about a minute; "+
		"without it, %s, or annotate the type: %s", reference.Path, c.runRepair(), touch("workspacetype", c.ws.Type))
	if c.report.has(OwnerForeign, PrivilegedOwner) {
		finding.Next = fmt.Sprintf("apply the objects below in %s, before the repair", reference.Path)
	}
	return finding
}

// subjectIn returns the RBAC subject of an owner in a logical cluster, or false if it has none. A user without a name there may be in the
// group of the logical clusters that it is scoped to. For an owner that kcp records, the subject is the same whether global service accounts
// are on or off.
func subjectIn(owner identity.Owner, cluster logicalcluster.Name, globalServiceAccounts bool) (rbacv1.Subject, bool) {
	for _, as := range identity.Effective(owner, cluster, globalServiceAccounts) {
		_, namespace, name, isServiceAccount := as.ServiceAccount()
		ofCluster := slices.IndexFunc(as.Groups, func(group string) bool { return strings.HasPrefix(group, "system:cluster:") })
		switch {
		case as.Username == user.Anonymous && ofCluster >= 0:
			return install.Group(as.Groups[ofCluster]), true
		case as.Username == "" || as.Username == user.Anonymous:
		case isServiceAccount && as.IsServiceAccount():
			return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}, true
		default:
			return install.User(as.Username), true
		}
	}
	return rbacv1.Subject{}, false
}

// grant returns a ClusterRole of that name, and a ClusterRoleBinding that binds the subject to it.
func grant(role string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) []client.Object {
	objects := install.Role(role, subject, rules...)
	digest := sha256.Sum256([]byte(subject.Kind + "\x00" + subject.Namespace + "\x00" + subject.Name))
	// Several subjects can have the role. A tenant chooses names of subjects: with a digest of four bytes, it finds one whose binding has the name of
	// another tenant's, and so replaces it when it is applied.
	objects[1].SetName(role + ":" + hex.EncodeToString(digest[:16]))
	return objects
}
