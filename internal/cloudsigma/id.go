package cloudsigma

import (
	"fmt"
	"strings"

	"warrantgate.dev/internal/ownership"
)

// providerScheme is the prefix of the provider ID of a machine, Cluster API's field spec.providerID.
const providerScheme = "cloudsigma://"

// ParseProviderID returns the UUID, in lower case, of the server in a provider ID such as cloudsigma://<uuid>. It accepts the same
// variants of a UUID as ownership.ParseInstanceID, and an empty host (cloudsigma:///<uuid>).
func ParseProviderID(s string) (string, error) {
	scheme, rest := "", strings.TrimSpace(s)
	if len(rest) > len(providerScheme) {
		scheme, rest = rest[:len(providerScheme)], rest[len(providerScheme):]
	}
	id, ok := ownership.PlainUUID(strings.TrimPrefix(rest, "/"))
	if !ok || !strings.EqualFold(scheme, providerScheme) {
		return "", fmt.Errorf("%.100q is not a provider ID of CloudSigma: it has to be %q and the UUID of a server, such as %q",
			s, providerScheme, providerScheme+ownership.ExampleInstanceID)
	}
	return id, nil
}
