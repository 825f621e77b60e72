package cloudsigma

import (
	"fmt"

	"warrantgate.dev/internal/ownership"
)

// providerScheme is the prefix of the provider ID of a machine, Cluster API's field spec.providerID.
const providerScheme = "cloudsigma://"

// ProviderIDs is the format of the provider ID of a machine, such as cloudsigma://<uuid>. The host may also be empty (cloudsigma:///<uuid>).
var ProviderIDs = ownership.NewIDFormat(providerScheme+"/?", fmt.Sprintf(
	" is not a provider ID of CloudSigma: it has to be %q and the UUID of a server, such as %q",
	providerScheme, providerScheme+ownership.ExampleInstanceID))
