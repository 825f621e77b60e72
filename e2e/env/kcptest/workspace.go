package kcptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// OwnerAnnotation contains the recorded owner of a Workspace and of its LogicalCluster.
	OwnerAnnotation = tenancyv1alpha1.ExperimentalWorkspaceOwnerAnnotationKey
	// CreatedByAnnotation contains the creator of a workspace whose owner warrantgate rewrote.
	CreatedByAnnotation = "warrantgate.dev/created-by"
)

// describeTimeout limits the time of Describe.
const describeTimeout = 15 * time.Second

// cacheTimeout is far longer than a cache of kcp needs to follow its storage.
const cacheTimeout = 2 * time.Minute

// WorkspaceOption changes a Workspace before it is created.
type WorkspaceOption func(*tenancyv1alpha1.Workspace)

// OfType sets the type of the workspace. Default: universal of root.
func OfType(path, name string) WorkspaceOption {
	return func(ws *tenancyv1alpha1.Workspace) {
		ws.Spec.Type = &tenancyv1alpha1.WorkspaceTypeReference{Path: path, Name: tenancyv1alpha1.WorkspaceTypeName(name)}
	}
}

// OnShard puts the workspace on a shard. kcp labels its Shards with their names.
func OnShard(name string) WorkspaceOption {
	return func(ws *tenancyv1alpha1.Workspace) {
		ws.Spec.Location = &tenancyv1alpha1.WorkspaceLocation{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}},
		}
	}
}

// WithAnnotation sets an annotation of the Workspace.
func WithAnnotation(key, value string) WorkspaceOption {
	return func(ws *tenancyv1alpha1.Workspace) {
		metav1.SetMetaDataAnnotation(&ws.ObjectMeta, key, value)
	}
}

// CreateWorkspaceType creates a WorkspaceType in the workspace of admin, which has the given path, unless there is one of that name. It
// waits until kcp observes the type, and returns the option for workspaces of the type.
func CreateWorkspaceType(ctx context.Context, admin *rest.Config, path string, wt *tenancyv1alpha1.WorkspaceType) (WorkspaceOption, error) {
	c, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	if err := whileOutdated(ctx, func(ctx context.Context) error { return c.Create(ctx, wt) }); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("create workspace type %s: %w", wt.Name, err)
	}
	ofType := OfType(path, wt.Name)
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}
		ofType(ws)
		last = c.Create(ctx, ws, client.DryRunAll)
		return last == nil, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait until kcp observes workspace type %s: %w", wt.Name, err), last)
	}
	return ofType, nil
}

// CreateWorkspace creates a Workspace in the cluster of config, as the user of config. It does not wait until the workspace is Ready. It
// repeats a request as whileOutdated does. For a request that should fail, use TryCreateWorkspace.
func CreateWorkspace(ctx context.Context, config *rest.Config, name string, options ...WorkspaceOption) (*tenancyv1alpha1.Workspace, error) {
	var ws *tenancyv1alpha1.Workspace
	err := whileOutdated(ctx, func(ctx context.Context) (err error) {
		ws, err = TryCreateWorkspace(ctx, config, name, options...)
		return err
	})
	return ws, err
}

// whileOutdated repeats a request that a cache of kcp without the newest objects can have caused to fail, for two minutes. On a busy machine,
// the first requests in a new workspace are answered from caches that do not contain its APIs, permissions or service accounts yet. A denial
// of warrantgate is not repeated.
func whileOutdated(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := request(ctx)
		if err != nil && isOutdated(err) {
			last = err
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// isOutdated reports whether a cache of kcp without the newest objects can have caused the error.
func isOutdated(err error) bool {
	return (apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) &&
		!strings.Contains(err.Error(), "warrantgate")
}

// TryCreateWorkspace is CreateWorkspace with one request.
func TryCreateWorkspace(ctx context.Context, config *rest.Config, name string, options ...WorkspaceOption) (*tenancyv1alpha1.Workspace, error) {
	c, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	OfType("root", "universal")(ws)
	for _, option := range options {
		option(ws)
	}
	if err := c.Create(ctx, ws); err != nil {
		return nil, fmt.Errorf("create workspace %s: %w", name, err)
	}
	return ws, nil
}

// GetWorkspace reads a Workspace.
func GetWorkspace(ctx context.Context, config *rest.Config, name string) (*tenancyv1alpha1.Workspace, error) {
	c, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	ws := &tenancyv1alpha1.Workspace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, ws); err != nil {
		return nil, fmt.Errorf("get workspace %s: %w", name, err)
	}
	return ws, nil
}

// GetLogicalCluster reads the LogicalCluster of the cluster of config.
func GetLogicalCluster(ctx context.Context, config *rest.Config) (*corev1alpha1.LogicalCluster, error) {
	c, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	lc := &corev1alpha1.LogicalCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, lc); err != nil {
		return nil, fmt.Errorf("get logical cluster at %s: %w", config.Host, err)
	}
	return lc, nil
}

// WaitReady waits until a workspace is Ready. After the timeout, the error contains the state of the workspace.
func WaitReady(ctx context.Context, config *rest.Config, name string) (*tenancyv1alpha1.Workspace, error) {
	ws, err := WaitWorkspace(ctx, config, name, func(ws *tenancyv1alpha1.Workspace) error {
		if ws.Status.Phase != corev1alpha1.LogicalClusterPhaseReady {
			return errors.New("not Ready")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ws, waitForPath(ctx, config, name)
}

// waitForPath waits until kcp serves the path of a workspace. kcp looks paths up in an index, which can be updated a moment after the
// phase.
func waitForPath(ctx context.Context, config *rest.Config, name string) error {
	child := rest.CopyConfig(config)
	child.Host += ":" + name
	c, err := NewClient(child)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		var status *apierrors.StatusError
		err := c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &corev1alpha1.LogicalCluster{})
		unknown := apierrors.IsNotFound(err) && errors.As(err, &status) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "workspaces"
		return !unknown, nil // any other error, such as 403, comes from the workspace
	})
}

// WaitWorkspace waits until holds returns nil for the workspace.
func WaitWorkspace(
	ctx context.Context, config *rest.Config, name string, holds func(*tenancyv1alpha1.Workspace) error,
) (*tenancyv1alpha1.Workspace, error) {
	c, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	ws := &tenancyv1alpha1.Workspace{}
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, ws); err != nil {
			return false, err
		}
		last = holds(ws)
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w: %w\n%s", name, err, last, Describe(context.WithoutCancel(ctx), config, name))
	}
	return ws, nil
}

// Describe returns the state of a workspace and its reasons: phase, initializers, conditions, recorded owner, Events. If an object
// cannot be read, it contains the error instead.
func Describe(ctx context.Context, config *rest.Config, name string) string {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	c, err := NewClient(config)
	if err != nil {
		return err.Error()
	}
	ws := &tenancyv1alpha1.Workspace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, ws); err != nil {
		return err.Error()
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, "phase: %s\ninitializers: %v\n", ws.Status.Phase, ws.Status.Initializers)
	for i := range ws.Status.Conditions {
		condition := &ws.Status.Conditions[i]
		fmt.Fprintf(text, "condition %s=%s %s: %s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	fmt.Fprintf(text, "owner: %s\ncreated by: %s\n", ws.Annotations[OwnerAnnotation], ws.Annotations[CreatedByAnnotation])
	events, err := Events(ctx, config, ws)
	if err != nil {
		fmt.Fprintf(text, "events: %v\n", err)
	}
	for i := range events {
		fmt.Fprintf(text, "event %s %s: %s\n", events[i].Type, events[i].Reason, events[i].Message)
	}
	return text.String()
}

// Events returns the Events of one Workspace, oldest first.
func Events(ctx context.Context, config *rest.Config, ws *tenancyv1alpha1.Workspace) ([]corev1.Event, error) {
	c, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	list := &corev1.EventList{}
	if err := c.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	events := slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID != ws.UID })
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.ResourceVersion, b.ResourceVersion))
	})
	return events, nil
}
