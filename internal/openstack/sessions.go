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
	// refusalBelievedFor is how long what Keystone says is enough to refuse. Whoever asks it again and again with credentials
	// that it refuses may have their user locked out. It is shorter than the 10 seconds that controllers wait before they try
	// again, so that whoever has repaired something at Keystone need not wait.
	refusalBelievedFor = 9 * time.Second
	// maxSessions bounds the memory of all tokens: one takes some KiB.
	maxSessions = 5_000
	// authTimeout bounds an authentication, which goes on when those who wait for it have left.
	authTimeout = 30 * time.Second
)

// session is what came of an authentication: a token, or that Keystone gives out none for the credentials.
type session struct {
	// refusal says that there is no token, nil where there is one.
	refusal *refused
	token   Token
	// secret is the token itself.
	secret    string
	endpoints []endpoint
	// began is when the authentication was begun, by our clock; the token, or the refusal, is used until usedUntil.
	began, usedUntil time.Time
}

// usable tells whether the token may be used for Nova, or the refusal be repeated.
func usable(s *session) bool { return time.Now().Before(s.usedUntil) }

// recent tells whether what the token says may still be believed.
func recent(s *session) bool { return usable(s) && time.Since(s.began) < believedFor }

// begunSince returns what wants an authentication that began at that time or later.
func begunSince(at time.Time) func(*session) bool {
	return func(s *session) bool { return !s.began.Before(at) }
}

// otherThan returns what wants another token than one that Nova refused.
func otherThan(refused *session) func(*session) bool {
	return func(s *session) bool { return s != refused && usable(s) }
}

// sessions remembers what came of authentications by the digest of the credentials, and makes each once for any number of
// callers.
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

// get returns a session with a token that is as wanted. The error is an *ownership.IdentityError or an *ownership.UnknownError.
func (s *sessions) get(ctx context.Context, with *credentials, wanted func(*session) bool) (*session, error) {
	got, err := s.outcome(ctx, with, wanted)
	var refusal *refused
	switch {
	case errors.As(err, &refusal):
		return nil, refusal.explain(with)
	case err != nil:
		return nil, err
	case got.refusal != nil:
		return nil, got.refusal.explain(with)
	}
	return got, nil
}

// outcome returns a session that is as wanted, be it a refusal. The error is a *refused or an *ownership.UnknownError.
func (s *sessions) outcome(ctx context.Context, with *credentials, wanted func(*session) bool) (*session, error) {
	if known := s.known(with, wanted); known != nil {
		return known, nil
	}
	got, err := s.wait(ctx, with, wanted)
	if err == nil && !wanted(got) {
		// What landed had begun for somebody who wanted less. Whatever is in flight now has begun after that.
		return s.wait(ctx, with, wanted)
	}
	return got, err
}

// known returns what is remembered of the credentials, nil where it is not as wanted.
func (s *sessions) known(with *credentials, wanted func(*session) bool) *session {
	if known, found := s.remembered.GetIfPresent(with.key); found && wanted(known) {
		return known
	}
	return nil
}

// wait gets a session together with all others who want one for these credentials at this time. The end of ctx ends the
// waiting of this caller only.
func (s *sessions) wait(ctx context.Context, with *credentials, wanted func(*session) bool) (*session, error) {
	flight := s.inFlight.DoChan(string(with.key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), authTimeout)
		defer cancel()
		if known := s.known(with, wanted); known != nil { // an earlier flight has landed since get looked
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

// renew authenticates. What is remembered is replaced by a token or by Keystone's own refusal, and forgotten where the
// credentials are refused otherwise. Any other failure changes nothing.
func (s *sessions) renew(ctx context.Context, with *credentials) (got *session, err error) {
	// singleflight would pass a panic on to nobody and end the process.
	defer func() {
		if cause := recover(); cause != nil {
			got, err = nil, unknown(ownership.CauseIdentityProvider, "", "%s request: panic: %v", opToken, cause)
		}
	}()
	began := time.Now()
	got, err = s.authenticate(ctx, with)
	var refusal *refused
	if errors.As(err, &refusal) {
		if !refusal.definite {
			s.remembered.Invalidate(with.key)
			return nil, err
		}
		got, err = &session{refusal: refusal, began: began, usedUntil: time.Now().Add(refusalBelievedFor)}, nil
	}
	if err == nil {
		s.remembered.Set(with.key, got)
	}
	return got, err
}
