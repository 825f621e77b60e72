package openstack_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

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
			got, err := openstack.ParseProviderID(tc.in)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Fatalf("ParseProviderID(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("ParseProviderID(%q) error = %q, want it to say what a provider ID looks like", tc.in, err)
			}
		})
	}
}

// FuzzParseProviderID checks that whatever is taken for an ID is a plain UUID, means itself, and goes into a path as it is.
func FuzzParseProviderID(f *testing.F) {
	for _, seed := range []string{
		"openstack:///63DD227A-9502-4311-919E-CD49F3416753/", " openstack://RegionOne/63dd227a-9502-4311-919e-cd49f3416753",
		"openstack://", "openstack:///", "openstack:////", "cloudsigma://63dd227a-9502-4311-919e-cd49f3416753", "", "openstack:///../../flavors",
		"openstack:///urn:uuid:63dd227a-9502-4311-919e-cd49f3416753", "openstack://\x00/63dd227a-9502-4311-919e-cd49f3416753",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := openstack.ParseProviderID(s)
		if err != nil {
			if got != "" || len(err.Error()) > 1000 {
				t.Errorf("%q: %q comes with the error %v", s, got, err)
			}
			return
		}
		if parsed, err := uuid.Parse(got); err != nil || parsed == uuid.Nil || parsed.String() != got {
			t.Errorf("%q was taken for %q, which is no plain UUID", s, got)
		}
		if !strings.Contains(strings.ToLower(s), got) {
			t.Errorf("%q was taken for %q, which is not in it", s, got)
		}
		if again, err := openstack.ParseProviderID("openstack:///" + got); err != nil || again != got {
			t.Errorf("%q: the result %q is taken for %q, %v", s, got, again, err)
		}
	})
}
