package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/wait"

	"warrantgate.dev/internal/share"
)

const (
	// ownedFor is the TTL of the verdict Owned. Instances rarely change their owner.
	ownedFor = 5 * time.Minute
	// deniedFor is the TTL of the verdicts Foreign and Absent. It is shorter than the 10 seconds between the retries of providers, so
	// that only a hot loop gets cached denials.
	deniedFor = 9 * time.Second
	// firstDeniedFor is the TTL of a denial of a first claim, which has asked the cloud for several seconds.
	firstDeniedFor = time.Minute
	// askAgainEvery is the time between the lookups of a first claim, and answerTime the time before its deadline that it leaves for the response.
	askAgainEvery, answerTime = time.Second, 500 * time.Millisecond
	// maxRemembered is the maximum number of entries of each cache. An entry takes about 500 bytes.
	maxRemembered = 20_000
	// lookupTimeout is the timeout of a lookup in the cloud. It is longer than the timeout of an admission request, because a late
	// answer is cached for the next request.
	lookupTimeout = 10 * time.Second
	// busyAfter is how long a tenant that has no lookup in flight waits while other tenants use all, and a first claim while its tenant uses its
	// share.
	busyAfter = 2 * time.Second
	// tenantRetryAfter is the Retry-After for a tenant with too many lookups.
	tenantRetryAfter = 2 * time.Second
)

// Gate decides claims. It caches answers, merges concurrent lookups of a tenant for the same claim, and limits the concurrent lookups of each
// cloud, and of each tenant there.
type Gate struct {
	clouds map[string]*limitedCloud
	owned  *otter.Cache[Claim, Answer]
	// denied caches denials by instance, so that another machine name does not cause another lookup.
	denied   *otter.Cache[instance, denial]
	inFlight singleflight.Group
}

// instance is an instance ID for an account, the key of cached denials.
type instance struct {
	Account
	id string
}

func (c Claim) instance() instance { return instance{Account: c.Plain(), id: c.ID} }

// denial is an answer that denies a claim.
type denial struct {
	claim  Claim
	answer Answer
	// first is true for a denial of Gate.first.
	first bool
}

func (d denial) lifetime() time.Duration {
	if d.first {
		return firstDeniedFor
	}
	return deniedFor
}

// about returns the answer for a claim of the same instance and account. The candidates are those of the machine that was denied.
func (d denial) about(claim Claim) Answer {
	if d.claim != claim {
		d.answer.Candidates = nil
	}
	return d.answer
}

// limitedCloud is a cloud with a limit of concurrent lookups.
type limitedCloud struct {
	Cloud
	name    string
	lookups *share.Limit[share.Tenant]
}

// NewGate returns a gate for the clouds, by their names in Account. concurrency contains the maximum number of concurrent lookups, by the
// same names. Close releases its resources.
func NewGate(clouds map[string]Cloud, concurrency map[string]int32) *Gate {
	owned := otter.Must(&otter.Options[Claim, Answer]{
		MaximumSize: maxRemembered, ExpiryCalculator: otter.ExpiryWriting[Claim, Answer](ownedFor),
	})
	denied := otter.Must(&otter.Options[instance, denial]{
		MaximumSize:      maxRemembered,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(entry otter.Entry[instance, denial]) time.Duration { return entry.Value.lifetime() }),
	})
	g := &Gate{clouds: make(map[string]*limitedCloud, len(clouds)), owned: owned, denied: denied}
	for name, cloud := range clouds {
		g.clouds[name] = &limitedCloud{Cloud: cloud, name: name, lookups: share.New[share.Tenant](max(int64(concurrency[name]), 1))}
	}
	return g
}

// Close stops the goroutines of the caches.
func (g *Gate) Close() {
	g.owned.StopAllGoroutines()
	g.denied.StopAllGoroutines()
}

// Options select how a claim is decided.
type Options struct {
	// DryRun is true for a request that is never stored. Only denials are then cached: a tenant that tries many IDs gets these, and a cached
	// denial admits no request.
	DryRun bool
	// First is true for the first claim of a machine; see Gate.first.
	First bool
	// Recheck is true for a claim that is checked again if there is no answer, which on kcp lists all machines. So an error comes while a third of the
	// time until the deadline of ctx is left.
	Recheck bool
}

// Decide returns the answer for the claim of a tenant before ctx ends. The error is an *UnknownError: there is no verdict. Its cause is
// CauseTenantBusy if the tenant has too many queued lookups. Errors are not cached.
func (g *Gate) Decide(ctx context.Context, tenant share.Tenant, claim Claim, options Options) (Answer, error) {
	switch {
	case options.DryRun: // also from the cache: repeated dry runs of a first claim must not reach the cloud each time
		early, cancel := options.patience(ctx)
		defer cancel()
		return g.decide(early, tenant, claim, memory{denied: true, patient: options.First})
	case options.First:
		return g.first(ctx, tenant, claim, options)
	}
	return g.decide(ctx, tenant, claim, memory{owned: true, denied: true})
}

// Confirmed reports whether the verdict Owned is cached for a claim.
func (g *Gate) Confirmed(claim Claim) bool {
	_, found := g.owned.GetIfPresent(claim)
	return found
}

// first decides the first claim of a machine. Its instance may have been created a moment ago, and the cloud may show it to its owner only
// after a while. So first sends a lookup each second, until the verdict is Owned or ctx is about to end. It does
// not use cached denials, except its own: for a minute after it has denied a claim, it denies the same instance for the same account at once.
//
// Once the cloud has denied the claim, a lookup without a verdict does not change that.
func (g *Gate) first(ctx context.Context, tenant share.Tenant, claim Claim, options Options) (Answer, error) {
	if denied, found := g.denied.GetIfPresent(claim.instance()); found && denied.first {
		observe(claim.Cloud, string(denied.answer.Verdict), sourceCache)
		return denied.about(claim), nil
	}
	ask := func(ctx context.Context) (Answer, error) {
		return g.decide(ctx, tenant, claim, memory{owned: true, patient: true})
	}
	early, cancel := options.patience(ctx)
	defer cancel()
	answer, err := ask(early)
	deadline, bounded := ctx.Deadline()
	if err != nil || answer.Verdict == Owned || !bounded {
		return answer, err
	}
	ctx, cancel = context.WithDeadline(ctx, deadline.Add(-answerTime))
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, askAgainEvery, false, func(ctx context.Context) (owned bool, _ error) { // the only error is the deadline
		if next, err := ask(ctx); err == nil {
			answer = next
		}
		return answer.Verdict == Owned, nil
	})
	if answer.Verdict != Owned {
		g.denied.Set(claim.instance(), denial{claim: claim, answer: answer, first: true})
	}
	return answer, nil
}

// patience returns the context of a lookup.
func (o Options) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.Recheck {
		return Part(ctx, 2, 3)
	}
	return context.WithCancel(ctx)
}

// Part returns a context that ends when a part of the time until the deadline of ctx, in fractions, has passed.
func Part(ctx context.Context, numerator, denominator time.Duration) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)*numerator/denominator)
}

// memory selects the caches that a lookup may write: of the verdict Owned, and of denials. Cached denials are read only if they may be
// written. A patient lookup waits for earlier ones of its tenant, because it is not denied without an answer: a provider that creates ten
// machines at once can have more first claims than lookups.
type memory struct{ owned, denied, patient bool }

// Instances lists all instances of an account for a tenant, before ctx ends. lister lists them; nil means the cloud of the account. It has the
// limits and errors of Decide. Lists are not cached.
func (g *Gate) Instances(ctx context.Context, tenant share.Tenant, account Account, lister Lister) ([]Instance, error) {
	instances, err := fly(ctx, g, fmt.Sprintf("list %q %q %p", tenant, account, lister), tenant, account.Cloud, false,
		func(ctx context.Context, cloud *limitedCloud) ([]Instance, error) {
			if lister == nil {
				lister = cloud
			}
			instances, _, err := lister.Instances(ctx, account)
			return instances, err
		})
	if err != nil {
		return nil, asUnknown(err)
	}
	return slices.Clone(instances), nil
}

func (g *Gate) decide(ctx context.Context, tenant share.Tenant, claim Claim, keep memory) (Answer, error) {
	if answer, found := g.remembered(claim, keep.denied); found {
		observe(claim.Cloud, string(answer.Verdict), sourceCache)
		return answer, nil
	}
	answer, err := fly(ctx, g, fmt.Sprintf("ask %t %q %q", keep.denied, tenant, claim), tenant, claim.Cloud, keep.patient,
		func(ctx context.Context, cloud *limitedCloud) (Answer, error) {
			if answer, found := g.remembered(claim, keep.denied); found { // an earlier lookup has ended in the meantime
				return answer, nil
			}
			answer, err := cloud.decide(ctx, claim)
			if err == nil {
				g.remember(claim, answer, keep)
			}
			return answer, err
		})
	if err != nil {
		unknown := asUnknown(err)
		observe(claim.Cloud, string(unknown.Cause), sourceCloud)
		return Answer{}, unknown
	}
	observe(claim.Cloud, string(answer.Verdict), sourceCloud)
	g.remember(claim, answer, keep) // the lookup may have been started by a dry run
	return answer, nil
}

// remembered returns a cached answer. It reads cached denials only if alsoDenied is true.
func (g *Gate) remembered(claim Claim, alsoDenied bool) (Answer, bool) {
	if answer, found := g.owned.GetIfPresent(claim); found {
		return answer, true
	}
	if !alsoDenied {
		return Answer{}, false
	}
	denied, found := g.denied.GetIfPresent(claim.instance())
	return denied.about(claim), found
}

// remember caches an answer. It does not cache Owned for credentials in a Secret: the claim does not change with the credentials, and they
// can become those of another project within the TTL.
func (g *Gate) remember(claim Claim, answer Answer, keep memory) {
	switch {
	case answer.Verdict != Owned && keep.denied:
		g.denied.SetIfAbsent(claim.instance(), denial{claim: claim, answer: answer}) // the TTL starts with the first
	case answer.Verdict == Owned && keep.owned && claim.Identity == Identity{}:
		g.owned.Set(claim, answer)
	}
}

// fly runs a lookup, or waits for the same lookup of the same tenant if it is in flight. The end of ctx ends only the wait of this caller:
// the lookup continues, and its answer is cached. Tenants do not share lookups, because a lookup counts for the tenant that started it.
func fly[T any](
	ctx context.Context, g *Gate, key string, tenant share.Tenant, cloudName string, patient bool,
	ask func(context.Context, *limitedCloud) (T, error),
) (found T, err error) {
	cloud, known := g.clouds[cloudName]
	if !known {
		return found, &UnknownError{Cause: CauseCloud, Err: fmt.Errorf("no access to the cloud %q is configured", cloudName)}
	}
	flight := g.inFlight.DoChan(key, func() (_ any, err error) {
		// singleflight would let a panic end the process.
		defer func() {
			if cause := recover(); cause != nil {
				err = &UnknownError{Cause: CauseCloud, Err: fmt.Errorf("panic: %v", cause)}
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		release, err := cloud.take(ctx, tenant, patient)
		if err != nil {
			return nil, err
		}
		defer release()
		return ask(ctx, cloud)
	})
	select {
	case result := <-flight:
		found, _ = result.Val.(T)
		return found, result.Err
	case <-ctx.Done():
		return found, &UnknownError{Cause: CauseTimeout, Err: ctx.Err()}
	}
}

// take counts a lookup in flight for a tenant until release is called.
func (c *limitedCloud) take(ctx context.Context, tenant share.Tenant, patient bool) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, busyAfter)
	defer cancel()
	if patient {
		if release, err = c.lookups.Wait(ctx, tenant, 1); err == nil {
			return release, nil
		}
	}
	release, err = c.lookups.Take(ctx, tenant, 1) // after a wait, it says who uses too much
	switch {
	case errors.Is(err, share.ErrExceeded):
		rejected.WithLabelValues(c.name).Inc()
		return nil, &UnknownError{Cause: CauseTenantBusy, RetryAfter: tenantRetryAfter, Err: err}
	case err != nil:
		return nil, &UnknownError{Cause: CauseBusy, Err: fmt.Errorf("wait for the lookups of other tenants: %w", err)}
	}
	return release, nil
}

func (c *limitedCloud) decide(ctx context.Context, claim Claim) (Answer, error) {
	answer, err := c.Ask(ctx, claim)
	if err == nil && answer.Verdict != Owned && answer.Verdict != Foreign && answer.Verdict != Absent {
		err = &UnknownError{Cause: CauseCloud, Err: fmt.Errorf("%q is no verdict", answer.Verdict)}
	}
	return answer, err
}

// asUnknown returns an *UnknownError for any error of a lookup.
func asUnknown(err error) *UnknownError {
	var unknown *UnknownError
	var region *RegionError
	var identity *IdentityError
	switch {
	case errors.As(err, &identity):
		return &UnknownError{Cause: CauseIdentity, Err: err}
	case errors.As(err, &region):
		return &UnknownError{Cause: CauseRegion, Err: err}
	case errors.As(err, &unknown):
		return unknown
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &UnknownError{Cause: CauseTimeout, Err: err}
	}
	return &UnknownError{Cause: CauseCloud, Err: err}
}
