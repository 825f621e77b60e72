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

// question is what is asked of Nova with one set of credentials in one region.
type question struct {
	cloud       *Cloud
	credentials *credentials
	region      string
	transport   http.RoundTripper

	session *session
	// nova is the URL of Nova's API.
	nova string
	// requests is how many requests have been sent to Nova.
	requests int
}

// ask begins a question. It returns an *ownership.IdentityError, an *ownership.RegionError or an *ownership.UnknownError.
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

// authenticate gets a token for the question, and looks up where to ask with it.
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

// project is the ID of the project that the credentials are for.
func (q *question) project() string { return q.session.token.ProjectID }

// request is one GET.
type request struct {
	operation cloudhttp.Operation
	// limit is the largest answer that is read, in bytes.
	limit int64
	// send sends it and decodes the answer.
	send func(ctx context.Context, nova *gophercloud.ServiceClient) error
}

// get sends a request. A token that is refused is dropped, and the request repeated once with another one. The error is that
// of ask; the exchange tells more, and is nil where there was no token for the repetition.
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

// forbidden says that Nova does not let these credentials look at servers at all. It is no verdict, because Nova hides the
// servers of other projects behind 404; its policy asks for a role (os_compute_api:servers:show), and so the credentials are
// what has to change.
func (q *question) forbidden(x *exchange) error {
	return unusable(q.credentials.identity, IdentityRefused, "Nova does not let %s look at servers of project %.100q (%d%s); grant it a role that may, such as reader or member",
		q.credentials.who(), q.project(), x.Status, inParentheses(x.RequestID()))
}
