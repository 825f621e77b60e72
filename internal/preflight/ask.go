package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

// Checker checks workspaces with requests to kcp.
type Checker struct {
	// Client returns a client for a logical cluster, by name or path. The permissions of its user limit what can be checked.
	Client kcp.Clients
	// Types lists the WorkspaceTypes of a name in a logical cluster in which Client may not read them: outside its home, a service account
	// can read them only through a virtual workspace. It may be nil.
	Types func(ctx context.Context, cluster logicalcluster.Name, name string) ([]tenancyv1alpha1.WorkspaceType, error)
	// HideUnusableTypes is whether the report does not name the default API bindings of types for which it is not certain that the owner may use
	// them. It is for reports that others can read than the user of Client: the author of a type can make it extend any other one after a
	// workspace of it was created.
	HideUnusableTypes bool
	// RepairFlags are added to the command that repairs the workspace, in advice: those for kubeconfigs.
	RepairFlags string
	// MaxRequests limits the requests of one call of Check. Zero is no limit. A tenant can write a WorkspaceType with thousands of default API
	// bindings and with long paths.
	MaxRequests int
}

// limit limits the requests of the check to MaxRequests.
func (c *check) limit() {
	clients := c.Client
	c.Client = func(at logicalcluster.Path) (client.Client, error) {
		if c.requests++; c.exhausted() {
			return nil, fmt.Errorf("the WorkspaceTypes and API bindings need more than %d requests", c.MaxRequests)
		}
		return clients(at)
	}
}

// exhausted reports whether a request was not sent because there were too many. A finding says so.
func (c *check) exhausted() bool { return c.MaxRequests > 0 && c.requests > c.MaxRequests }

// get reads an object. found is false without an error only if it is certain that the object does not exist. It is an error if the object
// may be on another shard than the one that answered.
func (c Checker) get(ctx context.Context, at logicalcluster.Path, name string, into client.Object) (found bool, err error) {
	within, err := c.Client(at)
	if err != nil {
		return false, err
	}
	err = within.Get(ctx, client.ObjectKey{Name: name}, into)
	switch {
	case err == nil:
		return true, nil
	case !leadsNowhere(err):
		return false, err
	case isAboutObject(err), apierrors.IsNotFound(err) && c.exists(ctx, at), c.isMissing(ctx, at):
		return false, nil
	default:
		return false, err
	}
}

// exists reports whether a workspace exists. If it exists and does not serve a resource, it has no objects of the resource.
func (c Checker) exists(ctx context.Context, at logicalcluster.Path) bool {
	within, err := c.Client(at)
	return err == nil && within.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &corev1alpha1.LogicalCluster{}) == nil
}

// isMissing reports whether it is certain that a workspace does not exist, because its parent or a workspace above does not contain it.
func (c Checker) isMissing(ctx context.Context, at logicalcluster.Path) bool {
	parent, name := at.Split()
	if parent.Empty() {
		return false
	}
	within, err := c.Client(parent)
	if err != nil {
		return false
	}
	err = within.Get(ctx, client.ObjectKey{Name: name}, &tenancyv1alpha1.Workspace{})
	return isAboutObject(err) || leadsNowhere(err) && c.isMissing(ctx, parent)
}

// leadsNowhere reports whether kcp returns the error for a workspace that does not exist: 404, and up to v0.30 also 403.
func leadsNowhere(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// isAboutObject reports whether an error means that the object itself does not exist. For an unknown workspace, kcp returns a 404 without
// details. client-go then adds the requested name and the cause UnexpectedServerResponse.
func isAboutObject(err error) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name != "" && !slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// asInside is a warrant for which kcp skips the check of workspace access. It grants no permission on the resource. kcp skips this check
// itself when it checks whether an APIExport may be bound or a WorkspaceType may be used.
var asInside = identity.Warrant{Groups: []string{"system:kcp:logical-cluster-admin"}}.String()

// allowed checks with a SubjectAccessReview in a logical cluster, which messages call named, whether the actor may do something. If inside is true, the
// actor needs no access to the logical cluster. unknown is the reason why that could not be determined.
func (c *check) allowed(
	ctx context.Context, at, named logicalcluster.Path, attributes authorizationv1.ResourceAttributes, inside bool,
) (allowed bool, unknown string) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: c.actor.Username, UID: c.actor.UID, Groups: c.actor.Groups,
		Extra:              map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &attributes,
	}}
	for key, values := range c.actor.Extra {
		review.Spec.Extra[key] = slices.Clone(values)
	}
	if inside {
		review.Spec.Extra[identity.WarrantKey] = append(review.Spec.Extra[identity.WarrantKey], asInside)
	}
	within, err := c.Client(at)
	if err == nil {
		err = within.Create(ctx, review)
	}
	if err != nil {
		return false, missingRight(err, "create", "subjectaccessreviews.authorization.k8s.io", named)
	}
	return review.Status.Allowed, ""
}

// missingRight describes why a request failed: the missing permission, and the user that kcp denied.
func missingRight(err error, verb, resource string, at logicalcluster.Path) string {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("you lack %q on %s in %s, or access to that workspace, or the shard that has it is down%s",
			verb, resource, at, asWhom(kcp.DeniedUser(err), resource))
	case apierrors.IsUnauthorized(err):
		return "kcp does not accept your credentials"
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("your kubeconfig does not reach %s", at)
	case isBadGateway(err):
		return fmt.Sprintf("the shard that has %s is down", at)
	default:
		return err.Error()
	}
}

// isBadGateway is true for the answer of kcp's front-proxy if it does not reach the shard of a workspace. Without a front-proxy, another shard
// answers "forbidden".
func isBadGateway(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusBadGateway
}

// asWhom names the user that kcp denied, and the remedy if no RBAC rule helps: a service account can use APIs with a maximal permission
// policy, such as those of tenancy.kcp.io, in its home only.
func asWhom(user, resource string) string {
	if user == "" {
		return ""
	}
	text := fmt.Sprintf("; kcp authenticates you as %q", user)
	if !(identity.Owner{Username: user}).IsServiceAccount() || !strings.HasSuffix(resource, "."+tenancy.GroupName) {
		return text
	}
	return text + fmt.Sprintf("; a service account cannot use %s outside its home, whatever its permissions: for that workspace, use the "+
		"kubeconfig of a user with a client certificate", resource)
}
