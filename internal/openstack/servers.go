package openstack

import (
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
	// pageSize is the requested number of servers of a page. Nova may return fewer.
	pageSize = 100
	// maxPages limits the list of the servers of one project to 10,000.
	maxPages = 100
)

// server contains the used fields of a server. gophercloud's own type has all fields, and decoding fails if any of them has another format.
type server struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Project is the ID of its project.
	Project string `json:"tenant_id"`
	// Creator is the ID of the user that created it.
	Creator string `json:"user_id"`
}

// instance returns the server as an instance. own is false if it belongs to another project or has no UUID.
func (s server) instance(project string) (instance ownership.Instance, own bool) {
	id, err := ownership.ParseInstanceID(s.ID)
	if err != nil || s.Project != project {
		return ownership.Instance{}, false
	}
	return ownership.Instance{ID: id, Name: s.Name}, true
}

// API returns the URL of the Nova that requests about an account are sent to, which is in the catalog of its token. It has the errors of
// ownership.Cloud.
func (c *Cloud) API(ctx context.Context, account ownership.Account) (string, error) {
	l, err := c.newLookup(ctx, account)
	if err != nil {
		return "", err
	}
	return l.nova, nil
}

// Ask implements ownership.Cloud. With a cached token, it sends one request.
//
// Besides the errors of the interface, Ask returns the error of ownership.ParseInstanceID for an invalid ID.
func (c *Cloud) Ask(ctx context.Context, claim ownership.Claim) (ownership.Answer, error) {
	id, err := ownership.ParseInstanceID(claim.ID)
	if err != nil {
		return ownership.Answer{}, err
	}
	l, err := c.newLookup(ctx, claim.Account)
	if err != nil {
		return ownership.Answer{}, err
	}
	var s server
	x, err := l.get(ctx, request{operation: opServer, limit: cloudhttp.MaxBytes, send: func(ctx context.Context, nova *gophercloud.ServiceClient) error {
		return servers.Get(ctx, nova, id).ExtractInto(&s)
	}})
	switch {
	case err == nil:
		return l.compareOwner(ctx, claim, id, s, x)
	// A proxy in front of Nova can also return 404. This is no verdict.
	case x != nil && x.Status == http.StatusNotFound && x.Kind == kindNotFound:
		return l.explain(ctx, claim, ownership.Answer{Verdict: ownership.Absent, Response: x.Response(), RequestID: x.RequestID()}), nil
	default:
		return ownership.Answer{}, err
	}
}

// compareOwner returns the verdict for a server that the credentials can read. Administrators can read the servers of all projects.
func (l *lookup) compareOwner(ctx context.Context, claim ownership.Claim, id string, s server, x *cloudhttp.Exchange) (ownership.Answer, error) {
	if got, err := ownership.ParseInstanceID(s.ID); err != nil || got != id {
		return ownership.Answer{}, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer is about another server", opServer)
	}
	answer := ownership.Answer{Verdict: ownership.Owned, UserID: l.project(), CreatorID: s.Creator, Response: "200", RequestID: x.RequestID()}
	switch s.Project {
	case "":
		return ownership.Answer{}, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer names no project", opServer)
	case l.project():
		return answer, nil
	}
	answer.Verdict, answer.Response = ownership.Foreign, "200, owned by another project"
	return l.explain(ctx, claim, answer), nil
}

// explain adds the project and the candidates to a denial.
func (l *lookup) explain(ctx context.Context, claim ownership.Claim, answer ownership.Answer) ownership.Answer {
	ctx, cancel := cloudhttp.Half(ctx)
	defer cancel()
	answer.UserID = l.project()
	answer.Candidates = l.candidates(ctx, claim.Name)
	return answer
}

// page is a page of a list.
type page struct {
	Servers []server           `json:"servers"`
	Links   []gophercloud.Link `json:"servers_links"`
}

// last reports whether this is the last page. Nova adds a link to the next page if this page has the maximum size, which may be less than the
// requested size. The URL of the link is not used, because the token must be sent to the endpoint of the catalog only.
func (p page) last() bool {
	linked := slices.ContainsFunc(p.Links, func(link gophercloud.Link) bool { return link.Rel == "next" })
	return len(p.Servers) == 0 || !linked && len(p.Servers) < pageSize
}

// page requests a page of the servers of the project: those after the marker, or those with a matching name.
func (l *lookup) page(ctx context.Context, options servers.ListOpts) (page, *cloudhttp.Exchange, error) {
	options.Limit = pageSize
	query, err := options.ToServerListQuery()
	if err != nil {
		return page{}, nil, cloudhttp.Unknown(ownership.CauseCloud, "", "%s request: %w", opList, err)
	}
	var p page
	x, err := l.get(ctx, request{operation: opList, limit: cloudhttp.MaxListBytes, send: func(ctx context.Context, nova *gophercloud.ServiceClient) error {
		p = page{}
		_, err := nova.Get(ctx, nova.ServiceURL("servers", "detail")+query, &p, nil) //nolint:bodyclose // closed by gophercloud, which decodes it
		return err
	}})
	switch {
	case err != nil:
		return page{}, x, err
	case p.Servers == nil:
		return page{}, x, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer has no list", opList)
	}
	return p, x, nil
}

// Instances implements ownership.Cloud. It returns the servers of the project of the credentials, sorted by name and UUID. If servers are
// created or deleted in the meantime, a list of several pages may be incomplete. requests is the number of requests to Nova, also in case of
// an error.
func (c *Cloud) Instances(ctx context.Context, account ownership.Account) (instances []ownership.Instance, requests int, err error) {
	l, err := c.newLookup(ctx, account)
	if err != nil {
		return nil, 0, err
	}
	instances, err = l.instances(ctx)
	return instances, l.requests, err
}

func (l *lookup) instances(ctx context.Context) ([]ownership.Instance, error) {
	project := l.project()
	var own []ownership.Instance
	seen := map[string]bool{}
	marker := ""
	for pages := 1; ; pages++ {
		p, x, err := l.page(ctx, servers.ListOpts{Marker: marker})
		if err != nil {
			return nil, err
		}
		before := len(seen)
		for _, s := range p.Servers {
			marker, err = ownership.ParseInstanceID(s.ID)
			if err != nil {
				return nil, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: a server has no UUID", opList)
			}
			if instance, isOwn := s.instance(project); isOwn && !seen[marker] {
				own = append(own, instance)
			}
			seen[marker] = true
		}
		switch {
		case p.last():
			return ownership.SortInstances(own), nil
		case len(seen) == before, pages == maxPages:
			return nil, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(),
				"%s request: the list does not end: %d servers after %d pages", opList, len(seen), pages)
		}
	}
}

// candidates returns the servers of the project with the name of the machine, because providers use this name for the server. Nova treats the
// name as a regular expression. It returns none if the request fails.
func (l *lookup) candidates(ctx context.Context, name string) []ownership.Instance {
	if name == "" {
		return nil
	}
	p, _, err := l.page(ctx, servers.ListOpts{Name: "^" + regexp.QuoteMeta(name) + "$"})
	if err != nil {
		return nil
	}
	var found []ownership.Instance
	for _, s := range p.Servers {
		if instance, own := s.instance(l.project()); own && instance.Name == name {
			found = append(found, instance)
		}
	}
	return ownership.Candidates(found)
}
