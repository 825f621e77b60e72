package owner

import (
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

const (
	// parentShare is the part of the checks per second that repeated checks of the Workspaces of one logical cluster may take. parentBurst is
	// the number of such checks that are not delayed.
	parentShare = 0.1
	parentBurst = 10
	// maxParents limits how many logical clusters are remembered.
	maxParents = 10_000
)

// repeats spreads the repeated checks of the Workspaces of one logical cluster, so that a tenant that keeps many of them stuck causes little
// load.
type repeats struct {
	limit   rate.Limit
	parents *lru.Cache // of *rate.Limiter
}

func newRepeats(all rate.Limit) *repeats {
	return &repeats{limit: all * parentShare, parents: lru.New(maxParents)}
}

// after returns the minimum time until a Workspace of a logical cluster is checked again.
func (r *repeats) after(parent logicalcluster.Name) time.Duration {
	known, _ := r.parents.Get(parent)
	limiter, ok := known.(*rate.Limiter)
	if !ok {
		limiter = rate.NewLimiter(r.limit, parentBurst)
		r.parents.Add(parent, limiter) // of two concurrent ones, one is lost with its token
	}
	return limiter.Reserve().Delay()
}
