package cloudhttp

import (
	"context"
	"time"
)

// Half returns a context with half of the remaining time of ctx. It is for requests that only explain a denial: the denial must be
// sent before ctx ends, even if they time out.
func Half(ctx context.Context) (context.Context, context.CancelFunc) {
	left := requestTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	return context.WithTimeout(ctx, left/2)
}
