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
	// maxTokens limits the memory of cached tokens. A token takes 1 or 2 KiB, at most 16.
	maxTokens = 10_000
	// workTimeout limits work that several callers share. Their own deadlines do not apply to it.
	workTimeout = 10 * time.Second
	// rejectionLife is how long a rejection is cached.
	rejectionLife = 5 * time.Second
	// refreshRetry is the mean time between two attempts to refresh a token.
	refreshRetry = 2 * time.Second
)

// issued is a token or a cached rejection.
type issued struct {
	value string
	// obtained is the time of the response, by the local clock.
	obtained time.Time
	// refresh is the time to request a new token. expires is the time after which the token must not be used.
	refresh, expires time.Time
	// rejection is the error of a cached rejection.
	rejection error
}

// tokenCache caches tokens until they expire, refreshes them before, and sends one request for all callers that wait for the same
// token.
type tokenCache[K comparable] struct {
	entries *otter.Cache[K, issued]
	load    func(ctx context.Context, key K) (issued, error)
	// remembered are the steps whose rejections are cached for rejectionLife.
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
		Logger:            &otter.NoopLogger{}, // the code below logs these events
	})
	if err != nil {
		return nil, err
	}
	return &tokenCache[K]{entries: entries, load: load, refreshed: refreshed, remembered: remembered}, nil
}

// hit returns a cached token. If the token is due, hit starts a refresh in the background.
func (c *tokenCache[K]) hit(ctx context.Context, key K) (issued, bool) {
	// With a canceled context, the cache returns and refreshes existing entries, and loads nothing.
	ended, cancel := context.WithCancel(withPatience(ctx))
	cancel()
	token, err := c.entries.Get(ended, key, c)
	return token, err == nil
}

// get returns a token. If it is not cached, one request serves all callers. The request continues if callers leave.
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
	return token, token.rejection
}

// drop removes a token that was obtained before the given time.
func (c *tokenCache[K]) drop(key K, before time.Time) {
	c.entries.ComputeIfPresent(key, func(token issued) (issued, otter.ComputeOp) {
		if token.rejection == nil && !token.obtained.After(before) {
			return token, otter.InvalidateOp
		}
		return token, otter.CancelOp
	})
}

// Load implements otter.Loader. No caller can cancel ctx.
func (c *tokenCache[K]) Load(ctx context.Context, key K) (issued, error) {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	token, err := c.load(ctx, key)
	if failed, ok := errors.AsType[*requestError](err); ok && failed.fault == faultRejected && slices.Contains(c.remembered, failed.step) {
		now := time.Now()
		until := now.Add(rejectionLife)
		return issued{rejection: err, obtained: now, refresh: until, expires: until}, nil
	}
	return token, err
}

// Reload implements otter.Loader. After an error the old token stays in the cache.
func (c *tokenCache[K]) Reload(ctx context.Context, key K, old issued) (issued, error) {
	if time.Now().Before(old.refresh) {
		return old, nil // the token arrived between a caller's lookup and its request
	}
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	c.refreshed()
	token, err := c.load(ctx, key)
	if err != nil {
		logf.FromContext(ctx).Info("cannot refresh a token; it is used until it expires", "error", err.Error())
	}
	return token, err
}

// refreshTimes implements otter.RefreshCalculator with the refresh time of each token.
type refreshTimes[K comparable] struct {
	otter.RefreshCalculator[K, issued]
}

func newRefreshTimes[K comparable]() refreshTimes[K] {
	return refreshTimes[K]{otter.RefreshWritingFunc(func(entry otter.Entry[K, issued]) time.Duration {
		return max(time.Until(entry.Value.refresh), 1)
	})}
}

// RefreshAfterReloadFailure implements otter.RefreshCalculator. It delays the next attempt by refreshRetry on average.
func (refreshTimes[K]) RefreshAfterReloadFailure(otter.Entry[K, issued], error) time.Duration {
	return time.Duration(float64(refreshRetry) * (0.5 + rand.Float64())) //nolint:gosec // jitter is no secret
}

// passiveClock makes the cache remove expired entries during accesses, without a goroutine that needs an end. It is monotonic, so
// that changes of the system clock do not change lifetimes.
type passiveClock struct{ start time.Time }

// NowNano implements otter.Clock.
func (c passiveClock) NowNano() int64 { return int64(time.Since(c.start)) }

// Tick implements otter.Clock. The channel never receives a value.
func (passiveClock) Tick(time.Duration) <-chan time.Time { return nil }
