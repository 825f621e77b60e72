package owner

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestOneParentDoesNotDelayOthers(t *testing.T) {
	r := newRepeats(50)
	var longest time.Duration
	for range 1000 {
		longest = max(longest, r.after("attacker"))
	}
	if want := 990 * time.Second / 5; longest < want-time.Second || longest > want+time.Second {
		t.Errorf("the last of 1000 is checked again after %v, want %v", longest, want)
	}
	if delay := r.after("victim"); delay != 0 {
		t.Errorf("another logical cluster waits for %v", delay)
	}
}

// A tenant can delay each check of its Workspaces.
func TestSlowChecksLeaveWorkersForOthers(t *testing.T) {
	held := make(chan struct{})
	started := make(chan struct{}, workers)
	clients := fakeKCP(t, cluster{owner: localOwner, phase: corev1alpha1.LogicalClusterPhaseReady}, nil)
	slow := func(path logicalcluster.Path) (client.Client, error) {
		started <- struct{}{}
		<-held
		return clients(path)
	}
	r := &repairReconciler{
		steps: &Steps{LogicalClusters: slow, Workspaces: clients}, pending: func(request) bool { return true }, untilStuck: isStuck,
		workers: newWorkers(), checks: newChecks(), slow: cache.NewExpiring(), limiter: unlimited, repeats: newRepeats(unlimited.Limit()), backoff: newBackoff(), continued: newContinued(), reporter: reporter{recorder: &recorded{}},
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer close(held)
	of := func(parent logicalcluster.Name, uid int) request {
		req := theRequest
		req.Parent, req.UID = parent, types.UID(strconv.Itoa(uid))
		return req
	}
	for i := range workers / 2 {
		running.Go(func() { _, _ = r.Reconcile(t.Context(), of("attacker", i)) })
	}
	for range workers / 2 {
		<-started
	}
	for i := range workers {
		done := make(chan reconcile.Result, 1)
		running.Go(func() {
			result, _ := r.Reconcile(t.Context(), of("attacker", workers+i))
			done <- result
		})
		select {
		case result := <-done:
			if result.RequeueAfter < giveWayDelay {
				t.Errorf("a further check of the attacker's is to begin after %v", result.RequeueAfter)
			}
		case <-started:
			t.Fatal("the attacker has more than half of the workers")
		}
	}
	running.Go(func() { _, _ = r.Reconcile(t.Context(), of("victim", 0)) })
	<-started
}
