package openstack

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"warrantgate.dev/internal/cloudhttp"
	"warrantgate.dev/internal/ownership"
)

// serviceCompute is the type of Nova in a catalog (OpenStack Service Types Authority).
const serviceCompute = "compute"

// endpoint is an endpoint of Nova.
type endpoint struct {
	region string
	// availability is its interface.
	availability gophercloud.Availability
	url          string
}

// computeEndpoints returns the endpoints of Nova in a catalog.
func computeEndpoints(catalog []tokens.CatalogEntry) []endpoint {
	var found []endpoint
	for _, service := range catalog {
		if service.Type != serviceCompute {
			continue
		}
		for _, e := range service.Endpoints {
			found = append(found, endpoint{
				region: cmp.Or(e.RegionID, e.Region), availability: gophercloud.Availability(e.Interface), url: e.URL,
			})
		}
	}
	return found
}

// nova returns the URL of Nova in a region. The error is an *ownership.RegionError if the region is not in the catalog, or if it is empty and
// there are several: the provider then uses the first one, and the order can change. It is an *ownership.IdentityError if Nova has other
// interfaces only: the author of the credentials chooses the interface, and must not be able to cause an outage.
func (s *session) nova(region string, with *credentials) (string, error) {
	availability := with.availability
	urls := map[string]string{}
	var regions, interfaces []string
	for _, e := range s.endpoints {
		interfaces = append(interfaces, string(e.availability))
		if _, known := urls[e.region]; !known && e.availability == availability {
			urls[e.region] = e.url
			regions = append(regions, e.region)
		}
	}
	slices.Sort(regions)
	if region == "" && len(regions) == 1 {
		region = regions[0]
	}
	at, known := urls[region]
	switch {
	case len(s.endpoints) == 0:
		return "", cloudhttp.Unknown(ownership.CauseCloud, s.token.RequestID, "the catalog of Keystone has no endpoint of Nova")
	case len(regions) == 0:
		slices.Sort(interfaces)
		return "", unusable(with.identity, IdentityMalformed, "the catalog of Keystone has no %s endpoint of Nova; set endpoint_type in %s to %s",
			availability, cloudsKey, strings.Join(slices.Compact(interfaces), " or "))
	case !known:
		return "", &ownership.RegionError{Region: region, Allowed: regions}
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", cloudhttp.Unknown(ownership.CauseCloud, s.token.RequestID, "the catalog of Keystone has no URL for the %s endpoint of Nova in region %q", availability, region)
	}
	return gophercloud.NormalizeURL(u.String()), nil
}
