package openstack_test

import (
	"strings"
	"testing"

	"warrantgate.dev/internal/openstack"
)

// TestParseProviderID tests what precedes the UUID. Package ownership tests the rest.
func TestParseProviderID(t *testing.T) {
	const words = `is not a provider ID of OpenStack: it has to be "openstack://", a region or nothing, a slash, and the UUID of a server, such as "openstack:///`
	for in, want := range map[string]string{ // "" for an error
		"openstack:///" + otherID:                  otherID,
		"openstack://RegionOne/" + otherID:         otherID,
		" openstack:///" + otherID + "/\r\n":       otherID,
		strings.ToUpper("openstack:///" + otherID): otherID,
		"openstack://" + otherID:                   "",
		otherID:                                    "",
		"openstack://":                             "",
		"openstack:///":                            "",
		"":                                         "",
		"cloudsigma:///" + otherID:                 "",
		"openstack:////" + otherID:                 "",
		"openstack://a/b/" + otherID:               "",
		"openstack:/// " + otherID:                 "",
		"openstack://" + strings.Repeat("a", 256) + "/" + otherID: "",
		"openstack:///00000000-0000-0000-0000-000000000000":       "",
		"openstack:///{" + otherID + "}":                          "",
		"openstack:///" + strings.ReplaceAll(otherID, "-", ""):    "",
		"openstack:///" + otherID + "?do=stop":                    "",
		"openſtack:///" + otherID:                                 "", // a letter that folds to an ASCII letter
	} {
		got, err := openstack.ProviderIDs.Parse(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Parse(%q) = %q, %v, want %q", in, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("Parse(%q) error = %q, want it to contain the format of a provider ID", in, err)
		}
	}
}
