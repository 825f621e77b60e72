package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"warrantgate.dev/internal/identity"
)

// Creation is a Workspace that a user wants to create.
type Creation struct {
	// Path is the path of the Workspace, which need not exist.
	Path logicalcluster.Path
	// Type is its WorkspaceType, as PATH:NAME, or as NAME if kcp searches it from the parent upwards. Default: the type that kcp uses for a
	// Workspace of the parent.
	Type string
	// Creator is the name of a user. "system:serviceaccount:NAMESPACE:NAME" is a service account of the parent, and
	// "system:kcp:serviceaccount:CLUSTER:NAMESPACE:NAME" one of another logical cluster.
	Creator string
	// Groups are the groups of the user, without those that kcp adds.
	Groups []string
}

// CheckCreation reports which permissions a user lacks to create a Workspace that becomes Ready. kcp stores nothing about a creation that
// it denies, so the report depends on the given creation only.
func (c Checker) CheckCreation(ctx context.Context, creation Creation) (Report, error) {
	parent, _ := creation.Path.Split()
	if parent.Empty() {
		return Report{}, fmt.Errorf("%q is not the path of a workspace in another one, such as root:orgs:team-a", creation.Path)
	}
	in := &corev1alpha1.LogicalCluster{}
	found, err := c.get(ctx, parent, corev1alpha1.LogicalClusterName, in)
	switch {
	case err != nil:
		return Report{}, errors.New(missingRight(err, "get", "logicalclusters.core.kcp.io", parent))
	case !found:
		return Report{}, fmt.Errorf("there is no workspace %s", parent)
	}
	creator, err := creatorOf(creation, logicalcluster.From(in))
	if err != nil {
		return Report{}, err
	}
	run := &check{
		Checker: c, actor: &creator, ws: Workspace{Path: creation.Path.String(), NotCreated: true, CreatedBy: creation.Creator},
	}
	run.report = Report{Types: []Type{}, Initializers: []Initializer{}, Bindings: []Binding{}, Findings: []Finding{}}
	run.describe(ctx, creator)
	run.create(ctx, parent, logicalcluster.From(in))
	if err := run.typeOfCreation(ctx, parent, in, creation.Type); err != nil {
		return Report{}, err
	}
	run.resolveTypes(ctx)
	run.bindings(ctx)
	run.report.Workspace = run.ws
	return run.report, nil
}

// creatorOf returns the identity of the creator in the parent.
func creatorOf(creation Creation, parent logicalcluster.Name) (identity.Owner, error) {
	creator := identity.Owner{Username: creation.Creator, Groups: append([]string{user.AllAuthenticated}, creation.Groups...)}
	home, namespace, name, isServiceAccount := creator.ServiceAccount()
	switch {
	case isServiceAccount:
		return identity.ServiceAccountAt(cmp.Or(home, parent), namespace, name), nil
	case creator.IsServiceAccount():
		return identity.Owner{}, fmt.Errorf("%q is not the name of a service account, such as system:serviceaccount:default:bot", creation.Creator)
	default:
		return creator, nil
	}
}

// typeOfCreation finds the type that kcp would use.
func (c *check) typeOfCreation(ctx context.Context, parent logicalcluster.Path, in *corev1alpha1.LogicalCluster, named string) error {
	reference := tenancyv1alpha1.WorkspaceTypeReference{}
	if named != "" {
		path, name := logicalcluster.NewPath(named).Split()
		reference.Path, reference.Name = path.String(), tenancyv1alpha1.WorkspaceTypeName(name)
	} else {
		ofParent := in.Annotations[tenancyv1alpha1.LogicalClusterTypeAnnotationKey]
		path, name := logicalcluster.NewPath(ofParent).Split()
		t, err := c.findType(ctx, path, tenancyv1alpha1.WorkspaceTypeReference{Path: path.String(), Name: tenancyv1alpha1.WorkspaceTypeName(name)})
		switch {
		case err != nil:
			return fmt.Errorf("which type kcp takes without --type could not be determined: %s", missingRight(err, "get", "workspacetypes.tenancy.kcp.io", path))
		case t == nil || t.Spec.DefaultChildWorkspaceType == nil:
			return fmt.Errorf("the type of %s, %s, has no default for the type of its children: name one with --type", parent, ofParent)
		}
		reference = *t.Spec.DefaultChildWorkspaceType
	}
	if reference.Path == "" {
		t, err := c.findType(ctx, parent, reference)
		switch {
		case err != nil:
			return fmt.Errorf("where the type %s is could not be determined: %s", reference.Name, missingRight(err, "get", "workspacetypes.tenancy.kcp.io", parent))
		case t == nil:
			return fmt.Errorf("there is no type %s in %s or above", reference.Name, parent)
		}
		reference.Path = typePath(t).String()
	}
	c.ws.Type = logicalcluster.NewPath(reference.Path).Join(string(reference.Name)).String()
	return nil
}

// create checks whether the creator may create Workspaces in the parent.
func (c *check) create(ctx context.Context, parent logicalcluster.Path, cluster logicalcluster.Name) {
	allowed, unknown := c.allowed(ctx, cluster.Path(), parent, authorizationv1.ResourceAttributes{
		Group: tenancyv1alpha1.SchemeGroupVersion.Group, Version: tenancyv1alpha1.SchemeGroupVersion.Version,
		Resource: "workspaces", Verb: "create",
	}, false)
	switch {
	case unknown != "":
		c.undetermined(false, fmt.Sprintf("whether %s may create Workspaces in %s could not be determined", c.description, parent), unknown)
	case !allowed:
		c.add(c.createMissing(parent, cluster))
	}
}

func (c *check) createMissing(parent logicalcluster.Path, cluster logicalcluster.Name) Finding {
	finding := Finding{
		Reason:  CreatePermissionMissing,
		Message: fmt.Sprintf("%s may not create Workspaces in %s", c.description, parent),
	}
	if c.actor.IsServiceAccount() && !c.actor.InScope(cluster) {
		finding.Next = "let a service account of " + parent.String() + " create it: kcp does not permit a service account to create Workspaces outside its home"
		return finding
	}
	if subject, ok := subjectIn(*c.actor, cluster, true); ok {
		finding.Next = createAgain(parent.String())
		finding.Grant = &Grant{Workspace: parent.String(), Objects: grant("warrantgate:create-workspaces", subject,
			rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}},
			rbacv1.PolicyRule{
				APIGroups: []string{tenancyv1alpha1.SchemeGroupVersion.Group}, Resources: []string{"workspaces"}, Verbs: []string{"create", "get"},
			})}
	}
	return finding
}

// useMissing returns the finding for a creator that may not use a type, with the missing RBAC objects. kcp checks this permission in the
// workspace of the type, not in the parent.
func (c *check) useMissing(t *tenancyv1alpha1.WorkspaceType) Finding {
	finding := Finding{
		Reason:  UsePermissionMissing,
		Message: fmt.Sprintf("%s lacks \"use\" on the type %s", c.description, typeName(t)),
	}
	if subject, ok := subjectIn(*c.actor, logicalcluster.From(t), true); ok {
		path := typePath(t).String()
		finding.Next = createAgain(path)
		finding.Grant = &Grant{Workspace: path, Objects: grant("warrantgate:use:"+t.Name, subject, rbacv1.PolicyRule{
			APIGroups: []string{tenancyv1alpha1.SchemeGroupVersion.Group}, Resources: []string{"workspacetypes"},
			ResourceNames: []string{t.Name}, Verbs: []string{"use"},
		})}
		if subject.Kind == rbacv1.UserKind && c.actor.IsServiceAccount() {
			finding.Next += "; kcp v0.30 knows it by that name only with --feature-gates=GlobalServiceAccount=true"
		}
	}
	return finding
}

// createAgain returns the remedy for missing permissions of a creator.
func createAgain(workspace string) string {
	return "apply the objects below in " + workspace + ", and create the workspace again"
}
