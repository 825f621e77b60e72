package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/message"
)

// resolveTypes finds the workspace's type and all types that it extends, as kcp does.
func (c *check) resolveTypes(ctx context.Context) {
	if c.ws.clusterType != "" && c.ws.Type != "" && c.ws.clusterType != c.ws.Type {
		c.add(Finding{
			Reason: TypeDiffers, Advisory: c.ready(),
			Message: fmt.Sprintf("the annotation %s of the LogicalCluster is %q, but the type of the Workspace is %q: kcp creates the default API bindings "+
				"of the former", tenancyv1alpha1.LogicalClusterTypeAnnotationKey, message.Value(c.ws.clusterType), c.ws.Type),
			Next: "set the annotation to the type of the Workspace, or delete the workspace",
		})
	}
	path, name := logicalcluster.NewPath(c.ws.Type).Split()
	if path.Empty() {
		return // root and the logical clusters that kcp creates for itself have no type
	}
	reference := tenancyv1alpha1.WorkspaceTypeReference{Path: path.String(), Name: tenancyv1alpha1.WorkspaceTypeName(name)}
	c.resolveType(ctx, path, reference, fmt.Sprintf("the type %s", reference))
}

// resolveType finds a type and the types that it extends, each once, and checks whether the owner may use them. Messages name the type as in whose.
// For a cycle of types, kcp denies the creation of workspaces.
func (c *check) resolveType(ctx context.Context, from logicalcluster.Path, reference tenancyv1alpha1.WorkspaceTypeReference, whose string) {
	t, err := c.findType(ctx, from, reference)
	known := t != nil && slices.ContainsFunc(c.types, func(known *tenancyv1alpha1.WorkspaceType) bool { return typeName(known) == typeName(t) })
	if t != nil && !known {
		t, err = c.trimmed(t)
	}
	switch {
	case err != nil:
		c.undetermined(c.ready(), fmt.Sprintf("the requirements of %s could not be determined", whose),
			missingRight(err, "get", "workspacetypes.tenancy.kcp.io", cmp.Or(logicalcluster.NewPath(reference.Path), from)))
	case t == nil:
		c.add(Finding{
			Reason: TypeMissing, Advisory: c.ready(), Message: whose + " does not exist",
			Next: c.typeMissing(),
		})
	case !known:
		c.types = append(c.types, t)
		c.use(ctx, t)
		hidden := c.hides(len(c.types) - 1)
		for _, extended := range t.Spec.Extend.With {
			if c.exhausted() {
				return
			}
			whose := fmt.Sprintf("the type %s, which %s extends,", extended, typeName(t))
			if hidden {
				whose = "a type that the type " + c.ws.Type + " extends"
			}
			c.resolveType(ctx, typePath(t), extended, whose)
		}
	}
}

// maxReferenceBytes limits what is held of all types: their references to types and to APIExports, with referenceBytes for each. A tenant can write
// more than a MiB of anything into each type, and many types.
const maxReferenceBytes, referenceBytes = 256 << 10, 64

// trimmed returns a type with what the check uses, so that the rest is not held.
func (c *check) trimmed(t *tenancyv1alpha1.WorkspaceType) (*tenancyv1alpha1.WorkspaceType, error) {
	size := 0
	for _, extended := range t.Spec.Extend.With {
		size += referenceBytes + len(extended.Path) + len(extended.Name)
	}
	for _, export := range t.Spec.DefaultAPIBindings {
		size += referenceBytes + len(export.Path) + len(export.Export)
	}
	if c.held+size > maxReferenceBytes {
		return nil, fmt.Errorf("the WorkspaceTypes refer to more than %d KiB of types and APIExports", maxReferenceBytes>>10)
	}
	c.held += size
	trimmed := &tenancyv1alpha1.WorkspaceType{Spec: tenancyv1alpha1.WorkspaceTypeSpec{Extend: t.Spec.Extend, DefaultAPIBindings: t.Spec.DefaultAPIBindings}}
	trimmed.Name = t.Name
	for _, key := range []string{logicalcluster.AnnotationKey, core.LogicalClusterPathAnnotationKey} {
		metav1.SetMetaDataAnnotation(&trimmed.ObjectMeta, key, t.Annotations[key])
	}
	trimmed.Spec.InitializerPermissions = make([]rbacv1.PolicyRule, min(len(t.Spec.InitializerPermissions), 1))
	trimmed.Spec.TerminatorPermissions = make([]rbacv1.PolicyRule, min(len(t.Spec.TerminatorPermissions), 1))
	return trimmed, nil
}

func (c *check) typeMissing() string {
	if c.ws.NotCreated {
		return "create it, or name another type"
	}
	return "create it again, or delete the workspace"
}

// findType finds a type by its path. Without a path, it searches the workspaces from there upwards, and then root. It returns nil if there
// is no such type.
func (c *check) findType(
	ctx context.Context, from logicalcluster.Path, reference tenancyv1alpha1.WorkspaceTypeReference,
) (*tenancyv1alpha1.WorkspaceType, error) {
	at := cmp.Or(logicalcluster.NewPath(reference.Path), from)
	for {
		t := &tenancyv1alpha1.WorkspaceType{}
		found, err := c.get(ctx, at, string(reference.Name), t)
		if apierrors.IsForbidden(err) && c.Types != nil {
			found, err = c.listType(ctx, at, string(reference.Name), t, err)
		}
		if err != nil {
			return nil, err
		}
		if found { // the administrator of its workspace can give it another path
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, core.LogicalClusterPathAnnotationKey, at.String())
			return t, nil
		}
		parent, hasParent := at.Parent()
		switch {
		case reference.Path != "" || !hasParent && at == core.RootCluster.Path():
			return nil, nil //nolint:nilnil // there is none, and that is certain
		case !hasParent:
			parent = core.RootCluster.Path()
		}
		at = parent
	}
}

// listType finds a type that may not be read in its workspace. If it cannot be listed either, it returns denial, the error of the read.
func (c *check) listType(
	ctx context.Context, at logicalcluster.Path, name string, into *tenancyv1alpha1.WorkspaceType, denial error,
) (found bool, err error) {
	in := &corev1alpha1.LogicalCluster{}
	if found, err := c.get(ctx, at, corev1alpha1.LogicalClusterName, in); err != nil || !found {
		return false, denial
	}
	types, err := c.Types(ctx, logicalcluster.From(in), name)
	if err != nil {
		return false, denial
	}
	for i := range types {
		types[i].DeepCopyInto(into)
		found = true
	}
	return found, nil
}

// use checks whether the owner may create workspaces of a type.
func (c *check) use(ctx context.Context, t *tenancyv1alpha1.WorkspaceType) {
	answer := Type{Name: typeName(t), Use: Unknown}
	defer func() { c.report.Types = append(c.report.Types, answer) }()
	if c.actor == nil {
		return
	}
	allowed, unknown := c.allowed(ctx, logicalcluster.From(t).Path(), typePath(t), authorizationv1.ResourceAttributes{
		Group: tenancyv1alpha1.SchemeGroupVersion.Group, Version: tenancyv1alpha1.SchemeGroupVersion.Version,
		Resource: "workspacetypes", Name: t.Name, Verb: "use",
	}, true)
	switch {
	case unknown != "":
		c.undetermined(true, fmt.Sprintf("whether %s may use the type %s could not be determined", c.description, typeName(t)), unknown)
	case allowed:
		answer.Use = Yes
	case c.ws.NotCreated:
		answer.Use = No
		c.add(c.useMissing(t))
	default:
		answer.Use = No
		c.add(Finding{
			Reason: UsePermissionMissing, Advisory: true,
			Message: fmt.Sprintf("%s lacks \"use\" on the type %s; kcp checks it when a workspace is created, and not afterwards",
				c.description, typeName(t)),
		})
	}
}

// typeName returns the path and name of a type.
func typeName(t *tenancyv1alpha1.WorkspaceType) string { return typePath(t).Join(t.Name).String() }

func typePath(t *tenancyv1alpha1.WorkspaceType) logicalcluster.Path {
	if path := kcp.PathIn(t, core.LogicalClusterPathAnnotationKey); path != "" {
		return logicalcluster.NewPath(path)
	}
	return logicalcluster.From(t).Path()
}
