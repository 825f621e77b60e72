package owner

import (
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/lru"
)

const (
	// parentShare is the part of the checks per second that the Workspaces of one logical cluster take if they are checked again, and
	// parentBurst how many of them are not delayed.
	parentShare = 0.1
	parentBurst = 10
	// maxParents limits how many logical clusters are remembered.
	maxParents = 10_000
	// againDelay is how long a Workspace that is checked again gives way to those that are checked first.
	againDelay = time.Second
)

// checkLimiter limits how many Workspaces are checked per second. Those that are checked first go before those that are checked again,
// and of these each logical cluster has a share: a tenant that keeps many Workspaces stuck delays its own only.
type checkLimiter struct {
	all     *rate.Limiter
	parents *lru.Cache // of *rate.Limiter
}

func newCheckLimiter(all *rate.Limiter) *checkLimiter {
	return &checkLimiter{all: all, parents: lru.New(maxParents)}
}

// first returns how long to wait until a Workspace may be checked first. Its turn is reserved.
func (l *checkLimiter) first() time.Duration { return l.all.Reserve().Delay() }

// again returns how long to wait until it is asked again, zero if a Workspace may be checked again now. No turn is reserved.
func (l *checkLimiter) again() time.Duration {
	if l.all.Allow() {
		return 0
	}
	return wait.Jitter(againDelay, backoffJitter)
}

// share returns how long a Workspace of a logical cluster waits at least until it is checked again.
func (l *checkLimiter) share(parent logicalcluster.Name) time.Duration {
	limiter, _ := l.parents.Get(parent)
	of, ok := limiter.(*rate.Limiter)
	if !ok {
		of = rate.NewLimiter(l.all.Limit()*parentShare, parentBurst)
		l.parents.Add(parent, of) // of two at the same time one is lost, and with it one turn
	}
	return of.Reserve().Delay()
}
