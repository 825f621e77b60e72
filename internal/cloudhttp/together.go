package cloudhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"

	"warrantgate.dev/internal/ownership"
)

// Together runs work once for all concurrent callers with the same key. A caller waits until its own ctx ends. The work continues for the
// others, until the timeout. If ctx ends, or if the work panics, the error is an *ownership.UnknownError.
func Together[T any](
	ctx context.Context, flights *singleflight.Group, key string, timeout time.Duration, work func(context.Context) (T, error),
) (result T, err error) {
	flight := flights.DoChan(key, func() (_ any, err error) {
		defer func() { // singleflight would let a panic end the process; its text could contain a secret
			if recover() != nil {
				err = &ownership.UnknownError{Cause: ownership.CauseIdentityProvider, Err: errors.New("an internal error prevented the request")}
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return work(ctx)
	})
	select {
	case landed := <-flight:
		result, _ = landed.Val.(T)
		return result, landed.Err
	case <-ctx.Done():
		return result, &ownership.UnknownError{Cause: ownership.CauseTimeout, Err: errors.New("no answer in time")}
	}
}

// Unknown returns the error of a lookup without a verdict.
func Unknown(cause ownership.Cause, requestID, format string, args ...any) *ownership.UnknownError {
	return &ownership.UnknownError{Cause: cause, RequestID: requestID, Err: fmt.Errorf(format, args...)}
}
