package openstack

import (
	"fmt"
	"strings"

	"warrantgate.dev/internal/ownership"
)

const (
	// providerScheme begins the provider ID of a machine, the field spec.providerID of Cluster API.
	providerScheme = "openstack://"
	// maxRegionBytes bounds the name of a region (Identity API v3, "Create region").
	maxRegionBytes = 255
)

// ParseProviderID returns the UUID in lower case of the server that a provider ID such as openstack:///<uuid> names, or
// openstack://<region>/<uuid>. It tolerates what ownership.ParseInstanceID does. The region is not looked at: where the server
// is said to be does not change which one it is.
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
