package ownership_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
)

func TestParseInstanceID(t *testing.T) {
	const (
		id    = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
		words = `is not an instance ID: it has to be the UUID of a server, such as "`
	)
	for name, tc := range map[string]struct {
		in   string
		want string // "" for an error
	}{
		"as the cloud writes it":         {in: id, want: id},
		"upper case":                     {in: strings.ToUpper(id), want: id},
		"blanks around it":               {in: " \t" + id + "\n", want: id},
		"a slash after it":               {in: id + "/", want: id},
		"two slashes after it":           {in: id + "//"},
		"a slash before it":              {in: "/" + id},
		"empty":                          {in: ""},
		"a slash":                        {in: "/"},
		"a blank within it":              {in: "5d0c3e1f-9a47-4b6e 8f21-7c9d0e1f2a3b"},
		"the nil UUID":                   {in: "00000000-0000-0000-0000-000000000000"},
		"a URN":                          {in: "urn:uuid:" + id},
		"braces":                         {in: "{" + id + "}"},
		"no dashes":                      {in: strings.ReplaceAll(id, "-", "")},
		"dashes elsewhere":               {in: "5d0c3e1f9-a47-4b6e-8f21-7c9d0e1f2a3b"},
		"other characters for dashes":    {in: strings.ReplaceAll(id, "-", "+")},
		"not hexadecimal":                {in: "5d0c3e1g-9a47-4b6e-8f21-7c9d0e1f2a3b"},
		"digits of another alphabet":     {in: "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3５"},
		"more after it":                  {in: id + "/action"},
		"a parent directory":             {in: "../" + id},
		"a query after it":               {in: id + "?do=stop"},
		"a fragment after it":            {in: id + "#"},
		"another ID after it":            {in: id + "," + id},
		"a zero byte after it":           {in: id + "\x00"},
		"an escape in it":                {in: "%35" + id[1:]},
		"a provider ID":                  {in: "cloudsigma://" + id},
		"a provider ID of another cloud": {in: "openstack:///" + id},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ownership.ParseInstanceID(tc.in)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Fatalf("ParseInstanceID(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("ParseInstanceID(%q) error = %q, want it to contain the format of an ID", tc.in, err)
			}
		})
	}
}

// parsers are those of all IDs, by the text before the UUID.
var parsers = map[string]func(string) (string, error){
	"": ownership.ParseInstanceID, "cloudsigma://": cloudsigma.ProviderIDs.Parse, "openstack:///": openstack.ProviderIDs.Parse,
}

func TestErrorsAboutIDsAreShort(t *testing.T) {
	const most = 400
	for prefix, parse := range parsers {
		for _, begin := range []string{prefix, ""} {
			if _, err := parse(begin + strings.Repeat("é", 1<<20)); err == nil || len(err.Error()) > most {
				t.Errorf("%s: the error about %q and more is %.500v, want one of at most %d bytes", prefix, begin, err, most)
			}
		}
	}
}

// FuzzParse checks that each result of a parser is a plain UUID that is contained in the input, and that the parser accepts it after its prefix.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b", " 5D0C3E1F-9A47-4B6E-8F21-7C9D0E1F2A3B/\n", "cloudsigma://5D0C3E1F-9A47-4B6E-8F21-7C9D0E1F2A3B/",
		" cloudsigma:///5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b", "cloudsigma://urn:uuid:5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b",
		"openstack:///5D0C3E1F-9A47-4B6E-8F21-7C9D0E1F2A3B/", " openstack://RegionOne/5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b",
		"openstack://\x00/5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b", "{5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b}", "5d0c3e1f9a474b6e8f217c9d0e1f2a3b",
		"00000000-0000-0000-0000-000000000000", "cloudsigma://", "openstack:///", "openstack:////", "openstack:///x", "", "../../profile",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for prefix, parse := range parsers {
			got, err := parse(s)
			if err != nil {
				if got != "" || len(err.Error()) > 1000 {
					t.Errorf("%q: %q comes with the error %v", s, got, err)
				}
				continue
			}
			if parsed, err := uuid.Parse(got); err != nil || parsed == uuid.Nil || parsed.String() != got {
				t.Errorf("%q was taken for %q, which is no plain UUID", s, got)
			}
			if !strings.Contains(strings.ToLower(s), got) {
				t.Errorf("%q was taken for %q, which is not in it", s, got)
			}
			if again, err := parse(prefix + got); err != nil || again != got {
				t.Errorf("%q: the result %q is taken for %q, %v", s, got, again, err)
			}
		}
	})
}

func TestLowerEmail(t *testing.T) {
	for email, want := range map[string]string{
		"":                      "",
		"KATE@Example.COM":      "kate@example.com",
		"[@`{Z}@example.com":    "[@`{z}@example.com",
		"\u212Aate@example.com": "\u212Aate@example.com",
		"\u00c9@EXAMPLE.com":    "\u00c9@example.com",
		"\u0130@example.com":    "\u0130@example.com",
	} {
		if got := ownership.LowerEmail(email); got != want {
			t.Errorf("LowerEmail(%q) = %q, want %q", email, got, want)
		}
	}
}

// TestLongestID: a format may have a prefix of any length, and a tenant can send a MiB.
func TestLongestID(t *testing.T) {
	format := ownership.NewIDFormat("é*", " is no ID")
	for runes, want := range map[int]bool{400: true, 401: false} {
		id := strings.Repeat("é", runes-len(ownership.ExampleInstanceID)) + ownership.ExampleInstanceID
		got, err := format.Parse(" " + id + " ")
		if (err == nil) != want || want && got != ownership.ExampleInstanceID {
			t.Errorf("Parse() of %d characters = %q, %v", runes, got, err)
		}
	}
}

func TestExternalIDs(t *testing.T) {
	const aws = `aws:///[^/]+/(i-[0-9a-f]+)`
	for name, tc := range map[string]struct {
		pattern, value, want string // no ID if want is ""
	}{
		"a provider ID":                                  {value: "aws:///eu-1a/i-0a1b", want: "aws:/eu-1a/i-0a1b"},
		"in upper case, with blanks":                     {value: "\t AWS:///EU-1a/I-0A1B\n", want: "aws:/eu-1a/i-0a1b"},
		"with other slashes":                             {value: "aws://eu-1a//i-0a1b//", want: "aws:/eu-1a/i-0a1b"},
		"a plain ID":                                     {value: "/subscriptions/7A/resourceGroups/g_(1)/vm", want: "subscriptions/7a/resourcegroups/g_(1)/vm"},
		"of 400 characters":                              {value: strings.Repeat("a", 400), want: strings.Repeat("a", 400)},
		"of 401 characters":                              {value: strings.Repeat("a", 401)},
		"nothing":                                        {value: ""},
		"slashes only":                                   {value: "///"},
		"a blank in it":                                  {value: "aws:///eu-1a/i-0a 1b"},
		"a line break in it":                             {value: "a\nb"},
		"an invisible character":                         {value: "i-0a\u200b1b"},
		"the Kelvin sign, which folds to k":              {value: "\u212a1"},
		"a Cyrillic letter":                              {value: "i-0\u04301b"},
		"a letter of full width":                         {value: "\uff49-0a1b"},
		"an escape":                                      {value: "aws:///eu-1a/i-%30a1b"},
		"a query":                                        {value: "aws:///eu-1a/i-0a1b?x"},
		"no UTF-8":                                       {value: "i-\xff"},
		"a segment .":                                    {value: "aws:///eu-1a/.//i-0a1b"},
		"a segment .. at the end":                        {value: "aws:///eu-1a/i-0a1b/.."},
		"a segment .. after the scheme":                  {value: "rented:../i-0a1b"},
		"a segment . at the beginning":                   {value: "/./i-0a1b"},
		"segments with more than dots":                   {value: "aws:///.../.a/i.", want: "aws:/.../.a/i."},
		"a segment . that is not compared":               {pattern: aws, value: "aws:///./i-0a1b", want: "i-0a1b"},
		"a cut value of the index":                       {value: strings.Repeat("a", 300) + "…"},
		"a pattern":                                      {pattern: aws, value: " AWS:///eu-1b/i-0A1B ", want: "i-0a1b"},
		"a pattern in upper case":                        {pattern: `AWS://([A-Z]+)`, value: "aws://x", want: "x"},
		"a pattern that the value does not match":        {pattern: aws, value: "aws:///eu-1b/i-0a1b/x"},
		"a pattern that matches a part only":             {pattern: aws, value: "x-aws:///eu-1b/i-0a1b"},
		"an alternative, which does not end the pattern": {pattern: `a://(.*)|b`, value: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			parse, err := ownership.ExternalIDs(tc.pattern)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parse(tc.value)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%q is taken for %q, %v, want %q", tc.value, got, err, tc.want)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
		})
	}
	for _, pattern := range []string{"(", "a", "(a)(b)", "(?:a)"} {
		if _, err := ownership.ExternalIDs(pattern); err == nil {
			t.Errorf("the pattern %q is accepted", pattern)
		}
	}
}
