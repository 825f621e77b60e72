package cloudsigma

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"warrantgate.dev/internal/ownership"
)

const (
	// defaultAPI and defaultLegacyAPI are the URL templates of CloudSigma's own regions. An impersonated token acts as its user at the first
	// only: at the second, it acts as the service account's own user.
	defaultAPI       = "https://direct.{region}.cloudsigma.com/api/2.0/"
	defaultLegacyAPI = "https://{region}.cloudsigma.com/api/2.0/"
	// placeholder is replaced with the region in the URL template.
	placeholder = "{region}"
)

// endpoints contains the API of each region.
type endpoints struct {
	template string
	regions  []string
}

func newEndpoints(template string, regions []string) (endpoints, error) {
	if !strings.HasSuffix(template, "/") {
		template += "/"
	}
	// The error of url.Parse contains the URL, which may contain a password.
	u, err := url.Parse(strings.ReplaceAll(template, placeholder, "zrh"))
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return endpoints{}, fmt.Errorf("the URL of the API has to be https://, a host and a path, such as %q", defaultAPI)
	}
	for _, region := range regions {
		if err := ownership.CheckRegion(region, nil); err != nil {
			return endpoints{}, fmt.Errorf("regions: %w", err)
		}
	}
	return endpoints{template: template, regions: slices.Sorted(slices.Values(regions))}, nil
}

// api returns the URL of a region's API, or an *ownership.RegionError if the region is not allowed.
func (e endpoints) api(region string) (*url.URL, error) {
	if err := ownership.CheckRegion(region, e.regions); err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.ReplaceAll(e.template, placeholder, region))
	if err != nil { // impossible: the template is valid for every region
		return nil, errors.New("the region is not valid in the URL of the API")
	}
	return u, nil
}
