// Package impersonation gets access tokens of CloudSigma users that a service account may impersonate.
//
// There are two flows. CloudSigma's own flow has three steps: the service account's token, a UMA ticket for it, and the user token
// of the service provider API of the region. The flow of RFC 8693 has two: the service account's token, and the token exchange. The
// results of all steps are cached, so that most calls need no request, and a new user needs one.
//
// No error, log line or metric of this package contains a token or a secret. Of responses they contain only the status and
// registered error codes.
package impersonation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
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
	// Credentials returns the credentials of the service account. It is called if a token is not cached: a few times per token, but
	// never concurrently. The result may change. The old credentials are used until the identity provider has accepted the new ones.
	// The context ends after 10 s.
	Credentials func(context.Context) (Credentials, error)
}

func (o Options) validate() error {
	var faults []error
	switch o.Flow {
	case v1beta1.TokenExchange:
	case v1beta1.ServiceProvider:
		if _, err := serviceProviderURL(o.ServiceProviderAPI, "zrh"); err != nil {
			faults = append(faults, fmt.Errorf("the URL of the service provider API %w", err))
		}
	default:
		faults = append(faults, fmt.Errorf("the flow %q is not supported: must be %q or %q", o.Flow, v1beta1.ServiceProvider, v1beta1.TokenExchange))
	}
	if !strings.HasPrefix(o.TokenPath, "/") || path.Clean(o.TokenPath) != o.TokenPath || strings.ContainsAny(o.TokenPath, "?#%") {
		faults = append(faults, fmt.Errorf("the token path %q must be a plain path that begins with /", o.TokenPath))
	}
	if o.Audience == "" {
		faults = append(faults, errors.New("the audience is empty"))
	}
	if o.Credentials == nil {
		faults = append(faults, errors.New("the source of credentials is missing"))
	}
	return errors.Join(faults...)
}

// Source returns user tokens. It needs no Close: it has no goroutines except those of connections.
type Source struct {
	options   Options
	transport http.RoundTripper
	guards    *guards
	accounts  *tokenCache[Credentials] // the key contains the secret, so that a new secret needs a new token
	tickets   *tokenCache[key]
	users     *tokenCache[key]
	// proven contains the last credentials that the identity provider accepted.
	proven  atomic.Pointer[Credentials]
	reading singleflight.Group
}

// key identifies a token: issuer, client, user and audience.
type key struct {
	issuer, client, subject, audience, region string
}

// New returns a source of tokens. It sends no request.
func New(options Options) (*Source, error) {
	return newSource(options, &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: options.RootCAs},
		TLSHandshakeTimeout:   3 * time.Second,
		ResponseHeaderTimeout: requestTimeout,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   8,
		ForceAttemptHTTP2:     true,
	})
}

func newSource(options Options, transport http.RoundTripper) (*Source, error) {
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("impersonation: %w", err)
	}
	s := &Source{options: options, transport: transport}
	var faults [4]error
	s.guards, faults[0] = newGuards()
	s.accounts, faults[1] = newTokenCache(s.requestAccount, func() {}, stepAccount)
	s.tickets, faults[2] = newTokenCache(s.loadTicket, func() {})
	s.users, faults[3] = newTokenCache(s.loadUser, func() { countCache(cacheRefresh) }, stepImpersonate, stepExchange)
	return s, errors.Join(faults[:]...)
}

// Token returns an access token of a user for a region. The error is an *ownership.UnknownError.
//
// If the token is not cached, one request serves all callers. Each caller waits until its own context ends at most. The request
// continues for the others, for at most 10 s.
func (s *Source) Token(ctx context.Context, user, region string) (string, error) {
	token, err := s.token(ctx, user, region)
	if err != nil {
		return "", asUnknown(err)
	}
	return token.value, nil
}

func (s *Source) token(ctx context.Context, user, region string) (issued, error) {
	if err := validateUser(user, region); err != nil {
		return issued{}, &ownership.UnknownError{Cause: ownership.CauseNotImpersonable, Err: err}
	}
	if proven := s.proven.Load(); proven != nil {
		if token, found := s.users.hit(ctx, s.userKey(*proven, user, region)); found {
			countCache(cacheHit)
			return token, token.rejection
		}
	}
	countCache(cacheMiss)
	credentials, _, err := s.account(ctx)
	if err != nil {
		return issued{}, err
	}
	return s.users.get(ctx, s.userKey(credentials, user, region))
}

// Drop removes a user token that was obtained before sentAt, because the API responded with 401 to a request of that time. The
// service account's own tokens stay in the cache: if they are invalid, the next exchange detects it.
func (s *Source) Drop(user, region string, sentAt time.Time) {
	if proven := s.proven.Load(); proven != nil {
		s.users.drop(s.userKey(*proven, user, region), sentAt)
	}
}

// maxUserBytes is the maximum length of an email address (RFC 5321 section 4.5.3.1).
const maxUserBytes = 320

func validateUser(user, region string) error {
	switch {
	case user == "":
		return errors.New("the user is empty")
	case len(user) > maxUserBytes:
		return fmt.Errorf("the user is longer than %d bytes", maxUserBytes)
	}
	return ownership.CheckRegion(region, nil)
}

func (s *Source) userKey(credentials Credentials, user, region string) key {
	return key{
		issuer: credentials.OAuthURL, client: credentials.ClientID, audience: s.options.Audience, subject: user, region: region,
	}
}

// errSuperseded is the error of a refresh of a token that is no longer in use.
var errSuperseded = &ownership.UnknownError{
	Cause: ownership.CauseIdentityProvider, Err: errors.New("the credentials were replaced by those of another client; try again"),
}

// loadUser requests a user token. If the service account's token or ticket came from the cache and may be the reason for a
// rejection, loadUser drops it and repeats all steps once.
func (s *Source) loadUser(ctx context.Context, k key) (issued, error) {
	began := time.Now()
	token, credentials, cached, err := s.request(ctx, k, began)
	if failed, ok := errors.AsType[*requestError](err); ok && failed.stale() && cached {
		s.accounts.drop(credentials, began)
		s.tickets.drop(ticketKey(k), began)
		token, _, _, err = s.request(ctx, k, began)
	}
	return token, err
}

// request runs the steps to a user token once. It returns the credentials in use, and whether a token was obtained before began.
func (s *Source) request(ctx context.Context, k key, began time.Time) (token issued, credentials Credentials, cached bool, err error) {
	credentials, account, err := s.account(ctx)
	switch {
	case err != nil:
		return issued{}, credentials, false, err
	case credentials.OAuthURL != k.issuer || credentials.ClientID != k.client:
		return issued{}, credentials, false, errSuperseded
	}
	cached = !account.obtained.After(began)
	if s.options.Flow == v1beta1.TokenExchange {
		token, err = s.exchange(ctx, credentials, account, k.subject)
		return token, credentials, cached, err
	}
	ticket, err := s.tickets.get(ctx, ticketKey(k))
	if err != nil {
		return issued{}, credentials, cached, err
	}
	token, err = s.impersonate(ctx, ticket, account, k)
	return token, credentials, cached || !ticket.obtained.After(began), err
}

func ticketKey(k key) key { return key{issuer: k.issuer, client: k.client, audience: k.audience} }

func (s *Source) loadTicket(ctx context.Context, k key) (issued, error) {
	credentials, account, err := s.account(ctx)
	switch {
	case err != nil:
		return issued{}, err
	case credentials.OAuthURL != k.issuer || credentials.ClientID != k.client:
		return issued{}, errSuperseded
	}
	return s.requestTicket(ctx, credentials.OAuthURL, account)
}

// account returns a token of the service account and its credentials: the newest ones, or the last accepted ones while the identity
// provider does not accept the newest.
func (s *Source) account(ctx context.Context) (Credentials, issued, error) {
	older := s.proven.Load()
	newest, err := s.readCredentials(ctx)
	if err == nil {
		var token issued
		if token, err = s.accounts.get(ctx, newest); err == nil {
			s.proven.Store(&newest)
			return newest, token, nil
		}
		elsewhere := older != nil && older.OAuthURL != newest.OAuthURL
		if older != nil && *older == newest || causeOf(err) != ownership.CauseCredentials && !elsewhere {
			return Credentials{}, issued{}, err
		}
	}
	if older == nil || ctx.Err() != nil {
		return Credentials{}, issued{}, err
	}
	logf.FromContext(ctx).Info("the newest credentials are not accepted; using the last accepted ones", "error", err.Error(), "older", older.String())
	token, err := s.accounts.get(ctx, *older)
	return *older, token, err
}

// readCredentials reads the credentials once for all concurrent callers.
func (s *Source) readCredentials(ctx context.Context) (Credentials, error) {
	if err := ctx.Err(); err != nil {
		return Credentials{}, err
	}
	read := s.reading.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
		defer cancel()
		credentials, err := s.options.Credentials(ctx)
		if err == nil {
			err = credentials.validate()
		}
		return credentials, err
	})
	select {
	case result := <-read:
		if result.Err != nil {
			return Credentials{}, &ownership.UnknownError{Cause: ownership.CauseCredentials, Err: fmt.Errorf("the credentials cannot be used: %w", result.Err)}
		}
		return result.Val.(Credentials), nil //nolint:errcheck // the type is that of the function above
	case <-ctx.Done():
		return Credentials{}, ctx.Err()
	}
}
