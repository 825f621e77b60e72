package openstack

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// lookup sends requests to Nova with one set of credentials, in one region.
type lookup struct {
	cloud       *Cloud
	credentials *credentials
	region      string

	session *session
	// nova is the URL of Nova's API.
	nova string
	// requests is the number of requests to Nova.
	requests int
}

// newLookup starts a lookup. The error is an *ownership.IdentityError, an *ownership.RegionError or an *ownership.UnknownError.
func (c *Cloud) newLookup(ctx context.Context, account ownership.Account) (*lookup, error) {
	with, err := c.credentials(ctx, account.Identity)
	if err != nil {
		return nil, err
	}
	l := &lookup{cloud: c, credentials: with, region: cmp.Or(account.Region, with.region)}
	if err := l.authenticate(ctx, usable); err != nil {
		return nil, err
	}
	return l, nil
}

// authenticate sets the token and the URL of Nova.
func (l *lookup) authenticate(ctx context.Context, wanted func(*session) bool) error {
	s, err := l.cloud.sessions.get(ctx, l.credentials, wanted)
	if err != nil {
		return err
	}
	if err := unscoped(l.credentials.identity, s.token); err != nil {
		return err
	}
	at, err := s.nova(l.region, l.credentials)
	if err != nil {
		return err
	}
	l.session, l.nova = s, at
	return nil
}

// project returns the ID of the project of the credentials.
func (l *lookup) project() string { return l.session.token.ProjectID }

// request is one GET.
type request struct {
	operation cloudhttp.Operation
	// limit is the maximum size of the response, in bytes.
	limit int64
	// send sends the request and decodes the response.
	send func(ctx context.Context, nova *gophercloud.ServiceClient) error
}

// get sends a request. After 401 it repeats the request once with a new token. It has the errors of newLookup. The exchange has the details. It is
// nil if there is no new token.
func (l *lookup) get(ctx context.Context, r request) (*cloudhttp.Exchange, error) {
	x, err := l.try(ctx, r)
	if x.Status != http.StatusUnauthorized {
		return x, err
	}
	if err := l.authenticate(ctx, otherThan(l.session)); err != nil {
		return nil, err
	}
	return l.try(ctx, r)
}

func (l *lookup) try(ctx context.Context, r request) (*cloudhttp.Exchange, error) {
	x := newExchange(l.credentials.transport, r.operation, r.limit)
	l.requests++
	began := time.Now()
	err := r.send(ctx, &gophercloud.ServiceClient{
		ProviderClient: newClient(x, l.cloud.userAgent, l.session.secret), Endpoint: l.nova, Type: serviceCompute,
	})
	requests.Observe(r.operation, x.Status, err == nil, time.Since(began))
	switch {
	case err == nil:
		return x, nil
	case x.Status == http.StatusForbidden && x.Kind == kindForbidden:
		err = l.forbidden(x)
	default:
		err = x.Unknown(ownership.CauseCloud, err)
	}
	return x, err
}

// forbidden returns the error for credentials that may not read servers. It is no verdict: for servers of other projects, Nova returns 404.
// Nova's policy requires a role (os_compute_api:servers:show), so the credentials have to be changed.
func (l *lookup) forbidden(x *cloudhttp.Exchange) error {
	return unusable(l.credentials.identity, IdentityDenied, "Nova does not permit %s to read servers of project %.100q (%d%s); grant it a role that may, such as reader or member",
		l.credentials.who(), l.project(), x.Status, inParentheses(x.RequestID()))
}
