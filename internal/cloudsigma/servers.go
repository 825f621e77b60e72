package cloudsigma

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/cloudsigma/cloudsigma-sdk-go/cloudsigma"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
)

const (
	// pageSize is the number of servers per request.
	pageSize = 100
	// maxPages limits the list of one user's servers to 10,000.
	maxPages = 100
)

// server contains the required fields of a server. The SDK's type contains all fields, including console passwords.
type server struct {
	UUID  string           `json:"uuid"`
	Name  string           `json:"name"`
	Owner sdk.ResourceLink `json:"owner"`
	Meta  struct {
		MachineUID uid `json:"machine-uid"`
	} `json:"meta"`
}

// uid is the UID of a machine, "" for a value of another JSON type. Users choose the value. Another type is not decoded: many small values take
// many times their size in memory.
type uid string

// UnmarshalJSON implements json.Unmarshaler.
func (u *uid) UnmarshalJSON(value []byte) error {
	var text string
	if json.Unmarshal(value, &text) == nil {
		*u = uid(text)
	}
	return nil
}

// maxTextBytes is more than the name or the UID of a machine has. A list of instances keeps no more of each text, because users choose them.
const maxTextBytes = 256

// kept returns what is kept of a text, without the rest in memory.
func kept(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.Clone(message.Clip(text, maxTextBytes))
}

// instance returns the server as an instance of its user. own is false if the server belongs to another user or has no UUID.
func (s server) instance(owner string) (instance ownership.Instance, own bool) {
	id, err := ownership.ParseInstanceID(s.UUID)
	ownerID, _ := ownership.ParseInstanceID(s.Owner.UUID)
	if err != nil || ownerID != owner {
		return ownership.Instance{}, false
	}
	return ownership.Instance{ID: id, Name: kept(s.Name), MachineUID: kept(string(s.Meta.MachineUID))}, true
}

// page is one response of a list request. The list method of the SDK supports neither pages nor filters.
type page struct {
	Meta    sdk.Meta `json:"meta"`
	Servers []server `json:"objects"`
}

// page requests the servers that the user can see, beginning at offset. If name is not empty, it requests only servers with this
// name.
func (l *lookup) page(ctx context.Context, name string, offset int) (page, *exchange, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if offset > 0 {
		query.Set("offset", strconv.Itoa(offset))
	}
	if name != "" {
		query.Set("name", name)
	}
	var p page
	x, err := l.get(ctx, request{operation: opList, path: []string{"servers", "detail"}, query: query, limit: cloudhttp.MaxListBytes}, &p)
	switch {
	case err != nil:
		return page{}, x, err
	case p.Servers == nil:
		return page{}, x, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: the answer has no list", opList)
	}
	return p, x, nil
}

// Instances implements ownership.Cloud. It returns the servers of the account's user, sorted by name and UUID, without servers that
// others share with the user. If servers are created or deleted during a list of several pages, the result may miss some. Besides
// an *ownership.UnknownError it may return an *ownership.RegionError. The number of requests is valid even with an error.
func (c *Cloud) Instances(ctx context.Context, account ownership.Account) (instances []ownership.Instance, requests int, err error) {
	l, err := c.newLookup(account)
	if err != nil {
		return nil, 0, err
	}
	instances, err = l.instances(ctx)
	return instances, l.requests, err
}

func (l *lookup) instances(ctx context.Context) ([]ownership.Instance, error) {
	user, err := l.profile(ctx)
	if err != nil {
		return nil, err
	}
	var own []ownership.Instance
	seen := map[string]bool{}
	for offset, pages := 0, 0; ; pages++ {
		p, x, err := l.page(ctx, "", offset)
		if err != nil {
			return nil, err
		}
		before := len(seen)
		for _, s := range p.Servers {
			id, err := ownership.ParseInstanceID(s.UUID)
			if err != nil {
				return nil, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(), "%s request: a server has no UUID", opList)
			}
			if instance, isOwn := s.instance(user.id); isOwn && !seen[id] {
				own = append(own, instance)
			}
			seen[id] = true
		}
		offset += len(p.Servers)
		switch {
		case offset == p.Meta.TotalCount, len(p.Servers) == 0 && offset > p.Meta.TotalCount:
			return ownership.SortInstances(own), nil
		case offset > p.Meta.TotalCount, len(seen) == before, pages+1 == maxPages:
			return nil, cloudhttp.Unknown(ownership.CauseCloud, x.RequestID(),
				"%s request: the list is inconsistent: %d servers of %d after %d pages", opList, len(seen), p.Meta.TotalCount, pages+1)
		}
	}
}

// candidates returns the user's servers that have the name of the claim or were created for its machine, as suggestions for the
// user. It requests them by name, because the API cannot filter by other fields that a machine has. Providers name a server after
// its machine. It returns none if a request fails.
func (l *lookup) candidates(ctx context.Context, claim ownership.Claim, owner string) []ownership.Instance {
	if claim.Name == "" {
		return nil
	}
	p, _, err := l.page(ctx, claim.Name, 0)
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
	return ownership.Candidates(found)
}
