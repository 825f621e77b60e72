package owner

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"warrantgate.dev/internal/preflight"
	"warrantgate.dev/internal/share"
)

const (
	// workers is how many logical clusters are handled at the same time.
	workers = 16
	// maxRequests limits the requests for the causes of one workspace, so that no tenant occupies the workers. It is sufficient for about a
	// hundred default API bindings.
	maxRequests = 300
	// reconcileTimeout limits one reconcile, so that logical clusters on a shard that does not answer leave workers for the others.
	reconcileTimeout = 45 * time.Second
	// endTimeout is far longer than a reconcile takes to end after its context has.
	endTimeout = 5 * time.Second
	// gaugeInterval is how often the stuck-workspaces gauge is updated.
	gaugeInterval = time.Second
	// readyInterval is the time between two resyncs of Workspaces that are Ready. Their owner does not change any more.
	readyInterval = time.Hour
)

// Repair is what the controller and the command repair have in common.
type Repair struct {
	// Shards lists the Workspaces. Steps corrects the owner of their logical clusters.
	Shards *Shards
	Steps  *Steps
	// After is how long a workspace may be Initializing before it counts as stuck.
	After time.Duration
	// Limiter limits how many workspaces are checked per second.
	Limiter *rate.Limiter
	// Progress is called by Run after each workspace, concurrently, if it is not nil.
	Progress func(done, all int)
}

// checker finds other causes why a workspace is not Ready.
func (r *Repair) checker() preflight.Checker {
	checker := preflight.Checker{Client: r.Steps.Workspaces, MaxRequests: maxRequests, HideUnusableTypes: true}
	if r.Shards != nil {
		checker.Types = r.Shards.workspaceTypes
	}
	return checker
}

// Controller runs the repair and the initializer in the replica that holds the Lease.
type Controller struct {
	repair   *Repair
	reporter reporter
	election Elector
}

// Elector elects one of several replicas.
type Elector interface {
	// Run calls lead each time this replica is elected, and returns when ctx ends.
	Run(ctx context.Context, lead func(context.Context)) error
}

// NewController returns a controller that runs on the elected replica. If repair.Steps.DryRun is set, it only reports.
func NewController(repair *Repair, recorder EventRecorder, election Elector) *Controller {
	return &Controller{
		repair: repair, election: election,
		reporter: reporter{recorder: recorder, checker: repair.checker(), workspaceOf: repair.Shards.WorkspaceOf},
	}
}

// Start runs both controllers whenever this replica holds the Lease, until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	return c.election.Run(logf.IntoContext(ctx, logf.FromContext(ctx).WithName("owner")), c.lead)
}

// lead runs both controllers until ctx ends. They are new each time, because a controller can be started only once.
func (c *Controller) lead(ctx context.Context) {
	var controllers wait.Group
	controllers.StartWithContext(ctx, c.runRepair)
	controllers.StartWithContext(ctx, c.runInitializer)
	controllers.Wait()
}

func (c *Controller) runRepair(ctx context.Context) {
	initializing := initializingWorkspaces(c.repair.Shards, c.repair.After)
	var gauge wait.Group
	gauge.StartWithContext(ctx, func(ctx context.Context) {
		defer stuck.Set(0) // only the replica that holds the Lease reports a number
		wait.UntilWithContext(ctx, func(context.Context) { stuck.Set(float64(initializing.countDue())) }, gaugeInterval)
	})
	run(ctx, "owner-repair", controller.TypedOptions[request]{
		Reconciler: &repairReconciler{
			steps: c.repair.Steps, pending: initializing.has, untilStuck: initializing.untilDue, reporter: c.reporter,
			workers: share.New[logicalcluster.Name](workers), checks: share.New[logicalcluster.Name](checksForCauses), slow: cache.NewExpiring(), limiter: c.repair.Limiter,
			backoff: newBackoff(), repeats: newRepeats(c.repair.Limiter.Limit()), continued: newContinued(),
		},
		RateLimiter: newBackoff(),
	}, initializing, readyWorkspaces(c.repair))
	gauge.Wait()
}

func (c *Controller) runInitializer(ctx context.Context) {
	run(ctx, "owner-initializer", controller.TypedOptions[request]{
		Reconciler: &initializerReconciler{
			steps: c.repair.Steps, reporter: c.reporter, continued: newContinued(), slowed: newBackoff(), workers: share.New[bool](workers),
			client: func(req request) (client.Client, error) {
				return c.repair.Shards.clientAt(req.Shard, req.Cluster.Path())
			},
		},
	}, waitingLogicalClusters(c.repair.Shards))
}

// run runs a controller until ctx ends.
func run(ctx context.Context, name string, options controller.TypedOptions[request], sources ...source.TypedSource[request]) {
	log := logf.FromContext(ctx)
	options.MaxConcurrentReconciles = workers
	options.ReconciliationTimeout = reconcileTimeout
	options.SkipNameValidation = ptr.To(true) // the replica may hold the Lease again
	options.LogConstructor = func(req *request) logr.Logger {
		log := log.WithValues("controller", name)
		if req != nil {
			log = log.WithValues("parent", req.Parent.String(), "name", req.Name, "cluster", req.Cluster.String())
		}
		return log
	}
	c, err := controller.NewTypedUnmanaged(name, options)
	for _, source := range sources {
		if err == nil {
			err = c.Watch(source)
		}
	}
	if err == nil {
		err = start(ctx, c)
	}
	if err != nil {
		log.Error(err, "run the controller", "controller", name)
	}
}

// start starts a controller, and waits at most endTimeout for it after ctx has ended, as a manager does. The priority queue of
// controller-runtime v0.24 can block its workers forever at that moment (kubernetes-sigs/controller-runtime#3538).
func start(ctx context.Context, c controller.TypedController[request]) error {
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(endTimeout):
		return errors.New("its workers have not ended")
	}
}

// readyWorkspaces returns a source of requests for Ready workspaces whose owner's name another service account can get. It lists them at
// intervals, because holding all Ready Workspaces in memory would cost more.
func readyWorkspaces(repair *Repair) source.TypedFunc[request] {
	return func(ctx context.Context, queue queue) error {
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			for req, err := range repair.Shards.suspicious(ctx) {
				switch {
				case ctx.Err() != nil:
					return
				case err != nil:
					logf.FromContext(ctx).Error(err, "not all Ready workspaces could be listed; trying again", "after", readyInterval)
				case repair.Limiter.Wait(ctx) == nil:
					queue.Add(req.afterwards())
				}
			}
		}, readyInterval)
		return nil
	}
}
