package cloudsigma_test

import (
	"strings"
	"testing"

	"warrantgate.dev/internal/cloudsigma"
)

const wantProviderIDWords = `is not a provider ID of CloudSigma: it has to be "cloudsigma://" and the UUID of a server, such as "cloudsigma://`

func TestParseProviderID(t *testing.T) {
	const id = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
	for name, tc := range map[string]struct {
		in   string
		want string // "" for an error
	}{
		"as providers write it":                  {in: "cloudsigma://" + id, want: id},
		"with an empty host":                     {in: "cloudsigma:///" + id, want: id},
		"trailing slash":                         {in: "cloudsigma://" + id + "/", want: id},
		"surrounding white space":                {in: " cloudsigma://" + id + "\r\n", want: id},
		"upper case":                             {in: strings.ToUpper("cloudsigma://" + id), want: id},
		"only a UUID":                            {in: id},
		"only the scheme":                        {in: "cloudsigma://"},
		"empty":                                  {in: ""},
		"another cloud":                          {in: "openstack:///" + id},
		"a scheme of the same length":            {in: "cloudsixma://" + id},
		"one slash":                              {in: "cloudsigma:/" + id},
		"four slashes":                           {in: "cloudsigma:////" + id},
		"with a region":                          {in: "cloudsigma://zrh/" + id},
		"a space inside":                         {in: "cloudsigma:// " + id},
		"the nil UUID":                           {in: "cloudsigma://00000000-0000-0000-0000-000000000000"},
		"a URN":                                  {in: "cloudsigma://urn:uuid:" + id},
		"braces":                                 {in: "cloudsigma://{" + id + "}"},
		"no dashes":                              {in: "cloudsigma://" + strings.ReplaceAll(id, "-", "")},
		"a query":                                {in: "cloudsigma://" + id + "?do=stop"},
		"the scheme twice":                       {in: "cloudsigma://cloudsigma://" + id},
		"a letter that folds to an ASCII letter": {in: "cloudſigma://" + id},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cloudsigma.ProviderIDs.Parse(tc.in)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Fatalf("ParseProviderID(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), wantProviderIDWords) {
				t.Errorf("ParseProviderID(%q) error = %q, want it to contain the format of a provider ID", tc.in, err)
			}
		})
	}
}

func TestErrorsAboutProviderIDsAreShort(t *testing.T) {
	const most = 400
	if _, err := cloudsigma.ProviderIDs.Parse(strings.Repeat("é", 1<<20)); err == nil || len(err.Error()) > most {
		t.Errorf("the error has %d bytes, want some, and at most %d", len(err.Error()), most)
	}
}
