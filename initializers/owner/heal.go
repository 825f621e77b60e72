package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

const (
	// workspaceAdmin is the ClusterRoleBinding that kcp keeps in step with the recorded owner.
	workspaceAdmin = "workspace-admin"
	// stepTime and stepPoll bound the wait for kcp to take up the new owner.
	stepTime = 15 * time.Second
	stepPoll = 50 * time.Millisecond
)

// Outcome is what became of a logical cluster. It is a stable word for metrics and output.
type Outcome string

// What can become of a logical cluster.
const (
	// Healed: the owner was rewritten, and kcp was made to try again where it had to.
	Healed Outcome = "healed"
	// Foreign: the owner would have been rewritten, but nothing was to be written.
	Foreign Outcome = "foreign"
	// Fine: the owner is one that kcp can act as. If the workspace hangs, it is for another reason.
	Fine Outcome = "fine"
	// Waiting: the owner is foreign, but what the workspace waits for is an initializer of somebody else.
	Waiting Outcome = "waiting"
	// Unhealable: the owner cannot be rewritten, for instance because its home is no longer known.
	Unhealable Outcome = "unhealable"
	// Differs: the owner is not the one that kcp recorded on the Workspace. Somebody changed it, so it is not touched.
	Differs Outcome = "differs"
	// Gone: there is no such logical cluster any more.
	Gone Outcome = "gone"
	// Failed: it could not be told, or not be done.
	Failed Outcome = "failed"
)

// Result is what Heal found and did.
type Result struct {
	// Cluster is the logical cluster, and Path the workspace's path where kcp tells it.
	Cluster logicalcluster.Name
	Path    string
	// Phase is the phase in which it was found.
	Phase corev1alpha1.LogicalClusterPhaseType
	// Outcome is what became of it.
	Outcome Outcome
	// Report is what package identity says of the owner.
	Report identity.Report
}

// healthy tells whether there is nothing to say of a logical cluster.
func (r Result) healthy() bool {
	return r.Outcome == Fine && r.Phase == corev1alpha1.LogicalClusterPhaseReady
}

// Healer gives logical clusters an owner that kcp can act as.
type Healer struct {
	// LogicalClusters reads and writes LogicalClusters. kcp lets only the group
	// system:kcp:external-logical-cluster-admin write their owner.
	LogicalClusters kcp.Clients
	// Workspaces reads the ClusterRoleBinding workspace-admin in a workspace, and annotates Workspaces.
	Workspaces kcp.Clients
	// Policy says which delegations may be passed on.
	Policy identity.Policy
	// Initializer is one that waits for the owner to be made right. Empty for none.
	Initializer corev1alpha1.LogicalClusterInitializer

	// readyTime is how long what was healed may take to be Ready, where that is not the constant.
	readyTime time.Duration
}

var errNotTakenUp = errors.New("kcp has not yet taken up the new owner in the ClusterRoleBinding workspace-admin")

// Heal rewrites the owner of a logical cluster if it is foreign there. With dryRun it only says what it would do.
//
// In Initializing it waits until kcp has given the workspace to the new owner, and then has kcp create the default API
// bindings again. Initializers are never removed. Calling it again goes on where it was interrupted.
func (h *Healer) Heal(ctx context.Context, cluster logicalcluster.Name, dryRun bool) (Result, error) {
	result := Result{Cluster: cluster, Path: cluster.String(), Outcome: Failed}
	c, err := h.LogicalClusters(cluster.Path())
	if err != nil {
		return result, err
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		p, err := read(ctx, c, cluster)
		if apierrors.IsNotFound(err) {
			result.Outcome = Gone
			return nil
		} else if err != nil {
			return err
		}
		result.Path, result.Phase = p.path(), p.typed.Status.Phase
		if message, err := h.differs(ctx, p); err != nil || message != "" {
			result.Outcome, result.Report = Differs, identity.Report{Reason: events.OwnerDiffers, Message: message}
			return err
		}
		owner, report := identity.Rewrite(kcp.RecordedOwner(&p.typed), cluster, p.typed.Annotations[kcp.RequiredGroupsAnnotation], h.Policy)
		result.Report = report
		switch {
		case !p.halfHealed() && !report.Reason.Rewritten():
			result.Outcome = Fine
			if !report.Reason.Harmless() {
				result.Outcome = Unhealable
			}
			return nil
		case !p.treatable() && !p.waitsFor(h.Initializer):
			result.Outcome = Waiting
			return nil
		case dryRun:
			result.Outcome = Foreign
			return nil
		case report.Reason.Rewritten():
			// What cannot be finished is not begun.
			if _, err := h.admins(ctx, cluster); err != nil {
				return err
			}
			if err := p.setOwner(owner); err != nil {
				return err
			}
			if err := c.Update(ctx, p.object); err != nil {
				return err
			}
		}
		result.Outcome = Healed
		return nil
	})
	if err != nil {
		result.Outcome = Failed
		return result, explain("change the owner of", result.Path, err)
	}
	if result.Outcome != Healed {
		return result, nil
	}
	if err := h.finish(ctx, c, cluster); err != nil {
		result.Outcome = Failed
		return result, explain("finish healing", result.Path, err)
	}
	return result, nil
}

// differs says so if the owner of a LogicalCluster cannot have come from its Workspace, which kcp lets the author of the
// WorkspaceType bring about before v0.32. From v0.32 on kcp acts as spec.createdBy, which the author cannot change. There the
// Workspace is not read: a service account may not, outside its home.
func (h *Healer) differs(ctx context.Context, p patient) (string, error) {
	of := p.typed.Spec.Owner
	if of == nil || p.typed.Spec.CreatedBy != nil {
		return "", nil
	}
	c, err := h.Workspaces(logicalcluster.NewPath(of.Cluster))
	if err != nil {
		return "", err
	}
	var ws tenancyv1alpha1.Workspace
	if err := c.Get(ctx, client.ObjectKey{Name: of.Name}, &ws); apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("read the Workspace: %w", err)
	}
	recorded, acting := ws.Annotations[kcp.OwnerAnnotation], kcp.RecordedOwner(&p.typed)
	if ws.UID != of.UID || identity.SameOwner(recorded, acting, p.name, p.typed.Annotations[kcp.RequiredGroupsAnnotation],
		p.typed.Status.Phase == corev1alpha1.LogicalClusterPhaseReady) {
		return "", nil
	}
	return identity.DescribeDifference(recorded, acting), nil
}

// finish waits until the workspace is the new owner's and has kcp act as it.
func (h *Healer) finish(ctx context.Context, c client.Client, cluster logicalcluster.Name) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		p, err := read(ctx, c, cluster)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		if !p.halfHealed() {
			return nil // another replica was faster
		}
		owner, err := identity.ParseOwner(kcp.RecordedOwner(&p.typed))
		if err != nil {
			return err
		}
		if err := h.awaitAdmin(ctx, cluster, owner.Username); err != nil {
			return err
		}
		p.retry()
		return client.IgnoreNotFound(c.Update(ctx, p.object))
	})
}

// awaitAdmin waits until workspace-admin names the owner. If kcp acted as it earlier it would be refused, and say no
// more for a while.
func (h *Healer) awaitAdmin(ctx context.Context, cluster logicalcluster.Name, username string) error {
	err := wait.PollUntilContextTimeout(ctx, stepPoll, stepTime, true, func(ctx context.Context) (bool, error) {
		admins, err := h.admins(ctx, cluster)
		return admins.Has(username), err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return errNotTakenUp
	}
	return err
}

// admins returns the users to whom kcp has given the workspace, none as long as it has given it to nobody.
func (h *Healer) admins(ctx context.Context, cluster logicalcluster.Name) (sets.Set[string], error) {
	c, err := h.Workspaces(cluster.Path())
	if err != nil {
		return nil, err
	}
	var binding rbacv1.ClusterRoleBinding
	if err := c.Get(ctx, client.ObjectKey{Name: workspaceAdmin}, &binding); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read ClusterRoleBinding %s: %w", workspaceAdmin, err)
	}
	users := sets.New[string]()
	for _, subject := range binding.Subjects {
		if subject.Kind == rbacv1.UserKind {
			users.Insert(subject.Name)
		}
	}
	return users, nil
}

func read(ctx context.Context, c client.Client, cluster logicalcluster.Name) (patient, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(logicalClusterGVK)
	if err := c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, object); err != nil {
		return patient{}, err
	}
	return examine(cluster, object)
}

// explain says of a refusal what right is missing.
func explain(what, where string, err error) error {
	err = fmt.Errorf("%s %s: %w", what, where, err)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (LogicalClusters are read and written as the group system:kcp:external-logical-cluster-admin, and "+
			"workspace-admin is read with the rights of `warrantgate install kcp --shard-kubeconfig`)", err)
	}
	return err
}
