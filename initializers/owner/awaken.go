package owner

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// healedAtAnnotation tells on a Workspace when its owner was made right. It is outside of warrantgate.dev, whose annotations
// nobody but kcp may write.
const healedAtAnnotation = "healed.warrantgate.dev/at"

const (
	// readyTime is how long a logical cluster may take to be Ready once it has been healed, where somebody waits for the pass,
	// and servingReadyTime where nobody does. After an outage kcp has a lot to do at once, and more than a minute has been seen.
	readyTime, servingReadyTime = time.Minute, 5 * time.Minute
	// awakenAtOnce bounds for how many is waited at the same time. What takes long is kcp's part, so they are more than are
	// healed at the same time.
	awakenAtOnce = 64
)

var awakenSlots = semaphore.NewWeighted(awakenAtOnce)

// readyPoll asks somewhat more seldom each time. To be asked costs kcp next to nothing beside what it takes to set a workspace up,
// which is a third of a second where it has nothing else to do, and seconds where many are healed.
var readyPoll = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.15, Jitter: 0.1, Steps: 20} // to four seconds, and on so

// awaken waits until a logical cluster that was healed is Ready, and then has kcp look at its Workspace, by an annotation. kcp
// before v0.32 asks from the Workspace's side only, and ever more seldom: after a fifth of its age, up to ten minutes. A
// failure delays what the Workspace shows, and nothing else.
func (h *Healer) awaken(ctx context.Context, cluster logicalcluster.Name) {
	if awakenSlots.Acquire(ctx, 1) != nil {
		return // ctx has ended
	}
	defer awakenSlots.Release(1)
	err := h.tryAwaken(ctx, cluster)
	if err != nil && ctx.Err() == nil {
		logf.FromContext(ctx).Info("kcp was not made to look at a Workspace that was healed; it does by itself within ten minutes",
			"cluster", cluster.String(), "error", err.Error())
	}
}

func (h *Healer) tryAwaken(ctx context.Context, cluster logicalcluster.Name) error {
	owner, err := h.awaitReady(ctx, cluster)
	if err != nil || owner == nil {
		return err
	}
	c, err := h.Workspaces(logicalcluster.NewPath(owner.Cluster))
	if err != nil {
		return err
	}
	var ws tenancyv1alpha1.Workspace
	if err := c.Get(ctx, client.ObjectKey{Name: owner.Name}, &ws); err != nil {
		return client.IgnoreNotFound(err)
	}
	if ws.Status.Phase != corev1alpha1.LogicalClusterPhaseInitializing || ws.Spec.Cluster != cluster.String() {
		return nil
	}
	before := ws.DeepCopy()
	metav1.SetMetaDataAnnotation(&ws.ObjectMeta, healedAtAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	return client.IgnoreNotFound(c.Patch(ctx, &ws, client.MergeFrom(before)))
}

// awaitReady waits until a logical cluster is Ready and returns where its Workspace is. It returns none if that is not to be
// expected: if it waits for initializers of others.
func (h *Healer) awaitReady(ctx context.Context, cluster logicalcluster.Name) (*corev1alpha1.LogicalClusterOwner, error) {
	c, err := h.LogicalClusters(cluster.Path())
	if err != nil {
		return nil, err
	}
	var lc corev1alpha1.LogicalCluster
	ready := false
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(h.readyTime, readyTime))
	defer cancel()
	err = readyPoll.DelayFunc().Until(ctx, false, false, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &lc); err != nil {
			return true, client.IgnoreNotFound(err)
		}
		ready = lc.Status.Phase == corev1alpha1.LogicalClusterPhaseReady
		for _, initializer := range lc.Status.Initializers {
			if initializer != tenancyv1alpha1.WorkspaceAPIBindingsInitializer {
				return true, nil
			}
		}
		return ready, nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait until it is Ready: %w", err)
	}
	if !ready {
		return nil, nil //nolint:nilnil // nothing is to be awakened
	}
	return lc.Spec.Owner, nil
}
