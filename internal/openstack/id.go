package openstack

import (
	"fmt"

	"warrantgate.dev/internal/ownership"
)

// providerScheme is the prefix of the provider ID of a machine, the field spec.providerID of Cluster API.
const providerScheme = "openstack://"

// ProviderIDs is the format of the provider ID of a machine: openstack:///<uuid> or openstack://<region>/<uuid>. It ignores the region,
// because UUIDs are unique. The name of a region has at most 255 characters (Identity API v3, "Create region").
var ProviderIDs = ownership.NewIDFormat(providerScheme+"[^/]{0,255}/", fmt.Sprintf(
	" is not a provider ID of OpenStack: it has to be %q, a region or nothing, a slash, and the UUID of a server, such as %q",
	providerScheme, providerScheme+"/"+ownership.ExampleInstanceID))
