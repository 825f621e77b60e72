package owner

import (
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
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

func TestFirstChecksGoFirst(t *testing.T) {
	l := newCheckLimiter(rate.NewLimiter(1, 1))
	if delay := l.again(); delay != 0 {
		t.Errorf("again() = %v while no other item waits", delay)
	}
	if delay := l.first(); delay <= 0 || delay > time.Second {
		t.Errorf("first() = %v, want the next token", delay)
	}
	for range 100 {
		if l.again() == 0 {
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
