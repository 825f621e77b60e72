// Package impersonation gets access tokens of CloudSigma users that a service account may impersonate.
//
// There are two flows. CloudSigma's own flow has three steps: the service account's token, a UMA ticket for it, and the user token
// of the service provider API of the region. The flow of RFC 8693 has two: the service account's token, and the token exchange. The
// results are cached, so that most calls need no request, and a new user needs one.
//
// No error, log line or metric of this package contains a token or a secret. Of responses they contain only the status and
// registered error codes.
package impersonation

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

const (
	// maxTokens limits the memory of cached tokens. A token takes 1 or 2 KiB, at most 16.
	maxTokens = 10_000
	// workTimeout limits work that several callers share. Their own deadlines do not apply to it.
	workTimeout = 10 * time.Second
	// rejectionLife is how long a rejection is cached.
	rejectionLife = 5 * time.Second
	// refreshRetry is the time between two attempts to replace a token before it expires.
	refreshRetry = 2 * time.Second
	// maxUserBytes is the maximum length of an email address (RFC 5321 section 4.5.3.1).
	maxUserBytes = 320
)

// Options configure a Source. All fields are required except RootCAs, and ServiceProviderAPI with the flow TokenExchange.
type Options struct {
	// Flow is the flow to get a user token.
	Flow v1beta1.ImpersonationFlow
	// TokenPath is the path of the token endpoint, relative to the URL of the identity provider.
	TokenPath string
	// ServiceProviderAPI is the https URL template of the service provider API. {region} is replaced with the region.
	ServiceProviderAPI string
	// Audience is the audience of the UMA ticket (ServiceProvider) or of the user's token (TokenExchange).
	Audience string
	// RootCAs are the trusted CAs. Default: those of the system.
	RootCAs *x509.CertPool
	// Credentials returns the credentials of the service account. It is called if a user's token is not cached. The result may change. The
	// old credentials are used until the identity provider has accepted the new ones. The context ends after 10 s.
	Credentials func(context.Context) (Credentials, error)
}

// Source returns user tokens. It needs no Close: it has no goroutines except those of requests and connections.
type Source struct {
	options   Options
	transport http.RoundTripper
	tokens    *otter.Cache[key, issued]
	flights   singleflight.Group
	servers   sync.Map // of *server, by host and port
	// proven contains the last credentials that the identity provider accepted.
	proven atomic.Pointer[Credentials]
}

// key identifies a token of a user in a region, or without a user, the tokens of the service account itself. It contains the secret, so that
// a new secret needs new tokens.
type key struct {
	Credentials

	user, region string
}

// flight returns the key for singleflight. No two keys have the same.
func (k key) flight() string {
	return fmt.Sprintf("%q", []string{k.OAuthURL, k.ClientID, k.ClientSecret, k.user, k.region})
}

// New returns a source of tokens. It sends no request.
func New(options Options) *Source {
	return newSource(options, cloudhttp.NewTransport(options.RootCAs))
}

func newSource(options Options, transport http.RoundTripper) *Source {
	return &Source{options: options, transport: transport, tokens: otter.Must(&otter.Options[key, issued]{
		MaximumSize: maxTokens,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(entry otter.Entry[key, issued]) time.Duration {
			return max(time.Until(entry.Value.expires), 1)
		}),
		Clock: passiveClock{start: time.Now()},
	})}
}

// Token returns an access token of a user for a region. The error is an *ownership.UnknownError.
//
// If the token is not cached, one request serves all callers. Each caller waits until its own context ends at most. The request
// continues for the others, for at most 10 s.
func (s *Source) Token(ctx context.Context, user, region string) (string, error) {
	if err := validateUser(user, region); err != nil {
		return "", &ownership.UnknownError{Cause: ownership.CauseNotImpersonable, Err: err}
	}
	k := key{user: user, region: region}
	if proven := s.proven.Load(); proven != nil {
		k.Credentials = *proven
	}
	if _, found := s.tokens.GetIfPresent(k); !found {
		newest, err := s.credentials(ctx)
		if err != nil {
			return "", err
		}
		k.Credentials = newest
	}
	token, err := s.get(ctx, k, s.requestUser)
	return token.value, err
}

func validateUser(user, region string) error {
	switch {
	case user == "":
		return errors.New("the user is empty")
	case len(user) > maxUserBytes:
		return fmt.Errorf("the user is longer than %d bytes", maxUserBytes)
	}
	return ownership.CheckRegion(region, nil)
}

// Drop removes a user token that was obtained before sentAt, because the API responded with 401 to a request of that time. The
// service account's own tokens stay in the cache: if they are invalid, the next exchange detects it.
func (s *Source) Drop(user, region string, sentAt time.Time) {
	if proven := s.proven.Load(); proven != nil {
		s.drop(key{Credentials: *proven, user: user, region: region}, sentAt)
	}
}

// drop removes a token that was obtained before the given time, and reports whether there was one.
func (s *Source) drop(k key, before time.Time) (dropped bool) {
	s.tokens.ComputeIfPresent(k, func(token issued) (issued, otter.ComputeOp) {
		dropped = token.rejection == nil && !token.obtained.After(before)
		if dropped {
			return token, otter.InvalidateOp
		}
		return token, otter.CancelOp
	})
	return dropped
}

// get returns a token. If it is not cached, one request serves all callers. A token that is due is replaced in the background, so that no
// caller waits, and a failure of the identity provider matters only when the token has expired.
func (s *Source) get(ctx context.Context, k key, request func(context.Context, key) (issued, error)) (issued, error) {
	known, found := s.tokens.GetIfPresent(k)
	if found && !known.due() {
		return known.outcome()
	}
	renew := func(ctx context.Context) (issued, error) {
		return cloudhttp.Together(ctx, &s.flights, k.flight(), workTimeout, func(ctx context.Context) (issued, error) {
			if earlier, found := s.tokens.GetIfPresent(k); found && !earlier.due() {
				return earlier, nil // an earlier request has ended in the meantime
			}
			token, err := request(ctx, k)
			switch {
			case found && err != nil:
				s.postpone(ctx, k, err)
			case found && token.rejection != nil:
				s.postpone(ctx, k, token.rejection)
			case err == nil:
				s.tokens.Set(k, token)
			}
			return token, err
		})
	}
	if found {
		go func() { _, _ = renew(context.WithoutCancel(ctx)) }()
		return known.outcome()
	}
	token, err := renew(ctx)
	if err != nil {
		return issued{}, err
	}
	return token.outcome()
}

// postpone delays the next attempt to replace a token. It remains valid until it expires.
func (s *Source) postpone(ctx context.Context, k key, err error) {
	logf.FromContext(ctx).Info("cannot refresh a token; it is used until it expires", "error", err.Error())
	s.tokens.ComputeIfPresent(k, func(token issued) (issued, otter.ComputeOp) {
		token.refresh = time.Now().Add(refreshRetry)
		return token, otter.WriteOp
	})
}

// credentials returns the newest credentials, or the last accepted ones while the identity provider does not accept the newest.
func (s *Source) credentials(ctx context.Context) (Credentials, error) {
	newest, err := cloudhttp.Together(ctx, &s.flights, "", workTimeout, s.options.Credentials)
	if err == nil {
		err = newest.validate()
	}
	if _, ok := errors.AsType[*ownership.UnknownError](err); err != nil && !ok {
		err = cloudhttp.Unknown(ownership.CauseCredentials, "", "the credentials cannot be used: %w", err)
	}
	if err == nil {
		_, err = s.get(ctx, key{Credentials: newest}, s.requestAccount)
	}
	if err == nil {
		s.proven.Store(&newest)
		return newest, nil
	}
	older := s.proven.Load()
	unknown, _ := errors.AsType[*ownership.UnknownError](err)
	rejected := unknown != nil && unknown.Cause == ownership.CauseCredentials
	if older == nil || *older == newest || ctx.Err() != nil || !rejected && older.OAuthURL == newest.OAuthURL {
		return Credentials{}, err
	}
	logf.FromContext(ctx).Info("the newest credentials are not accepted; using the last accepted ones", "error", err.Error(), "older", older.String())
	return *older, nil
}

// passiveClock makes the cache remove expired entries during accesses, without a goroutine that needs an end. It is monotonic, so
// that changes of the system clock do not change lifetimes.
type passiveClock struct{ start time.Time }

// NowNano implements otter.Clock.
func (c passiveClock) NowNano() int64 { return int64(time.Since(c.start)) }

// Tick implements otter.Clock. The channel never receives a value.
func (passiveClock) Tick(time.Duration) <-chan time.Time { return nil }
