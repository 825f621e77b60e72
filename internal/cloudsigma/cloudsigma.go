// Package cloudsigma asks CloudSigma whose a server is, as the user who claims it.
//
// The verdict rests on what the cloud answers to that user: a server that it shows has an owner, which is the user or is
// not; one that it refuses is another's, and one that it does not know is none. No verdict is cached, only the UUIDs of
// users. Nothing here asks again after a failure, except once with another token: who asks, decides whether to go on.
package cloudsigma

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// defaultUserAgent is how CloudSigma sees us unless told otherwise.
const defaultUserAgent = "warrantgate"

// Tokens are the tokens with which warrantgate acts as users.
type Tokens interface {
	// Token returns a token of the user in the region. The error is an *ownership.UnknownError.
	Token(ctx context.Context, user, region string) (string, error)
	// Drop says that the cloud refused a token in a request begun at asked, so that no token is given out again that is
	// older than that.
	Drop(user, region string, asked time.Time)
}

// LegacyCredentials are those of one fixed account.
type LegacyCredentials struct {
	// Username is the account's email.
	Username string
	Password string
}

// Options say how CloudSigma is asked. Either Tokens or Legacy has to be given.
type Options struct {
	// Tokens are the tokens of the users whose servers are claimed.
	Tokens Tokens
	// Legacy returns the credentials of the account that asks every question, whoever the user is. It is called for each
	// question, so that they can change.
	Legacy func() (LegacyCredentials, error)
	// Regions are the regions that may be asked. Default: any that looks like one.
	Regions []string
	// API is the URL of a region's API, with https; {region} stands for the region. Default:
	// https://{region}.cloudsigma.com/api/2.0/.
	API string
	// RootCAs are the certificate authorities to trust. Default: those of the system.
	RootCAs *x509.CertPool
	// UserAgent is how CloudSigma sees us. Default: warrantgate.
	UserAgent string
}

// Cloud is CloudSigma. Its methods may be called at the same time.
type Cloud struct {
	tokens    Tokens
	legacy    func() (LegacyCredentials, error)
	endpoints endpoints
	transport http.RoundTripper
	userAgent string
	profiles  *otter.Cache[profileKey, profile]
}

var _ ownership.Cloud = &Cloud{}

// New returns CloudSigma as the options say, or what is wrong with them. It sends no request.
func New(options Options) (*Cloud, error) {
	return newCloud(options, cloudhttp.NewTransport(options.RootCAs))
}

func newCloud(options Options, transport http.RoundTripper) (*Cloud, error) {
	if (options.Tokens == nil) == (options.Legacy == nil) {
		return nil, errors.New("either tokens of users or the credentials of one account are needed, and not both")
	}
	endpoints, err := newEndpoints(options.API, options.Regions)
	if err != nil {
		return nil, err
	}
	profiles, err := newProfiles()
	if err != nil {
		return nil, err
	}
	userAgent := options.UserAgent
	if userAgent == "" {
		userAgent = defaultUserAgent
	}
	return &Cloud{
		tokens: options.Tokens, legacy: options.Legacy, endpoints: endpoints, transport: transport,
		userAgent: userAgent, profiles: profiles,
	}, nil
}

// Ask implements ownership.Cloud. Once the user's UUID is known, a server that is the user's own costs one request.
//
// Besides an *ownership.UnknownError, Ask may return an *ownership.RegionError, and ownership.ParseInstanceID's error for an ID that is none.
func (c *Cloud) Ask(ctx context.Context, claim ownership.Claim) (ownership.Answer, error) {
	id, err := ownership.ParseInstanceID(claim.ID)
	if err != nil {
		return ownership.Answer{}, err
	}
	q, err := c.ask(claim.Account)
	if err != nil {
		return ownership.Answer{}, err
	}
	var s server
	x, err := q.get(ctx, request{operation: opServer, path: []string{"servers", id}, limit: maxBytes}, &s)
	switch {
	case err == nil:
		return q.judge(ctx, claim, id, s, x)
	case x == nil:
		return ownership.Answer{}, err
	case x.Status == http.StatusNotFound:
		return q.refuse(ctx, claim, ownership.Answer{
			Verdict: ownership.Absent, Response: "404 not found", RequestID: x.RequestID(),
		})
	// Operations that are not possible are answered 403 as well, and so does whoever stands before the API. They say
	// nothing about the server.
	case x.Status == http.StatusForbidden && x.refusal.kind == kindPermission:
		return q.refuse(ctx, claim, ownership.Answer{
			Verdict: ownership.Foreign, Response: "403 permission", RequestID: x.RequestID(), UserID: x.refusal.userID,
		})
	default:
		return ownership.Answer{}, err
	}
}

// judge looks at whose a server is that the user can see. That may be another's, who shares it.
func (q *question) judge(ctx context.Context, claim ownership.Claim, id string, s server, x *exchange) (ownership.Answer, error) {
	if got, ok := ownership.PlainUUID(s.UUID); !ok || got != id {
		return ownership.Answer{}, unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer is about another server", opServer)
	}
	owner, ok := ownership.PlainUUID(s.Owner.UUID)
	if !ok {
		return ownership.Answer{}, unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer names no owner", opServer)
	}
	user, err := q.profile(ctx)
	if err != nil {
		return ownership.Answer{}, err
	}
	if owner != user.id {
		return q.refuse(ctx, claim, ownership.Answer{
			Verdict: ownership.Foreign, Response: "200, owned by another user", RequestID: x.RequestID(),
		})
	}
	return ownership.Answer{Verdict: ownership.Owned, UserID: user.id, Response: "200", RequestID: x.RequestID()}, nil
}

// refuse completes a refusal with what helps to understand it. The refusal stands where that cannot be found out, unless
// it turns out that it was given to somebody else than the user.
func (q *question) refuse(ctx context.Context, claim ownership.Claim, answer ownership.Answer) (ownership.Answer, error) {
	ctx, cancel := cloudhttp.Half(ctx)
	defer cancel()
	user, err := q.profile(ctx)
	var u *ownership.UnknownError
	if errors.As(err, &u) && u.Cause == ownership.CauseNotImpersonable {
		return ownership.Answer{}, err
	}
	if err == nil {
		answer.UserID = user.id
		answer.Candidates = q.candidates(ctx, claim, user.id)
	}
	return answer, nil
}
