package owner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/multicluster-provider/initializingworkspaces"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
)

// warranted is the WorkspaceType in root whose initializer keeps workspaces from becoming Ready before their owner is
// right. Other types extend it.
const warranted = "warranted"

// initializer is the one of the type, as LogicalClusters name it.
var initializer = initialization.InitializerForReference(tenancyv1alpha1.WorkspaceTypeReference{
	Path: kcp.Root.String(), Name: warranted,
})

// errOwner holds up a workspace that must not become Ready with the owner that it has.
var errOwner = errors.New("its owner cannot be made right")

// WorkspaceType returns the type warranted. It asks for no permissions in the workspaces: their owner is written from
// outside, and nothing else is.
func WorkspaceType() client.Object {
	wt := &tenancyv1alpha1.WorkspaceType{
		ObjectMeta: metav1.ObjectMeta{Name: warranted},
		Spec:       tenancyv1alpha1.WorkspaceTypeSpec{Initializer: true},
	}
	wt.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("WorkspaceType"))
	return wt
}

// Initializer takes every logical cluster that waits for the type's initializer, on all shards, makes its owner right,
// and removes the initializer as its last act.
type Initializer struct {
	healer   *Healer
	recorder EventRecorder
	dryRun   bool
	config   *rest.Config
}

// NewInitializer returns an initializer. config is of a user who may initialize workspaces of the type, in root. With
// dryRun it only says what it would do, and holds nothing up.
func NewInitializer(healer *Healer, recorder EventRecorder, dryRun bool, config *rest.Config) (*Initializer, error) {
	inRoot, err := kcp.ConfigFor(config, kcp.Root)
	if err != nil {
		return nil, err
	}
	own := *healer
	own.Initializer = initializer
	return &Initializer{healer: &own, recorder: recorder, dryRun: dryRun, config: inRoot}, nil
}

// Start initializes until ctx ends, or until it has to be started again.
func (i *Initializer) Start(ctx context.Context) error {
	log := logf.FromContext(ctx).WithName("initializer").V(1) // whole objects, and each step of starting and stopping
	provider, err := initializingworkspaces.New(i.config, warranted, initializingworkspaces.Options{Scheme: kcp.Scheme(), Log: &log})
	if err != nil {
		return fmt.Errorf("watch the workspaces that wait for %s: %w", initializer, err)
	}
	mgr, err := mcmanager.New(i.config, provider, manager.Options{
		Scheme: kcp.Scheme(), Logger: log,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return fmt.Errorf("manager of the initializer: %w", err)
	}
	if err := mcbuilder.ControllerManagedBy(mgr).Named("owner-initializer").
		For(&corev1alpha1.LogicalCluster{}).
		WithOptions(mccontroller.Options{
			MaxConcurrentReconciles: atOnce,
			// Whoever leads again starts a controller of the same name again.
			SkipNameValidation: ptr.To(true),
		}).
		Complete(mcreconcile.Func(func(ctx context.Context, request mcreconcile.Request) (reconcile.Result, error) {
			cluster, err := mgr.GetCluster(ctx, request.ClusterName)
			if err != nil {
				return reconcile.Result{}, fmt.Errorf("reach logical cluster %s: %w", request.ClusterName, err)
			}
			// The cluster's own client asks for the resources of the workspace first, which kcp does as the very owner that
			// may have no rights there yet.
			c, err := kcp.NewClient(cluster.GetConfig())
			if err != nil {
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, i.initialize(ctx, logicalcluster.Name(request.ClusterName), c)
		})); err != nil {
		return fmt.Errorf("controller of the initializer: %w", err)
	}
	ctx, restart := context.WithCancel(ctx)
	defer restart()
	go i.supervise(ctx, provider, restart)
	return mgr.Start(ctx)
}

// initialize makes the owner of a logical cluster right, and then removes the initializer with c, which leads through
// the virtual workspace of the initializer.
func (i *Initializer) initialize(ctx context.Context, name logicalcluster.Name, c client.Client) error {
	var lc corev1alpha1.LogicalCluster
	if err := c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &lc); err != nil {
		return client.IgnoreNotFound(err)
	}
	if lc.DeletionTimestamp != nil || !initialization.InitializerPresent(initializer, lc.Status.Initializers) {
		return nil
	}
	result, err := i.healer.Heal(ctx, name, i.dryRun)
	if result.Outcome == Gone {
		return nil
	}
	if err == nil && (result.Outcome == Unhealable || result.Outcome == Differs) && !i.dryRun {
		err = fmt.Errorf("%w: %s", errOwner, result.Report.Message)
	}
	initialized.WithLabelValues(string(result.Outcome)).Inc()
	switch {
	case err != nil:
		reason := events.OwnerNotRewritten
		if result.Outcome == Differs {
			reason = events.OwnerDiffers
		}
		i.record(&lc, corev1.EventTypeWarning, reason, "The workspace is kept from becoming Ready: "+err.Error())
		return err
	case result.Outcome == Healed && result.Report.Reason.Rewritten():
		i.record(&lc, corev1.EventTypeNormal, events.OwnerRewritten, "At initialization: "+result.Report.Message)
	case result.Outcome == Differs:
		i.record(&lc, corev1.EventTypeWarning, events.OwnerDiffers, result.Report.Message)
	case result.Outcome == Foreign:
		i.record(&lc, corev1.EventTypeWarning, events.OwnerNotRewritten,
			"The owner was left as it is, because the initializer only warns: "+result.Report.Message)
	}
	if err := remove(ctx, c, &lc); err != nil {
		return fmt.Errorf("remove the initializer of %s: %w", result.Path, err)
	}
	if result.Outcome == Healed {
		go i.healer.awaken(ctx, name) // the next need not wait for it
	}
	return nil
}

// remove takes the initializer off, and nothing else. kcp writes the same list at the same time, so the patch says which
// entry it means and what has to be there, rather than which version was read: that would be outdated most of the time.
func remove(ctx context.Context, c client.Client, lc *corev1alpha1.LogicalCluster) error {
	hasChanged := func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsConflict(err) }
	return retry.OnError(retry.DefaultBackoff, hasChanged, func() error {
		at := slices.Index(lc.Status.Initializers, initializer)
		if at < 0 {
			return nil
		}
		path := fmt.Sprintf("/status/initializers/%d", at)
		patch, err := json.Marshal([]jsonpatch.Operation{
			jsonpatch.NewOperation("test", path, initializer), jsonpatch.NewOperation("remove", path, nil),
		})
		if err != nil {
			return err
		}
		err = c.Status().Patch(ctx, lc.DeepCopy(), client.RawPatch(types.JSONPatchType, patch))
		if hasChanged(err) {
			if err := c.Get(ctx, client.ObjectKeyFromObject(lc), lc); err != nil {
				return client.IgnoreNotFound(err)
			}
		}
		return client.IgnoreNotFound(err)
	})
}

// record tells it on the Workspace, as the LogicalCluster knows it.
func (i *Initializer) record(lc *corev1alpha1.LogicalCluster, eventType, reason, message string) {
	owner := lc.Spec.Owner
	if owner == nil {
		return
	}
	i.recorder.Record(events.Event{
		Cluster: logicalcluster.Name(owner.Cluster), Type: eventType, Reason: reason, Message: message,
		Object: events.Workspace(owner.Name, owner.UID, ""),
	})
}
