package owner

import (
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/lru"
)

const (
	// parentShare is the part of the checks per second that repeated checks of the Workspaces of one logical cluster may take. parentBurst is
	// the number of such checks that are not delayed.
	parentShare = 0.1
	parentBurst = 10
	// maxParents limits how many logical clusters are remembered.
	maxParents = 10_000
	// maxChecked limits how many Workspaces are remembered that were checked.
	maxChecked = 10_000
	// againDelay is how long a Workspace that was checked before waits for those that were not.
	againDelay = time.Second
	// backoffJitter is the part by which the time until a repeated check varies, so that many are not checked at once.
	backoffJitter = 0.2
)

// checkLimiter limits how many Workspaces are checked per second. First checks take precedence over repeated ones, and each logical cluster
// has a share of the repeated ones: a tenant that keeps many Workspaces stuck delays only its own.
type checkLimiter struct {
	all *rate.Limiter
	// parents limit how soon Workspaces of a logical cluster are checked again, begun how many of these checks begin.
	parents, begun *lru.Cache // of *rate.Limiter
	// checked are the requests that were checked before, and whether they counted as stuck then. They are also remembered while the Workspace
	// is not Initializing: a tenant can change the label with the phase until kcp restores it, and each first check reserves a token.
	checked *lru.Cache // of bool
}

func newCheckLimiter(all *rate.Limiter) *checkLimiter {
	return &checkLimiter{all: all, parents: lru.New(maxParents), begun: lru.New(maxParents), checked: lru.New(maxChecked)}
}

// first returns how long to wait until a Workspace may be checked first. It reserves a token.
func (l *checkLimiter) first() time.Duration { return l.all.Reserve().Delay() }

// again returns how long to wait until the next call, or zero if a Workspace of a logical cluster may be checked again now. It reserves no
// token. It limits also the checks that share does not delay: a tenant that changes its Workspace can make the repair begin again with it.
func (l *checkLimiter) again(parent logicalcluster.Name) time.Duration {
	if delay := l.afterwards(parent); delay > 0 || l.all.Allow() {
		return delay
	}
	return wait.Jitter(againDelay, backoffJitter)
}

// afterwards is again for a Workspace that is Ready: those that are listed have waited for their tokens.
func (l *checkLimiter) afterwards(parent logicalcluster.Name) time.Duration {
	if l.of(l.begun, parent).Allow() {
		return 0
	}
	return wait.Jitter(againDelay, backoffJitter)
}

// share returns the minimum time until a Workspace of a logical cluster is checked again.
func (l *checkLimiter) share(parent logicalcluster.Name) time.Duration {
	return l.of(l.parents, parent).Reserve().Delay()
}

// of returns the limiter of a logical cluster among limiters.
func (l *checkLimiter) of(limiters *lru.Cache, parent logicalcluster.Name) *rate.Limiter {
	if known, found := limiters.Get(parent); found {
		if limiter, ok := known.(*rate.Limiter); ok {
			return limiter
		}
	}
	limiter := rate.NewLimiter(l.all.Limit()*parentShare, parentBurst)
	limiters.Add(parent, limiter) // of two concurrent ones, one is lost with its token
	return limiter
}

// workerShares shares the workers of the repair between logical clusters. A tenant can delay each check of its Workspaces, with webhooks for
// LogicalClusters or SubjectAccessReviews in its workspaces.
type workerShares struct {
	mu   sync.Mutex
	busy map[logicalcluster.Name]int
	all  int
}

// take takes a worker for a Workspace of a logical cluster. A logical cluster may have as many as it leaves free, and one in any case.
func (s *workerShares) take(parent logicalcluster.Name) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[parent] > 0 && s.busy[parent] >= workers-s.all {
		return false
	}
	if s.busy == nil {
		s.busy = map[logicalcluster.Name]int{}
	}
	s.busy[parent]++
	s.all++
	return true
}

// free frees a worker.
func (s *workerShares) free(parent logicalcluster.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.busy[parent]--; s.busy[parent] == 0 {
		delete(s.busy, parent)
	}
}
