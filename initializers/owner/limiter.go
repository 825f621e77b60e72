package owner

import (
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
	all     *rate.Limiter
	parents *lru.Cache // of *rate.Limiter
	// checked are the requests that were checked before, and whether they counted as stuck then. They are also remembered while the Workspace
	// is not Initializing: a tenant can change the label with the phase until kcp restores it, and each first check reserves a token.
	checked *lru.Cache // of bool
}

func newCheckLimiter(all *rate.Limiter) *checkLimiter {
	return &checkLimiter{all: all, parents: lru.New(maxParents), checked: lru.New(maxChecked)}
}

// first returns how long to wait until a Workspace may be checked first. It reserves a token.
func (l *checkLimiter) first() time.Duration { return l.all.Reserve().Delay() }

// again returns how long to wait until the next call, or zero if a Workspace may be checked again now. It reserves no token.
func (l *checkLimiter) again() time.Duration {
	if l.all.Allow() {
		return 0
	}
	return wait.Jitter(againDelay, backoffJitter)
}

// share returns the minimum time until a Workspace of a logical cluster is checked again.
func (l *checkLimiter) share(parent logicalcluster.Name) time.Duration {
	limiter, _ := l.parents.Get(parent)
	of, ok := limiter.(*rate.Limiter)
	if !ok {
		of = rate.NewLimiter(l.all.Limit()*parentShare, parentBurst)
		l.parents.Add(parent, of) // of two concurrent ones, one is lost with its token
	}
	return of.Reserve().Delay()
}
