package cloudhttp

import (
	"context"
	"time"
)

// Half returns a context that ends after half of what is left of ctx, so that an answer that is already there comes in
// time, whatever becomes of what only explains it.
func Half(ctx context.Context) (context.Context, context.CancelFunc) {
	left := requestTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	return context.WithTimeout(ctx, left/2)
}
