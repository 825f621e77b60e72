package openstack_test

import (
	"strings"
	"testing"

	"warrantgate.dev/internal/openstack"
)

func TestParseProviderID(t *testing.T) {
	const words = `is not a provider ID of OpenStack: it has to be "openstack://", a region or nothing, a slash, and the UUID of a server, such as "openstack:///`
	for name, tc := range map[string]struct {
		in   string
		want string // "" for an error
	}{
		"as providers write it":  {in: "openstack:///" + otherID, want: otherID},
		"with a region":          {in: "openstack://RegionOne/" + otherID, want: otherID},
		"a slash after it":       {in: "openstack:///" + otherID + "/", want: otherID},
		"blanks around it":       {in: " openstack:///" + otherID + "\r\n", want: otherID},
		"upper case":             {in: strings.ToUpper("openstack:///" + otherID), want: otherID},
		"without the slash":      {in: "openstack://" + otherID},
		"a UUID alone":           {in: otherID},
		"the scheme alone":       {in: "openstack://"},
		"no UUID":                {in: "openstack:///"},
		"empty":                  {in: ""},
		"another cloud":          {in: "cloudsigma://" + otherID},
		"another cloud's scheme": {in: "cloudsigma:///" + otherID},
		"a slash too many":       {in: "openstack:////" + otherID},
		"a path":                 {in: "openstack://a/b/" + otherID},
		"blanks within it":       {in: "openstack:/// " + otherID},
		"a long region":          {in: "openstack://" + strings.Repeat("a", 256) + "/" + otherID},
		"the nil UUID":           {in: "openstack:///00000000-0000-0000-0000-000000000000"},
		"a query":                {in: "openstack:///" + otherID + "?x"},
		"braces":                 {in: "openstack:///{" + otherID + "}"},
		"a letter that folds":    {in: "openſtack:///" + otherID},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := openstack.ProviderIDs.Parse(tc.in)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Fatalf("ParseProviderID(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("ParseProviderID(%q) error = %q, want it to contain the format of a provider ID", tc.in, err)
			}
		})
	}
}
