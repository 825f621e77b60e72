package cloudsigma_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"warrantgate.dev/internal/cloudsigma"
)

const (
	wantInstanceIDWords = `is not an instance ID: it has to be the UUID of a server, such as "`
	wantProviderIDWords = `is not a provider ID of CloudSigma: it has to be "cloudsigma://" and the UUID of a server, such as "cloudsigma://`
)

func TestParseInstanceID(t *testing.T) {
	const id = "63dd227a-9502-4311-919e-cd49f3416753"
	for name, tc := range map[string]struct {
		in   string
		want string // "" for an error
	}{
		"as the cloud writes it":     {in: id, want: id},
		"upper case":                 {in: strings.ToUpper(id), want: id},
		"blanks around it":           {in: " \t" + id + "\n", want: id},
		"a slash after it":           {in: id + "/", want: id},
		"two slashes after it":       {in: id + "//"},
		"a slash before it":          {in: "/" + id},
		"empty":                      {in: ""},
		"a slash":                    {in: "/"},
		"a blank within it":          {in: "63dd227a-9502-4311 919e-cd49f3416753"},
		"the nil UUID":               {in: "00000000-0000-0000-0000-000000000000"},
		"a URN":                      {in: "urn:uuid:" + id},
		"braces":                     {in: "{" + id + "}"},
		"no dashes":                  {in: strings.ReplaceAll(id, "-", "")},
		"dashes elsewhere":           {in: "63dd227a9-502-4311-919e-cd49f3416753"},
		"not hexadecimal":            {in: "63dd227g-9502-4311-919e-cd49f3416753"},
		"digits of another alphabet": {in: "63dd227a-9502-4311-919e-cd49f34167５"},
		"more after it":              {in: id + "/action"},
		"a way up the path":          {in: "../" + id},
		"a provider ID":              {in: "cloudsigma://" + id},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cloudsigma.ParseInstanceID(tc.in)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Fatalf("ParseInstanceID(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), wantInstanceIDWords) {
				t.Errorf("ParseInstanceID(%q) error = %q, want it to say what an ID looks like", tc.in, err)
			}
		})
	}
}

func TestParseProviderID(t *testing.T) {
	const id = "63dd227a-9502-4311-919e-cd49f3416753"
	for name, tc := range map[string]struct {
		in   string
		want string // "" for an error
	}{
		"as providers write it":       {in: "cloudsigma://" + id, want: id},
		"with an empty host":          {in: "cloudsigma:///" + id, want: id},
		"a slash after it":            {in: "cloudsigma://" + id + "/", want: id},
		"blanks around it":            {in: " cloudsigma://" + id + "\r\n", want: id},
		"upper case":                  {in: strings.ToUpper("cloudsigma://" + id), want: id},
		"a UUID alone":                {in: id},
		"the scheme alone":            {in: "cloudsigma://"},
		"empty":                       {in: ""},
		"another cloud":               {in: "openstack:///" + id},
		"a scheme as long as ours":    {in: "cloudsixma://" + id},
		"a slash too few":             {in: "cloudsigma:/" + id},
		"two slashes too many":        {in: "cloudsigma:////" + id},
		"with a region":               {in: "cloudsigma://zrh/" + id},
		"blanks within it":            {in: "cloudsigma:// " + id},
		"the nil UUID":                {in: "cloudsigma://00000000-0000-0000-0000-000000000000"},
		"a URN":                       {in: "cloudsigma://urn:uuid:" + id},
		"braces":                      {in: "cloudsigma://{" + id + "}"},
		"no dashes":                   {in: "cloudsigma://" + strings.ReplaceAll(id, "-", "")},
		"a query":                     {in: "cloudsigma://" + id + "?do=stop"},
		"the scheme twice":            {in: "cloudsigma://cloudsigma://" + id},
		"a letter that folds to ours": {in: "cloudſigma://" + id},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cloudsigma.ParseProviderID(tc.in)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Fatalf("ParseProviderID(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), wantProviderIDWords) {
				t.Errorf("ParseProviderID(%q) error = %q, want it to say what a provider ID looks like", tc.in, err)
			}
		})
	}
}

func TestErrorsAboutIDsAreShort(t *testing.T) {
	const most = 400
	long := strings.Repeat("é", 1<<20)
	for name, parse := range map[string]func(string) (string, error){
		"instance ID": cloudsigma.ParseInstanceID, "provider ID": cloudsigma.ParseProviderID,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(long); err == nil || len(err.Error()) > most {
				t.Errorf("the error has %d bytes, want some, and at most %d", len(err.Error()), most)
			}
		})
	}
}

// FuzzParseID checks that whatever is taken for an ID is a plain UUID, means itself, and goes into a path as it is.
func FuzzParseID(f *testing.F) {
	for _, seed := range []string{
		"63dd227a-9502-4311-919e-cd49f3416753", "cloudsigma://63DD227A-9502-4311-919E-CD49F3416753/", " cloudsigma:///63dd227a-9502-4311-919e-cd49f3416753",
		"urn:uuid:63dd227a-9502-4311-919e-cd49f3416753", "{63dd227a-9502-4311-919e-cd49f3416753}", "63dd227a95024311919ecd49f3416753",
		"00000000-0000-0000-0000-000000000000", "cloudsigma://", "openstack:///x", "", "../../profile",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, tc := range map[string]struct {
			parse  func(string) (string, error)
			prefix string
		}{
			"instance ID": {parse: cloudsigma.ParseInstanceID},
			"provider ID": {parse: cloudsigma.ParseProviderID, prefix: "cloudsigma://"},
		} {
			got, err := tc.parse(s)
			if err != nil {
				if got != "" {
					t.Errorf("%s %q: %q comes with the error %v", name, s, got, err)
				}
				continue
			}
			if parsed, err := uuid.Parse(got); err != nil || parsed == uuid.Nil || parsed.String() != got {
				t.Errorf("%s %q was taken for %q, which is no plain UUID", name, s, got)
			}
			if !strings.Contains(strings.ToLower(s), got) {
				t.Errorf("%s %q was taken for %q, which is not in it", name, s, got)
			}
			if again, err := tc.parse(tc.prefix + got); err != nil || again != got {
				t.Errorf("%s %q: the result %q is taken for %q, %v", name, s, got, again, err)
			}
		}
	})
}
