// Package cloudsigma checks the owner of a CloudSigma server. It sends its requests as the user who claims the server.
//
// The response of the cloud to this user decides. If the cloud returns the server, the package compares the owner with the user. If
// it denies access, the server belongs to another user. If it does not know the server, the server does not exist. The profile shows
// that the response is one to this user. Only the UUIDs of users are cached, no verdicts. After a failure the package does not retry,
// except once with another token. Retries are up to the caller.
package cloudsigma

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/maypok86/otter/v2"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// Tokens provides the tokens to impersonate users.
type Tokens interface {
	// Token returns a token of the user for the region. The error is an *ownership.UnknownError.
	Token(ctx context.Context, user, region string) (string, error)
	// Drop reports that the cloud rejected a token in a request of that time. Token must then not return a token that is
	// older than sentAt.
	Drop(user, region string, sentAt time.Time)
}

// LegacyCredentials are the credentials of one fixed account.
type LegacyCredentials struct {
	// Username is the email of the account.
	Username string
	Password string
}

// Options configure a Cloud. Tokens, Legacy or both are required. The configuration file is validated before.
type Options struct {
	// Tokens provides the tokens of the users who claim servers.
	Tokens Tokens
	// Legacy returns the credentials of one account. It sends the requests for accounts without a user and, without Tokens, all requests. It is
	// called for each lookup, because the credentials may change.
	Legacy func() (LegacyCredentials, error)
	// Regions are the allowed regions. Default: every valid name of a region.
	Regions []string
	// API and LegacyAPI are the URL templates of the APIs for tokens of users and for the legacy credentials. {region} is replaced with the region.
	API, LegacyAPI string
	// RootCAs are the trusted CAs. Default: those of the system.
	RootCAs *x509.CertPool
	// UserAgent is the User-Agent header.
	UserAgent string
}

// Cloud is a client of CloudSigma. Its methods are safe for concurrent use.
type Cloud struct {
	options   Options
	transport http.RoundTripper
	profiles  *otter.Cache[profileKey, profile]
}

var _ ownership.Cloud = &Cloud{}

// New returns a client. It sends no request.
func New(options Options) *Cloud {
	return newCloud(options, cloudhttp.NewTransport(options.RootCAs))
}

func newCloud(options Options, transport http.RoundTripper) *Cloud {
	options.Regions = slices.Sorted(slices.Values(options.Regions))
	return &Cloud{options: options, transport: transport, profiles: otter.Must(&otter.Options[profileKey, profile]{
		MaximumSize:      maxProfiles,
		ExpiryCalculator: otter.ExpiryWriting[profileKey, profile](profileLife),
	})}
}

// Stop ends the goroutines and idle connections of the cloud. A cloud that is used until the end of the process needs no Stop.
func (c *Cloud) Stop() {
	c.profiles.StopAllGoroutines()
	if transport, ok := c.transport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// API returns the URL of the API that requests about an account are sent to. It sends none. The error is an *ownership.RegionError or an
// *ownership.UnknownError.
func (c *Cloud) API(_ context.Context, account ownership.Account) (string, error) {
	l, err := c.newLookup(account)
	if err != nil {
		return "", err
	}
	return l.api.String(), nil
}

// Ask implements ownership.Cloud. If the user's UUID is cached and the user owns the server, it sends one request.
//
// Besides an *ownership.UnknownError, Ask may return an *ownership.RegionError, and the error of ownership.ParseInstanceID for an
// invalid ID.
func (c *Cloud) Ask(ctx context.Context, claim ownership.Claim) (ownership.Answer, error) {
	id, err := ownership.ParseInstanceID(claim.ID)
	if err != nil {
		return ownership.Answer{}, err
	}
	l, err := c.newLookup(claim.Account)
	if err != nil {
		return ownership.Answer{}, err
	}
	var s server
	x, err := l.get(ctx, request{operation: opServer, path: []string{"servers", id}, limit: cloudhttp.MaxBytes}, &s)
	switch {
	case err == nil:
		return l.compareOwner(ctx, claim, id, s, x)
	case x == nil:
		return ownership.Answer{}, err
	// Proxies in front of the cloud also use 404.
	case x.Status == http.StatusNotFound && x.Kind != "":
		return l.denied(ctx, claim, ownership.Answer{
			Verdict: ownership.Absent, Response: "404 not found", RequestID: x.RequestID(),
		})
	// The cloud, and proxies in front of it, also use 403 for operations that are not available. Such a response does not show who owns the
	// server.
	case x.Status == http.StatusForbidden && x.Kind == kindPermission:
		return l.denied(ctx, claim, ownership.Answer{
			Verdict: ownership.Foreign, Response: "403 permission", RequestID: x.RequestID(), UserID: x.userID,
		})
	default:
		return ownership.Answer{}, err
	}
}

// compareOwner compares the owner of a server that the user can see with the user. The server may belong to another user who shares it.
func (l *lookup) compareOwner(ctx context.Context, claim ownership.Claim, id string, s server, x *exchange) (ownership.Answer, error) {
	if got, err := ownership.ParseInstanceID(s.UUID); err != nil || got != id {
		return ownership.Answer{}, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer contains another server", opServer)
	}
	owner, err := ownership.ParseInstanceID(s.Owner.UUID)
	if err != nil {
		return ownership.Answer{}, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer names no owner", opServer)
	}
	user, err := l.profile(ctx)
	if err != nil {
		return ownership.Answer{}, err
	}
	if owner != user.id {
		return l.denied(ctx, claim, ownership.Answer{
			Verdict: ownership.Foreign, Response: "200, owned by another user", RequestID: x.RequestID(),
		})
	}
	return ownership.Answer{Verdict: ownership.Owned, UserID: user.id, Response: "200", RequestID: x.RequestID()}, nil
}

// denied returns a denial of the cloud, with information that explains it, if it is about the claimed user. A 403 is no verdict if the profile
// or the response itself names another user, or if the profile is not available. A 404 without a profile remains a denial, because it is the
// same for every user. If the other information is not available, the denial remains.
func (l *lookup) denied(ctx context.Context, claim ownership.Claim, answer ownership.Answer) (ownership.Answer, error) {
	ctx, cancel := cloudhttp.Half(ctx)
	defer cancel()
	user, err := l.profile(ctx)
	var u *ownership.UnknownError
	switch {
	case answer.Verdict == ownership.Absent && errors.As(err, &u) && u.Cause != ownership.CauseWrongUser:
		return answer, nil
	case err != nil:
		return ownership.Answer{}, err
	case l.user != "" && answer.UserID != "" && answer.UserID != user.id: // the profile is from the cache, and the API has changed since
		l.cloud.profiles.Invalidate(l.key)
		return ownership.Answer{}, l.wrongUser(answer.UserID, answer.RequestID)
	}
	answer.UserID = user.id
	answer.Candidates = l.candidates(ctx, claim, user.id)
	return answer, nil
}
