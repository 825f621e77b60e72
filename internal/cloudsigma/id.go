package cloudsigma

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// providerScheme begins the provider ID of a machine, the field spec.providerID of Cluster API.
const providerScheme = "cloudsigma://"

// uuidLength is the length of a UUID in its plain form (RFC 9562, section 4). The parser also takes forms with a prefix,
// with braces and without dashes, all of which have another length.
const uuidLength = 36

// ParseInstanceID returns the UUID of a server in lower case. Upper case, blanks around it and a slash after it do not
// change which server is meant; anything else is an error that says what an instance ID has to look like.
func ParseInstanceID(s string) (string, error) {
	id, ok := plainUUID(strings.TrimSpace(s))
	if !ok {
		return "", fmt.Errorf("%.100q is not an instance ID: it has to be the UUID of a server, such as %q", s, exampleID)
	}
	return id, nil
}

// ParseProviderID returns the UUID in lower case of the server that a provider ID such as cloudsigma://<uuid> names. It
// tolerates what ParseInstanceID does, and an empty host (cloudsigma:///<uuid>).
func ParseProviderID(s string) (string, error) {
	scheme, rest := "", strings.TrimSpace(s)
	if len(rest) > len(providerScheme) {
		scheme, rest = rest[:len(providerScheme)], rest[len(providerScheme):]
	}
	id, ok := plainUUID(strings.TrimPrefix(rest, "/"))
	if !ok || !strings.EqualFold(scheme, providerScheme) {
		return "", fmt.Errorf("%.100q is not a provider ID of CloudSigma: it has to be %q and the UUID of a server, such as %q",
			s, providerScheme, providerScheme+exampleID)
	}
	return id, nil
}

// exampleID is shown to people whose ID cannot be read.
const exampleID = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"

// plainUUID returns a UUID in lower case, without the slash after it. No server has the nil UUID, so that is none.
func plainUUID(s string) (string, bool) {
	s = strings.TrimSuffix(s, "/")
	if len(s) != uuidLength {
		return "", false
	}
	id, err := uuid.Parse(s)
	if err != nil || id == uuid.Nil {
		return "", false
	}
	return id.String(), true
}
