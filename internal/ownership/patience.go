package ownership

import (
	"context"
	"time"
)

type patienceKey struct{}

// withPatience notes until when the caller waits, for work that is shared with others and goes on when the caller has left.
func withPatience(ctx context.Context) context.Context {
	if until, bounded := ctx.Deadline(); bounded {
		return context.WithValue(ctx, patienceKey{}, until)
	}
	return ctx
}

// Patience returns until when somebody waits for the answer that a Cloud is asked for, if that is before the context
// ends. Later an answer still helps who asks next, but nothing should be put off until then.
func Patience(ctx context.Context) (until time.Time, known bool) {
	until, known = ctx.Value(patienceKey{}).(time.Time)
	return until, known
}
