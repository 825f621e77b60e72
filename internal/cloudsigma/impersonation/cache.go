package impersonation

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/maypok86/otter/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// maxTokens bounds the memory for tokens, which are of 1 or 2 KiB, 16 at most.
	maxTokens = 10_000
	// workTimeout ends work that is shared by callers, whose own deadlines do not.
	workTimeout = 10 * time.Second
	// refusalLife is how long a refusal is repeated without asking again.
	refusalLife = 5 * time.Second
	// refreshRetry is the mean time after which a refresh that failed is tried again.
	refreshRetry = 2 * time.Second
)

// issued is a token, or the refusal of one.
type issued struct {
	value string
	// obtained is when the answer came, by our clock.
	obtained time.Time
	// refresh is when a new one is asked for, expires when this one must not be used any more.
	refresh, expires time.Time
	// refusal is the error where no token is had.
	refusal error
}

// tokenCache keeps tokens until they expire, asks for new ones before, and asks once for all who wait for the same.
type tokenCache[K comparable] struct {
	entries *otter.Cache[K, issued]
	load    func(ctx context.Context, key K) (issued, error)
	// remembered are the steps whose refusals are repeated for refusalLife.
	remembered []step
	// refreshed is called when a refresh begins.
	refreshed func()
}

func newTokenCache[K comparable](
	load func(context.Context, K) (issued, error), refreshed func(), remembered ...step,
) (*tokenCache[K], error) {
	entries, err := otter.New(&otter.Options[K, issued]{
		MaximumSize: maxTokens,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(entry otter.Entry[K, issued]) time.Duration {
			return max(time.Until(entry.Value.expires), 1)
		}),
		RefreshCalculator: newRefreshTimes[K](),
		Clock:             passiveClock{start: time.Now()},
		Logger:            &otter.NoopLogger{}, // what it would log is logged below
	})
	if err != nil {
		return nil, err
	}
	return &tokenCache[K]{entries: entries, load: load, refreshed: refreshed, remembered: remembered}, nil
}

// hit returns a token that is there, and sees to it that a new one is asked for in the background when it is due.
func (c *tokenCache[K]) hit(ctx context.Context, key K) (issued, bool) {
	// With a context that has ended, the cache serves and refreshes what it has and loads nothing.
	ended, cancel := context.WithCancel(withPatience(ctx))
	cancel()
	token, err := c.entries.Get(ended, key, c)
	return token, err == nil
}

// get returns a token. Where there is none, one request is made for all who ask, which goes on when they leave.
func (c *tokenCache[K]) get(ctx context.Context, key K) (issued, error) {
	token, found := c.hit(ctx, key)
	if !found {
		if err := ctx.Err(); err != nil {
			return issued{}, err
		}
		select {
		case loaded := <-c.entries.Refresh(withPatience(ctx), key, c):
			if loaded.Err != nil {
				return issued{}, loaded.Err
			}
			token = loaded.Value
		case <-ctx.Done():
			return issued{}, ctx.Err()
		}
	}
	return token, token.refusal
}

// drop forgets a token that was obtained before the given time.
func (c *tokenCache[K]) drop(key K, before time.Time) {
	c.entries.ComputeIfPresent(key, func(token issued) (issued, otter.ComputeOp) {
		if token.refusal == nil && !token.obtained.After(before) {
			return token, otter.InvalidateOp
		}
		return token, otter.CancelOp
	})
}

// Load implements otter.Loader. The context is one that no caller can cancel.
func (c *tokenCache[K]) Load(ctx context.Context, key K) (issued, error) {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	token, err := c.load(ctx, key)
	if failed, ok := errors.AsType[*requestError](err); ok && failed.fault == faultRefused && slices.Contains(c.remembered, failed.step) {
		now := time.Now()
		until := now.Add(refusalLife)
		return issued{refusal: err, obtained: now, refresh: until, expires: until}, nil
	}
	return token, err
}

// Reload implements otter.Loader. With an error the old token stays.
func (c *tokenCache[K]) Reload(ctx context.Context, key K, old issued) (issued, error) {
	if time.Now().Before(old.refresh) {
		return old, nil // it came between the look-up of a caller and its request for one
	}
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	c.refreshed()
	token, err := c.load(ctx, key)
	if err != nil {
		logf.FromContext(ctx).Info("a token could not be refreshed; it is used until it expires", "error", err.Error())
	}
	return token, err
}

// refreshTimes implements otter.RefreshCalculator: a token knows when it is due.
type refreshTimes[K comparable] struct {
	otter.RefreshCalculator[K, issued]
}

func newRefreshTimes[K comparable]() refreshTimes[K] {
	return refreshTimes[K]{otter.RefreshWritingFunc(func(entry otter.Entry[K, issued]) time.Duration {
		return max(time.Until(entry.Value.refresh), 1)
	})}
}

// RefreshAfterReloadFailure implements otter.RefreshCalculator. A token whose refresh failed is due again soon.
func (refreshTimes[K]) RefreshAfterReloadFailure(otter.Entry[K, issued], error) time.Duration {
	return time.Duration(float64(refreshRetry) * (0.5 + rand.Float64())) //nolint:gosec // jitter is no secret
}

// passiveClock has the cache remove what has expired when it is used, without a goroutine that would have to be ended.
// It is monotonic, so that setting the system's clock changes no life.
type passiveClock struct{ start time.Time }

// NowNano implements otter.Clock.
func (c passiveClock) NowNano() int64 { return int64(time.Since(c.start)) }

// Tick implements otter.Clock. It never ticks.
func (passiveClock) Tick(time.Duration) <-chan time.Time { return nil }
