package cloudhttp_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// The first of two callers leaves. The second one gets the result of the work that the first one began.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flights singleflight.Group
		var times atomic.Int32
		work := func(ctx context.Context) (string, error) {
			times.Add(1)
			select {
			case <-time.After(time.Second):
				return "result", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		leaving, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := cloudhttp.Together(leaving, &flights, "key", time.Minute, work)
			if unknown, ok := errors.AsType[*ownership.UnknownError](err); !ok || unknown.Cause != ownership.CauseTimeout {
				t.Errorf("error of the caller that left = %v, want that of a timeout", err)
			}
		})
		synctest.Wait()
		callers.Go(func() {
			if got, err := cloudhttp.Together(t.Context(), &flights, "key", time.Minute, work); got != "result" || err != nil {
				t.Errorf("Together() = %q, %v", got, err)
			}
		})
		synctest.Wait()
		leave()
		callers.Wait()
		if got := times.Load(); got != 1 {
			t.Errorf("the work ran %d times, want 1", got)
		}
	})
}

func TestTogetherAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := cloudhttp.Together(t.Context(), &singleflight.Group{}, "", time.Second, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// The text of a panic could contain a secret.
func TestTogetherWithAPanic(t *testing.T) {
	_, err := cloudhttp.Together(t.Context(), &singleflight.Group{}, "", time.Second, func(context.Context) (string, error) { panic(canary) })
	if want := "IdentityProviderUnavailable: an internal error prevented the request"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %q", err, want)
	}
}
