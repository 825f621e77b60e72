package openstack

import (
	"fmt"
	"strings"

	"warrantgate.dev/internal/cloudsigma"
)

const (
	// providerScheme begins the provider ID of a machine, the field spec.providerID of Cluster API.
	providerScheme = "openstack://"
	// exampleID is shown to people whose ID cannot be read.
	exampleID = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"
	// maxRegionBytes bounds the name of a region (Identity API v3, "Create region").
	maxRegionBytes = 255
)

// ParseInstanceID returns the UUID of a server in lower case. Upper case, blanks around it and a slash after it do not
// change which server is meant; anything else is an error that says what an instance ID has to look like. It is the same
// for all clouds whose servers have UUIDs.
func ParseInstanceID(s string) (string, error) { return cloudsigma.ParseInstanceID(s) }

// ParseProviderID returns the UUID in lower case of the server that a provider ID such as openstack:///<uuid> names, or
// openstack://<region>/<uuid>. It tolerates what ParseInstanceID does. The region is not looked at: where the server is said
// to be does not change which one it is.
func ParseProviderID(s string) (string, error) {
	fail := func() (string, error) {
		return "", fmt.Errorf("%.100q is not a provider ID of OpenStack: it has to be %q, a region or nothing, a slash, and the UUID of a server, such as %q",
			s, providerScheme, providerScheme+"/"+exampleID)
	}
	rest := strings.TrimSpace(s)
	if len(rest) < len(providerScheme) || !strings.EqualFold(rest[:len(providerScheme)], providerScheme) {
		return fail()
	}
	region, name, found := strings.Cut(rest[len(providerScheme):], "/")
	if !found || len(region) > maxRegionBytes || name != strings.TrimSpace(name) {
		return fail()
	}
	id, err := ParseInstanceID(name)
	if err != nil {
		return fail()
	}
	return id, nil
}
