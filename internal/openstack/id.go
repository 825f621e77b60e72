package openstack

import (
	"fmt"
	"strings"

	"warrantgate.dev/internal/ownership"
)

const (
	// providerScheme is the prefix of the provider ID of a machine, the field spec.providerID of Cluster API.
	providerScheme = "openstack://"
	// maxRegionBytes is the maximum length of the name of a region (Identity API v3, "Create region").
	maxRegionBytes = 255
)

// ParseProviderID returns the UUID of the server in a provider ID in lower case: openstack:///<uuid> or openstack://<region>/<uuid>. It
// accepts the variants of ownership.ParseInstanceID. It ignores the region, because UUIDs are unique.
func ParseProviderID(s string) (string, error) {
	scheme, rest := "", strings.TrimSpace(s)
	if len(rest) > len(providerScheme) {
		scheme, rest = rest[:len(providerScheme)], rest[len(providerScheme):]
	}
	region, name, _ := strings.Cut(rest, "/")
	id, ok := ownership.PlainUUID(name)
	if !ok || len(region) > maxRegionBytes || !strings.EqualFold(scheme, providerScheme) {
		return "", fmt.Errorf("%.100q is not a provider ID of OpenStack: it has to be %q, a region or nothing, a slash, and the UUID of a server, such as %q",
			s, providerScheme, providerScheme+"/"+ownership.ExampleInstanceID)
	}
	return id, nil
}
