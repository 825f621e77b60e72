package openstack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"warrantgate.dev/internal/ownership"
)

const (
	// believedFor is how long the roles of a token are taken for those that the user has: Keystone tells them anew only with
	// a new token.
	believedFor = 5 * time.Minute
	// usedFor is the part of its life for which a token is used for Nova.
	usedFor = 0.8
	// maxLife is the longest life of a token that is made use of, whatever Keystone says.
	maxLife = 24 * time.Hour
	// maxSessions bounds the memory of all tokens: one takes some KiB.
	maxSessions = 5_000
	// authTimeout bounds an authentication, which goes on when those who wait for it have left.
	authTimeout = 30 * time.Second
)

// session is a token that was given out for credentials.
type session struct {
	token Token
	// secret is the token itself.
	secret    string
	endpoints []endpoint
	// began is when the authentication was begun, by our clock; the token is used until usedUntil.
	began, usedUntil time.Time
}

// usable tells whether the token may be used for Nova.
func usable(s *session) bool { return time.Now().Before(s.usedUntil) }

// recent tells whether what the token says may still be believed.
func recent(s *session) bool { return usable(s) && time.Since(s.began) < believedFor }

// begunFromNow returns what wants a token whose authentication begins after the call.
func begunFromNow() func(*session) bool {
	now := time.Now()
	return func(s *session) bool { return !s.began.Before(now) }
}

// otherThan returns what wants another token than one that was refused.
func otherThan(refused *session) func(*session) bool {
	return func(s *session) bool { return s != refused && usable(s) }
}

// sessions remembers tokens by the digest of their credentials, and gets each once for any number of callers.
type sessions struct {
	authenticate func(context.Context, *credentials) (*session, error)
	remembered   *otter.Cache[digest, *session]
	inFlight     singleflight.Group
}

func newSessions(authenticate func(context.Context, *credentials) (*session, error)) (*sessions, error) {
	remembered, err := otter.New(&otter.Options[digest, *session]{
		MaximumSize: maxSessions,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(entry otter.Entry[digest, *session]) time.Duration {
			return max(time.Until(entry.Value.usedUntil), 1)
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("cache of tokens: %w", err)
	}
	return &sessions{authenticate: authenticate, remembered: remembered}, nil
}

// get returns a session that is as wanted. The error is an *ownership.IdentityError or an *ownership.UnknownError.
func (s *sessions) get(ctx context.Context, with *credentials, wanted func(*session) bool) (*session, error) {
	if known, found := s.remembered.GetIfPresent(with.key); found && wanted(known) {
		return known, nil
	}
	got, err := s.wait(ctx, with, wanted)
	if err == nil && !wanted(got) {
		// What landed had begun for somebody who wanted less. Whatever is in flight now has begun after that.
		got, err = s.wait(ctx, with, wanted)
	}
	var refusal *refused
	if errors.As(err, &refusal) {
		return nil, refusal.explain(with)
	}
	return got, err
}

// wait gets a session together with all others who want one for these credentials at this time. The end of ctx ends the
// waiting of this caller only.
func (s *sessions) wait(ctx context.Context, with *credentials, wanted func(*session) bool) (*session, error) {
	flight := s.inFlight.DoChan(string(with.key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), authTimeout)
		defer cancel()
		if known, found := s.remembered.GetIfPresent(with.key); found && wanted(known) { // an earlier flight has landed since get looked
			return known, nil
		}
		return s.renew(ctx, with)
	})
	select {
	case landed := <-flight:
		got, _ := landed.Val.(*session)
		return got, landed.Err
	case <-ctx.Done():
		return nil, unknown(ownership.CauseTimeout, "", "%s request: no answer in time", opToken)
	}
}

// renew authenticates. What is remembered is replaced, and forgotten where the credentials are refused.
func (s *sessions) renew(ctx context.Context, with *credentials) (got *session, err error) {
	// singleflight would pass a panic on to nobody and end the process.
	defer func() {
		if cause := recover(); cause != nil {
			got, err = nil, unknown(ownership.CauseIdentityProvider, "", "%s request: panic: %v", opToken, cause)
		}
	}()
	got, err = s.authenticate(ctx, with)
	var refusal *refused
	switch {
	case err == nil:
		s.remembered.Set(with.key, got)
	case errors.As(err, &refusal):
		s.remembered.Invalidate(with.key)
	}
	return got, err
}
