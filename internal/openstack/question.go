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

// question is a lookup in Nova with one set of credentials, in one region.
type question struct {
	cloud       *Cloud
	credentials *credentials
	region      string
	transport   http.RoundTripper

	session *session
	// nova is the URL of Nova's API.
	nova string
	// requests is the number of requests to Nova.
	requests int
}

// ask starts a lookup. The error is an *ownership.IdentityError, an *ownership.RegionError or an *ownership.UnknownError.
func (c *Cloud) ask(ctx context.Context, account ownership.Account) (*question, error) {
	with, err := c.credentials(ctx, account.Identity)
	if err != nil {
		return nil, err
	}
	q := &question{cloud: c, credentials: with, region: cmp.Or(account.Region, with.region)}
	if err := q.authenticate(ctx, usable); err != nil {
		return nil, err
	}
	if q.transport, err = c.transports.of(with.ca); err != nil {
		return nil, unusable(with.identity, IdentityMalformed, "%v", err)
	}
	return q, nil
}

// authenticate sets the token and the URL of Nova.
func (q *question) authenticate(ctx context.Context, wanted func(*session) bool) error {
	s, err := q.cloud.sessions.get(ctx, q.credentials, wanted)
	if err != nil {
		return err
	}
	if err := unscoped(q.credentials.identity, s.token); err != nil {
		return err
	}
	at, err := s.nova(q.region, q.credentials.availability)
	if err != nil {
		return err
	}
	q.session, q.nova = s, at
	return nil
}

// project returns the ID of the project of the credentials.
func (q *question) project() string { return q.session.token.ProjectID }

// request is one GET.
type request struct {
	operation cloudhttp.Operation
	// limit is the maximum size of the response, in bytes.
	limit int64
	// send sends the request and decodes the response.
	send func(ctx context.Context, nova *gophercloud.ServiceClient) error
}

// get sends a request. After 401 it repeats the request once with a new token. It has the errors of ask. The exchange has the details. It is
// nil if there is no new token.
func (q *question) get(ctx context.Context, r request) (*exchange, error) {
	x, err := q.try(ctx, r)
	if x.Status != http.StatusUnauthorized {
		return x, err
	}
	if err := q.authenticate(ctx, otherThan(q.session)); err != nil {
		return nil, err
	}
	return q.try(ctx, r)
}

func (q *question) try(ctx context.Context, r request) (*exchange, error) {
	x := newExchange(q.transport, r.operation, r.limit, ownership.CauseCloud)
	q.requests++
	began := time.Now()
	err := r.send(ctx, &gophercloud.ServiceClient{
		ProviderClient: x.client(q.cloud.userAgent, q.session.secret), Endpoint: q.nova, Type: serviceCompute,
	})
	requests.Observe(r.operation, x.Status, err == nil, time.Since(began))
	switch {
	case err == nil:
		return x, nil
	case x.Status == http.StatusForbidden && x.refusal.kind == kindForbidden:
		err = q.forbidden(x)
	default:
		err = x.unknown(err)
	}
	return x, err
}

// forbidden returns the error for credentials that may not read servers. It is no verdict: for servers of other projects, Nova returns 404.
// Nova's policy requires a role (os_compute_api:servers:show), so the credentials have to be changed.
func (q *question) forbidden(x *exchange) error {
	return unusable(q.credentials.identity, IdentityDenied, "Nova does not let %s read servers of project %.100q (%d%s); grant it a role that may, such as reader or member",
		q.credentials.who(), q.project(), x.Status, inParentheses(x.RequestID()))
}
