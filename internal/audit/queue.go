package audit

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/share"
)

const (
	// changedAfter is the time from a change to the check. Then the second write of a provider is stored, and so is a write that was admitted at the
	// same time.
	changedAfter = 2 * time.Second
	// freshFor is how old the objects may be if they are not watched, and compareInterval the time between two comparisons of their claims. Both
	// together keep the promise of a minute, unless a list takes longer than 4 seconds: compareRest is how many times as long as a list the time to
	// the next one is, because kcp has other work than these lists.
	freshFor, compareInterval, compareRest = 20 * time.Second, 40 * time.Second, 10
	// firstRetry and lastRetry are the times between two checks while there is no answer. The latter keeps the promise of a minute.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// recheckTimeout limits a check, which counts for its tenant.
	recheckTimeout = 30 * time.Second
)

// checks is the number of checks at the same time. A tenant that changes many machines, or whose cloud does not answer, does not delay those
// of others.
const checks = 4

// queue contains machines to check, each of them once.
type queue = workqueue.TypedRateLimitingInterface[clusterapi.MachineKey]

// Changed queues a machine whose claim may have changed. It does nothing if another replica is the leader, which has the same watches.
func (c *Controller) Changed(machine clusterapi.MachineKey) { c.enqueue(machine, changedAfter) }

// claim is what the fields of a machine specify.
type claim struct {
	cluster            clusterapi.Cluster
	instance, provided string
}

// compareClaims queues the machines whose claims have changed, repeatedly until ctx ends. The gates may not have evaluated them, because kcp could
// not reach them or the cloud did not answer.
func (c *Controller) compareClaims(ctx context.Context) {
	var before map[clusterapi.MachineKey]claim
	for ctx.Err() == nil {
		began, rest := time.Now(), compareInterval
		if claims, err := c.claims(ctx); err != nil {
			logf.FromContext(ctx).V(1).Info("claims could not be compared; retrying", "error", err.Error())
		} else {
			for key, named := range claims {
				if before != nil && before[key] != named {
					c.enqueue(key, 0)
				}
			}
			before, rest = claims, max(rest, compareRest*time.Since(began))
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// claims reads the claims of all machines.
func (c *Controller) claims(ctx context.Context) (map[clusterapi.MachineKey]claim, error) {
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	claims := map[clusterapi.MachineKey]claim{}
	for machine := range c.Audit.Objects.Machines() {
		claims[machine.Key()] = claim{machine.Cluster(), machine.InstanceID, machine.ProviderID}
	}
	return claims, nil
}

func (c *Controller) enqueue(machine clusterapi.MachineKey, after time.Duration) {
	if queue := c.queue.Load(); queue != nil {
		(*queue).AddAfter(machine, after)
	}
}

// open creates the queue, which takes machines until ctx ends.
func (c *Controller) open(ctx context.Context) queue {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[clusterapi.MachineKey](firstRetry, lastRetry))
	c.queue.Store(&queue)
	context.AfterFunc(ctx, func() {
		c.queue.CompareAndSwap(&queue, nil)
		queue.ShutDown()
	})
	return queue
}

// work checks the machines of a queue until it is shut down. A machine that cannot be checked now is checked later.
func (c *Controller) work(ctx context.Context, queue queue) {
	running := share.New[share.Tenant](checks)
	for {
		machine, ended := queue.Get()
		if ended {
			return
		}
		c.checking.Go(func() {
			defer queue.Done(machine)
			release, err := running.Wait(ctx, share.TenantOf(machine.LogicalCluster, machine.Namespace), 1)
			if err == nil {
				err = c.recheck(ctx, queue, machine)
				release()
			}
			if err != nil {
				queue.AddRateLimited(machine)
				return
			}
			queue.Forget(machine)
		})
	}
}

// recheck checks one machine, and reports the findings. The error means that it has to be checked again.
func (c *Controller) recheck(ctx context.Context, queue queue, machine clusterapi.MachineKey) error {
	if err := c.Synced(); err != nil {
		return err
	}
	if err := c.refresh(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	result, err := c.Audit.Recheck(ctx, machine)
	requests.Add(float64(result.Requests))
	c.current.update(machine, result, err == nil)
	if err == nil || queue.NumRequeues(machine) == 0 { // otherwise they have been reported
		c.record(ctx, result.Findings)
	}
	if err != nil {
		logf.FromContext(ctx).V(1).Info("a machine could not be checked; retrying", "cluster", machine.LogicalCluster, "resource", machine.Resource.Resource,
			"namespace", machine.Namespace, "name", machine.Name, "error", err.Error())
		return err
	}
	if result.Later > 0 {
		queue.AddAfter(machine, result.Later)
	}
	return nil
}

// refresh reads all objects again if they are not watched and were read too long ago.
func (c *Controller) refresh(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	began := c.Audit.Now()
	if began.Sub(c.refreshed) < freshFor {
		return nil
	}
	err := c.Audit.refresh(ctx)
	if err == nil {
		c.refreshed = began
	}
	return err
}
