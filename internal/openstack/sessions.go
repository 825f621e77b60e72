package openstack

import (
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

const (
	// rolesTTL is the TTL of the roles of a token: Keystone returns the current roles only with a new token.
	rolesTTL = 5 * time.Minute
	// usedFor is the part of its lifetime for which a token is used for Nova.
	usedFor = 0.8
	// rejectionTTL is the TTL of rejections. Keystone may lock a user after many failed authentications. It is shorter than the 10
	// seconds between the retries of controllers, so that a correction in Keystone has an effect at the next retry.
	rejectionTTL = 9 * time.Second
	// maxSessions is the maximum number of cached tokens. One takes some KiB.
	maxSessions = 5_000
	// authenticationsAtOnce is the number of concurrent authentications. A tenant can write any number of other credentials into Secrets, and
	// each of them is checked.
	authenticationsAtOnce = 32
	// tenantRetryAfter is the Retry-After for a tenant with too many authentications.
	tenantRetryAfter = 2 * time.Second
	// authTimeout is the timeout of an authentication, which continues if its callers are canceled.
	authTimeout = 30 * time.Second
)

// session is the result of an authentication: a token, or the rejection by Keystone.
type session struct {
	// rejection is Keystone's response if it rejects the credentials, "" if there is a token. It names no Secret, because several may contain the
	// same credentials.
	rejection string
	token     Token
	// secret is the token itself.
	secret    string
	endpoints []endpoint
	// began is the start of the authentication, by the local clock. The session is used until usedUntil.
	began, usedUntil time.Time
}

// usable reports whether the session may be used for Nova.
func usable(s *session) bool { return time.Now().Before(s.usedUntil) }

// recent reports whether the roles of the token are recent enough.
func recent(s *session) bool { return usable(s) && time.Since(s.began) < rolesTTL }

// begunSince returns a condition for authentications that began at that time or later.
func begunSince(at time.Time) func(*session) bool {
	return func(s *session) bool { return !s.began.Before(at) }
}

// otherThan returns a condition for tokens other than one that Nova rejected.
func otherThan(rejected *session) func(*session) bool {
	return func(s *session) bool { return s != rejected && usable(s) }
}

// sessions caches the results of authentications by the digest of the credentials, merges concurrent authentications, and limits those of
// each tenant.
type sessions struct {
	authenticate func(context.Context, *credentials) (*session, error)
	remembered   *otter.Cache[digest, *session]
	inFlight     singleflight.Group
	running      *share.Limit[share.Tenant]
}

func newSessions(authenticate func(context.Context, *credentials) (*session, error)) *sessions {
	return &sessions{authenticate: authenticate, running: share.New[share.Tenant](authenticationsAtOnce), remembered: otter.Must(&otter.Options[digest, *session]{
		MaximumSize: maxSessions,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(entry otter.Entry[digest, *session]) time.Duration {
			return max(time.Until(entry.Value.usedUntil), 1)
		}),
	})}
}

// get returns a session with a token for which wanted returns true. The error is an *ownership.IdentityError or an *ownership.UnknownError.
func (s *sessions) get(ctx context.Context, with *credentials, wanted func(*session) bool) (*session, error) {
	got, err := s.outcome(ctx, with, wanted)
	switch {
	case err != nil:
		return nil, err
	case got.rejection != "":
		return nil, with.rejected(got.rejection)
	}
	return got, nil
}

// outcome returns a session for which wanted returns true. It may be a rejection. The error is an *ownership.UnknownError.
func (s *sessions) outcome(ctx context.Context, with *credentials, wanted func(*session) bool) (*session, error) {
	if known := s.known(with, wanted); known != nil {
		return known, nil
	}
	got, err := s.wait(ctx, with, wanted)
	if err == nil && !wanted(got) {
		// The result is from an earlier authentication for another caller. An authentication that is in flight now began later.
		return s.wait(ctx, with, wanted)
	}
	return got, err
}

// known returns the cached session of the credentials, nil if there is none for which wanted returns true.
func (s *sessions) known(with *credentials, wanted func(*session) bool) *session {
	if known, found := s.remembered.GetIfPresent(with.key); found && wanted(known) {
		return known
	}
	return nil
}

// wait authenticates, or waits for an authentication with the same credentials that is in flight. The end of ctx ends only the wait of this
// caller.
func (s *sessions) wait(ctx context.Context, with *credentials, wanted func(*session) bool) (*session, error) {
	return cloudhttp.Together(ctx, &s.inFlight, string(with.key[:]), authTimeout, func(ctx context.Context) (*session, error) {
		if known := s.known(with, wanted); known != nil { // an earlier authentication has ended in the meantime
			return known, nil
		}
		release, err := s.running.Take(ctx, share.FromContext(ctx), 1)
		switch {
		case errors.Is(err, share.ErrExceeded): // at once: a tenant could otherwise make its own lookups take too long, as in an outage
			return nil, &ownership.UnknownError{Cause: ownership.CauseTenantBusy, RetryAfter: tenantRetryAfter, Err: err}
		case err != nil:
			return nil, cloudhttp.Unknown(ownership.CauseBusy, "", "wait for other authentications: %w", err)
		}
		defer release()
		got, err := s.authenticate(ctx, with)
		if err == nil { // other failures do not change the cached session
			s.remembered.Set(with.key, got)
		}
		return got, err
	})
}
