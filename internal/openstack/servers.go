package openstack

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

const (
	// maxServerBytes bounds the answer about one server, which has a few KiB.
	maxServerBytes = 1 << 20
	// pageSize is how many servers are asked for at once. Nova may give fewer.
	pageSize = 100
	// maxPages bounds the list of one project's servers to 10,000.
	maxPages = 100
	// maxListBytes bounds the body of a page: 80 KiB for each server.
	maxListBytes = 8 << 20
	// maxCandidates bounds what a refusal shows.
	maxCandidates = 10
)

// server is what matters of a server. gophercloud's own type has all of it, and refuses the whole for one odd field.
type server struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Project is the project that it belongs to.
	Project string `json:"tenant_id"`
	// Creator is the user that made it.
	Creator string `json:"user_id"`
}

// instance returns the server as its project knows it, unless it is another one's or has no UUID.
func (s server) instance(project string) (instance ownership.Instance, own bool) {
	id, err := ownership.ParseInstanceID(s.ID)
	if err != nil || s.Project != project {
		return ownership.Instance{}, false
	}
	return ownership.Instance{ID: id, Name: s.Name}, true
}

// Ask implements ownership.Cloud. While there is a token for the credentials, it costs one request.
//
// Besides the errors of the interface, Ask may return ownership.ParseInstanceID's for an ID that is none.
func (c *Cloud) Ask(ctx context.Context, claim ownership.Claim) (ownership.Answer, error) {
	id, err := ownership.ParseInstanceID(claim.ID)
	if err != nil {
		return ownership.Answer{}, err
	}
	q, err := c.ask(ctx, claim.Account)
	if err != nil {
		return ownership.Answer{}, err
	}
	var s server
	x, err := q.get(ctx, request{operation: opServer, limit: maxServerBytes, send: func(ctx context.Context, nova *gophercloud.ServiceClient) error {
		return servers.Get(ctx, nova, id).ExtractInto(&s)
	}})
	switch {
	case err == nil:
		return q.judge(ctx, claim, id, s, x)
	// Whoever stands before Nova answers 404 as well, and says nothing about the server with it.
	case x != nil && x.Status == http.StatusNotFound && x.refusal.kind == kindNotFound:
		return q.refuse(ctx, claim, ownership.Answer{Verdict: ownership.Absent, Response: x.response(), RequestID: x.RequestID()}), nil
	default:
		return ownership.Answer{}, err
	}
}

// judge looks at whose a server is that the credentials can see. An administrator's see those of all projects.
func (q *question) judge(ctx context.Context, claim ownership.Claim, id string, s server, x *exchange) (ownership.Answer, error) {
	if got, err := ownership.ParseInstanceID(s.ID); err != nil || got != id {
		return ownership.Answer{}, unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer is about another server", opServer)
	}
	answer := ownership.Answer{Verdict: ownership.Owned, UserID: q.project(), CreatorID: s.Creator, Response: "200", RequestID: x.RequestID()}
	switch s.Project {
	case "":
		return ownership.Answer{}, unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer names no project", opServer)
	case q.project():
		return answer, nil
	}
	answer.Verdict, answer.Response = ownership.Foreign, "200, owned by another project"
	return q.refuse(ctx, claim, answer), nil
}

// refuse completes a refusal with what helps to understand it.
func (q *question) refuse(ctx context.Context, claim ownership.Claim, answer ownership.Answer) ownership.Answer {
	ctx, cancel := cloudhttp.Half(ctx)
	defer cancel()
	answer.UserID = q.project()
	answer.Candidates = q.candidates(ctx, claim.Name)
	return answer
}

// page is one answer to the request for a list.
type page struct {
	Servers []server           `json:"servers"`
	Links   []gophercloud.Link `json:"servers_links"`
}

// last tells whether no page follows. Nova links to the next one if this one is as full as it lets pages be, which may be
// less than what was asked for. The link itself is not followed: the token is for the catalog's endpoint only.
func (p page) last() bool {
	linked := slices.ContainsFunc(p.Links, func(link gophercloud.Link) bool { return link.Rel == "next" })
	return len(p.Servers) == 0 || !linked && len(p.Servers) < pageSize
}

// page asks for the servers of the project: those after the marker, or those whose name matches.
func (q *question) page(ctx context.Context, options servers.ListOpts) (page, *exchange, error) {
	options.Limit = pageSize
	query, err := options.ToServerListQuery()
	if err != nil {
		return page{}, nil, unknown(ownership.CauseCloud, "", "%s request: %w", opList, err)
	}
	var p page
	x, err := q.get(ctx, request{operation: opList, limit: maxListBytes, send: func(ctx context.Context, nova *gophercloud.ServiceClient) error {
		p = page{}
		_, err := nova.Get(ctx, nova.ServiceURL("servers", "detail")+query, &p, nil) //nolint:bodyclose // closed by gophercloud, which decodes it
		return err
	}})
	switch {
	case err != nil:
		return page{}, x, err
	case p.Servers == nil:
		return page{}, x, unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer has no list", opList)
	}
	return p, x, nil
}

// Instances implements ownership.Cloud. It returns the servers of the project that the credentials are for, by name and UUID.
// While servers come and go, a list of more than one page may miss some. The number of requests is that of those to Nova, and
// right in any case.
func (c *Cloud) Instances(ctx context.Context, account ownership.Account) (instances []ownership.Instance, requests int, err error) {
	q, err := c.ask(ctx, account)
	if err != nil {
		return nil, 0, err
	}
	instances, err = q.instances(ctx)
	return instances, q.requests, err
}

func (q *question) instances(ctx context.Context) ([]ownership.Instance, error) {
	project := q.project()
	var own []ownership.Instance
	seen := map[string]bool{}
	marker := ""
	for pages := 1; ; pages++ {
		p, x, err := q.page(ctx, servers.ListOpts{Marker: marker})
		if err != nil {
			return nil, err
		}
		before := len(seen)
		for _, s := range p.Servers {
			marker, err = ownership.ParseInstanceID(s.ID)
			if err != nil {
				return nil, unknown(ownership.CauseCloud, x.RequestID(), "%s request: a server has no UUID", opList)
			}
			if instance, isOwn := s.instance(project); isOwn && !seen[marker] {
				own = append(own, instance)
			}
			seen[marker] = true
		}
		switch {
		case p.last():
			return sorted(own), nil
		case len(seen) == before, pages == maxPages:
			return nil, unknown(ownership.CauseCloud, x.RequestID(),
				"%s request: the list does not end: %d servers after %d pages", opList, len(seen), pages)
		}
	}
}

// candidates returns the project's servers of exactly that name: what the machine should perhaps have named. Providers give
// a server the name of its machine, and leave nothing else of it there. Nova takes the name for a regular expression. There
// are none where they cannot be found out.
func (q *question) candidates(ctx context.Context, name string) []ownership.Instance {
	if name == "" {
		return nil
	}
	p, _, err := q.page(ctx, servers.ListOpts{Name: "^" + regexp.QuoteMeta(name) + "$"})
	if err != nil {
		return nil
	}
	var found []ownership.Instance
	for _, s := range p.Servers {
		if instance, own := s.instance(q.project()); own && instance.Name == name {
			found = append(found, instance)
		}
	}
	found = sorted(found)
	return found[:min(len(found), maxCandidates)]
}

func sorted(instances []ownership.Instance) []ownership.Instance {
	slices.SortFunc(instances, func(a, b ownership.Instance) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return instances
}
