package cloudsigma

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	sdk "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"

	"warrantgate.dev/internal/ownership"
)

const (
	// pageSize is how many servers are asked for at once.
	pageSize = 100
	// maxPages bounds the list of one user's servers to 10,000.
	maxPages = 100
	// maxListBytes bounds the body of a page: 80 KiB for each server, which has a few KiB.
	maxListBytes = 8 << 20
	// maxCandidates bounds what a refusal shows.
	maxCandidates = 10
)

// server is what matters of a server. The SDK's own type has all of it, the passwords of consoles among the rest.
type server struct {
	UUID  string           `json:"uuid"`
	Name  string           `json:"name"`
	Owner sdk.ResourceLink `json:"owner"`
	Meta  struct {
		// MachineUID is whatever the user put there.
		MachineUID any `json:"machine-uid"`
	} `json:"meta"`
}

// instance returns the server as its user knows it, unless it is somebody else's or has no UUID.
func (s server) instance(owner string) (instance ownership.Instance, own bool) {
	id, ok := ownership.PlainUUID(s.UUID)
	ownerID, _ := ownership.PlainUUID(s.Owner.UUID)
	if !ok || ownerID != owner {
		return ownership.Instance{}, false
	}
	machineUID, _ := s.Meta.MachineUID.(string)
	return ownership.Instance{ID: id, Name: s.Name, MachineUID: machineUID}, true
}

// page is one answer to the request for a list. The SDK's own request for it knows neither pages nor filters.
type page struct {
	Meta    sdk.Meta `json:"meta"`
	Servers []server `json:"objects"`
}

// page asks for the servers that the user can see, from offset on. With a name it asks for those of that name.
func (q *question) page(ctx context.Context, name string, offset int) (page, *exchange, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if offset > 0 {
		query.Set("offset", strconv.Itoa(offset))
	}
	if name != "" {
		query.Set("name", name)
	}
	var p page
	x, err := q.get(ctx, request{operation: opList, path: []string{"servers", "detail"}, query: query, limit: maxListBytes}, &p)
	switch {
	case err != nil:
		return page{}, x, err
	case p.Servers == nil:
		return page{}, x, unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer has no list", opList)
	}
	return p, x, nil
}

// Instances implements ownership.Cloud. It returns the servers whose owner is the account's user, by name and UUID, and
// none of those that others share with it. While servers come and go, a list of more than one page may miss some. Besides
// an *ownership.UnknownError it may return a *ownership.RegionError. The number of requests is right in any case.
func (c *Cloud) Instances(ctx context.Context, account ownership.Account) (instances []ownership.Instance, requests int, err error) {
	q, err := c.ask(account)
	if err != nil {
		return nil, 0, err
	}
	instances, err = q.instances(ctx)
	return instances, q.requests, err
}

func (q *question) instances(ctx context.Context) ([]ownership.Instance, error) {
	user, err := q.profile(ctx)
	if err != nil {
		return nil, err
	}
	var own []ownership.Instance
	seen := map[string]bool{}
	for offset, pages := 0, 0; ; pages++ {
		p, x, err := q.page(ctx, "", offset)
		if err != nil {
			return nil, err
		}
		before := len(seen)
		for _, s := range p.Servers {
			id, ok := ownership.PlainUUID(s.UUID)
			if !ok {
				return nil, unknown(ownership.CauseCloud, x.RequestID(), "%s request: a server has no UUID", opList)
			}
			if instance, isOwn := s.instance(user.id); isOwn && !seen[id] {
				own = append(own, instance)
			}
			seen[id] = true
		}
		offset += len(p.Servers)
		switch {
		case offset == p.Meta.TotalCount, len(p.Servers) == 0 && offset > p.Meta.TotalCount:
			return sorted(own), nil
		case offset > p.Meta.TotalCount, len(seen) == before, pages+1 == maxPages:
			return nil, unknown(ownership.CauseCloud, x.RequestID(),
				"%s request: the list does not add up: %d servers of %d after %d pages", opList, len(seen), p.Meta.TotalCount, pages+1)
		}
	}
}

// candidates returns the user's servers that have the name of the claim, or were made for its machine: what the machine
// should perhaps have named. It asks by name, because the API filters by nothing else that a machine knows; providers
// give a server the name of its machine. There are none where they cannot be found out.
func (q *question) candidates(ctx context.Context, claim ownership.Claim, owner string) []ownership.Instance {
	if claim.Name == "" {
		return nil
	}
	p, _, err := q.page(ctx, claim.Name, 0)
	if err != nil {
		return nil
	}
	var found []ownership.Instance
	for _, s := range p.Servers {
		instance, own := s.instance(owner)
		sameMachine := claim.MachineUID != "" && instance.MachineUID == claim.MachineUID
		if own && (instance.Name == claim.Name || sameMachine) {
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
