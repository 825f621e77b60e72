package owner

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestOneParentDoesNotDelayOthers(t *testing.T) {
	l := newCheckLimiter(rate.NewLimiter(50, 1))
	var longest time.Duration
	for range 1000 {
		longest = max(longest, l.share("attacker"))
	}
	if want := 990 * time.Second / 5; longest < want-time.Second || longest > want+time.Second {
		t.Errorf("the last of 1000 is checked again after %v, want %v", longest, want)
	}
	if delay := l.share("victim"); delay != 0 {
		t.Errorf("another logical cluster waits for %v", delay)
	}
}

// A tenant can change a Workspace so that its checks begin again, however often it was checked: with the label of its phase, or with the
// annotation of a rewrite that is not finished, on its LogicalCluster.
func TestChecksThatBeginAgainDoNotDelayOthers(t *testing.T) {
	pending := true
	checks := map[string]func(r *repairReconciler, req request){
		"with the label": func(r *repairReconciler, req request) {
			_, _ = r.Reconcile(t.Context(), req)
			pending = false
			_, _ = r.Reconcile(t.Context(), req)
			pending = true
		},
		"with an error":      func(r *repairReconciler, req request) { _, _ = r.Reconcile(t.Context(), req) },
		"after it was Ready": func(r *repairReconciler, req request) { _, _ = r.Reconcile(t.Context(), req.afterwards()) },
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			reads := 0
			notAdopted := cluster{owner: rewrittenOwner, phase: corev1alpha1.LogicalClusterPhaseInitializing, rewritten: time.Now().Add(-time.Hour)}
			clients := fakeKCP(t, notAdopted, func(verb string, object client.Object) error {
				if _, ok := object.(*unstructured.Unstructured); ok && verb == "get" {
					reads++
				}
				return nil
			})
			r := &repairReconciler{
				steps: &Steps{LogicalClusters: clients, Workspaces: clients}, pending: func(request) bool { return pending }, untilStuck: isStuck,
				limiter: newCheckLimiter(rate.NewLimiter(1, 200)), backoff: newBackoff(), continued: newContinued(), reporter: reporter{recorder: &recorded{}},
			}
			for i := range 100 {
				req := theRequest
				req.UID = types.UID(strconv.Itoa(i % 10))
				check(r, req)
			}
			if most := 10 + parentBurst + 5; reads > most {
				t.Errorf("%d checks of 10 Workspaces began, want at most %d", reads, most)
			}
		})
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
		limiter: newCheckLimiter(rate.NewLimiter(rate.Inf, 1)), backoff: newBackoff(), continued: newContinued(), reporter: reporter{recorder: &recorded{}},
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
			if result.RequeueAfter < againDelay {
				t.Errorf("a further check of the attacker's is to begin after %v", result.RequeueAfter)
			}
		case <-started:
			t.Fatal("the attacker has more than half of the workers")
		}
	}
	running.Go(func() { _, _ = r.Reconcile(t.Context(), of("victim", 0)) })
	<-started
}

func TestFirstChecksGoFirst(t *testing.T) {
	l := newCheckLimiter(rate.NewLimiter(1, 1))
	if delay := l.again("victim"); delay != 0 {
		t.Errorf("again() = %v while no other item waits", delay)
	}
	if delay := l.first(); delay <= 0 || delay > time.Second {
		t.Errorf("first() = %v, want the next token", delay)
	}
	for range 100 {
		if l.again("victim") == 0 {
			t.Fatal("a check was repeated while a first one waits")
		}
	}
	if delay := l.first(); delay > 2*time.Second {
		t.Errorf("first() = %v: repeated checks use tokens", delay)
	}
}

// A tenant can change the label with the phase of its Workspaces back and forth.
func TestAWorkspaceIsCheckedFirstOnce(t *testing.T) {
	pending := true
	r := &repairReconciler{
		limiter: newCheckLimiter(rate.NewLimiter(1, 1)), backoff: newBackoff(), continued: newContinued(),
		pending: func(request) bool { return pending }, untilStuck: isStuck,
	}
	for range 100 {
		r.admit(theRequest)
		pending = false
		if _, err := r.Reconcile(t.Context(), theRequest); err != nil {
			t.Fatal(err)
		}
		pending = true
	}
	other := theRequest
	other.UID = "2"
	if delay := r.admit(other); delay > 2*time.Second {
		t.Errorf("another Workspace is checked first after %v", delay)
	}
}

func TestParentsAreForgotten(t *testing.T) {
	l := newCheckLimiter(rate.NewLimiter(50, 1))
	for i := range maxParents + 1000 {
		l.share(logicalcluster.Name(time.Duration(i).String()))
	}
	if got := l.parents.Len(); got != maxParents {
		t.Errorf("%d logical clusters are remembered, want %d", got, maxParents)
	}
}
