package ownership

import (
	"context"
	"time"
)

type patienceKey struct{}

// withPatience stores the deadline of the caller in the context, for a lookup that continues after this deadline.
func withPatience(ctx context.Context) context.Context {
	if until, bounded := ctx.Deadline(); bounded {
		return context.WithValue(ctx, patienceKey{}, until)
	}
	return ctx
}

// Patience returns the deadline of the caller of a lookup, if it is before the end of ctx. A later answer is only cached, so retries should
// not be scheduled after this deadline.
func Patience(ctx context.Context) (until time.Time, known bool) {
	until, known = ctx.Value(patienceKey{}).(time.Time)
	return until, known
}
