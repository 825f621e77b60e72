package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

const (
	// ownedFor is how long an instance that is the user's is taken for the user's. Instances do not change hands often.
	ownedFor = 5 * time.Minute
	// refusedFor is how long a refusal is said again without asking. It is shorter than the 10 seconds that providers wait
	// before they try again, so that only a hot loop ever sees it.
	refusedFor = 9 * time.Second
	// maxRemembered bounds the memory of all answers: one takes some 500 bytes.
	maxRemembered = 20_000
	// lookupTimeout bounds a question to the cloud. It is longer than an API server waits, because an answer that comes
	// too late for one request is there for the next.
	lookupTimeout = 10 * time.Second
	// maxWaitingPerSlot bounds how many questions wait for each that is being asked.
	maxWaitingPerSlot = 32
)

// Gate decides claims. It remembers answers, asks each question once for any number of callers, and asks each cloud
// only so many at a time.
type Gate struct {
	clouds   map[string]*limitedCloud
	answers  *otter.Cache[Claim, Answer]
	inFlight singleflight.Group
}

// limitedCloud is a cloud that is asked only so many questions at a time.
type limitedCloud struct {
	Cloud
	slots *semaphore.Weighted
	// places has room for all who are being answered or wait for it.
	places *semaphore.Weighted
}

// NewGate returns a gate for the clouds, by the word for each in Account. concurrency is how many questions are put to each
// at the same time at most, by the same words. Close frees what it holds.
func NewGate(clouds map[string]Cloud, concurrency map[string]int32) (*Gate, error) {
	answers, err := otter.New(&otter.Options[Claim, Answer]{
		MaximumSize:      maxRemembered,
		ExpiryCalculator: otter.ExpiryWritingFunc(lifeOf),
	})
	if err != nil {
		return nil, fmt.Errorf("cache of verdicts: %w", err)
	}
	g := &Gate{clouds: make(map[string]*limitedCloud, len(clouds)), answers: answers}
	for name, cloud := range clouds {
		slots := max(int64(concurrency[name]), 1)
		g.clouds[name] = &limitedCloud{
			Cloud: cloud, slots: semaphore.NewWeighted(slots), places: semaphore.NewWeighted(slots * (maxWaitingPerSlot + 1)),
		}
	}
	return g, nil
}

func lifeOf(entry otter.Entry[Claim, Answer]) time.Duration {
	if entry.Value.Verdict == Owned {
		return ownedFor
	}
	return refusedFor
}

// Close frees what the gate holds.
func (g *Gate) Close() { g.answers.StopAllGoroutines() }

// Decide answers the claim before ctx ends. The error is an *UnknownError: no answer could be found, and the caller
// has to refuse. Errors are not remembered.
func (g *Gate) Decide(ctx context.Context, claim Claim) (Answer, error) {
	return g.decide(ctx, claim, true)
}

// Preview is Decide without remembering the answer, for requests that are not to have any effect (dry run).
func (g *Gate) Preview(ctx context.Context, claim Claim) (Answer, error) {
	return g.decide(ctx, claim, false)
}

func (g *Gate) decide(ctx context.Context, claim Claim, remember bool) (Answer, error) {
	if answer, found := g.answers.GetIfPresent(claim); found {
		observe(claim.Cloud, string(answer.Verdict), sourceCache)
		return answer, nil
	}
	answer, err := g.ask(ctx, claim, remember)
	if err != nil {
		unknown := asUnknown(err)
		observe(claim.Cloud, string(unknown.Cause), sourceCloud)
		return Answer{}, unknown
	}
	observe(claim.Cloud, string(answer.Verdict), sourceCloud)
	if remember { // also where somebody who previews had begun to ask
		g.answers.Set(claim, answer)
	}
	return answer, nil
}

// ask puts the question to the cloud, together with all others who ask the same at this time. The end of ctx ends the
// waiting of this caller only: the answer is remembered even if nobody waits for it any more.
func (g *Gate) ask(ctx context.Context, claim Claim, remember bool) (Answer, error) {
	cloud, known := g.clouds[claim.Cloud]
	if !known {
		return Answer{}, &UnknownError{Cause: CauseCloud, Err: fmt.Errorf("no access to the cloud %q is configured", claim.Cloud)}
	}
	flight := g.inFlight.DoChan(fmt.Sprintf("%q", claim), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(withPatience(ctx)), lookupTimeout)
		defer cancel()
		if answer, found := g.answers.GetIfPresent(claim); found { // an earlier flight has landed since decide looked
			return answer, nil
		}
		answer, err := cloud.ask(ctx, claim)
		if err == nil && remember {
			g.answers.Set(claim, answer)
		}
		return answer, err
	})
	select {
	case landed := <-flight:
		answer, _ := landed.Val.(Answer)
		return answer, landed.Err
	case <-ctx.Done():
		return Answer{}, &UnknownError{Cause: CauseTimeout, Err: ctx.Err()}
	}
}

func (c *limitedCloud) ask(ctx context.Context, claim Claim) (_ Answer, err error) {
	// singleflight would pass a panic on to nobody and end the process.
	defer func() {
		if cause := recover(); cause != nil {
			err = &UnknownError{Cause: CauseCloud, Err: fmt.Errorf("panic: %v", cause)}
		}
	}()
	if !c.places.TryAcquire(1) {
		return Answer{}, &UnknownError{Cause: CauseBusy, Err: errors.New("too many questions to the cloud are waiting")}
	}
	defer c.places.Release(1)
	waiting.WithLabelValues(claim.Cloud).Inc()
	err = c.slots.Acquire(ctx, 1)
	waiting.WithLabelValues(claim.Cloud).Dec()
	if err != nil {
		return Answer{}, &UnknownError{Cause: CauseBusy, Err: fmt.Errorf("wait to ask the cloud: %w", err)}
	}
	defer c.slots.Release(1)

	answer, err := c.Ask(ctx, claim)
	if err == nil && answer.Verdict != Owned && answer.Verdict != Foreign && answer.Verdict != Absent {
		err = &UnknownError{Cause: CauseCloud, Err: fmt.Errorf("%q is no verdict", answer.Verdict)}
	}
	return answer, err
}

// asUnknown makes an error of any kind one that says why there is no verdict.
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
