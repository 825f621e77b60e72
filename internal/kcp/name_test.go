package kcp_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/kcp"
)

func TestNamesOfLogicalClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		name    logicalcluster.Name
		wantErr string
	}{
		"a name that kcp makes":           {name: "1dz6n4ubraua7pul"},
		"root":                            {name: "root"},
		"a name with a hyphen":            {name: "team-a"},
		"one letter":                      {name: "a"},
		"63 letters":                      {name: logicalcluster.Name(strings.Repeat("a", 63))},
		"64 letters":                      {name: logicalcluster.Name(strings.Repeat("a", 64)), wantErr: `"` + strings.Repeat("a", 64) + `" is not the name of a logical cluster`},
		"longer than the quoted part":     {name: logicalcluster.Name(strings.Repeat("A", 1<<20)), wantErr: `"` + strings.Repeat("A", 64) + `" is not the name of a logical cluster`},
		"empty":                           {wantErr: `"" is not the name of a logical cluster`},
		"the wildcard":                    {name: "*", wantErr: `"*" is not the name of a logical cluster`},
		"the path of a workspace":         {name: "root:org", wantErr: `"root:org" is not the name of a logical cluster`},
		"a logical cluster of the shard":  {name: "system:admin", wantErr: `"system:admin" is not the name of a logical cluster`},
		"a path after a system: prefix":   {name: "system:../../services/x", wantErr: `"system:../../services/x" is not the name of a logical cluster`},
		"a path to a parent":              {name: "../services/x", wantErr: `"../services/x" is not the name of a logical cluster`},
		"dots":                            {name: "..", wantErr: `".." is not the name of a logical cluster`},
		"one dot":                         {name: ".", wantErr: `"." is not the name of a logical cluster`},
		"two segments":                    {name: "a/b", wantErr: `"a/b" is not the name of a logical cluster`},
		"an escaped slash":                {name: "a%2fb", wantErr: `"a%2fb" is not the name of a logical cluster`},
		"a query":                         {name: "a?b", wantErr: `"a?b" is not the name of a logical cluster`},
		"a fragment":                      {name: "a#b", wantErr: `"a#b" is not the name of a logical cluster`},
		"a capital letter":                {name: "A", wantErr: `"A" is not the name of a logical cluster`},
		"a hyphen at the end":             {name: "a-", wantErr: `"a-" is not the name of a logical cluster`},
		"a line break at the end":         {name: "a\n", wantErr: `"a\n" is not the name of a logical cluster`},
		"a backslash":                     {name: `a\b`, wantErr: `"a\\b" is not the name of a logical cluster`},
		"a letter outside of a-z":         {name: "å", wantErr: `"å" is not the name of a logical cluster`},
		"not UTF-8":                       {name: "\xff", wantErr: `"\xff" is not the name of a logical cluster`},
		"a space":                         {name: "a b", wantErr: `"a b" is not the name of a logical cluster`},
		"a user, a host and a port in it": {name: "u@h:1", wantErr: `"u@h:1" is not the name of a logical cluster`},
	} {
		t.Run(name, func(t *testing.T) {
			err := kcp.ValidateName(tc.name)
			if got := text(err); got != tc.wantErr {
				t.Errorf("ValidateName() = %q, want %q", got, tc.wantErr)
			}
			config, err := kcp.ConfigForName(&rest.Config{Host: "https://kcp.example.com/clusters/root"}, tc.name)
			if got := text(err); got != tc.wantErr {
				t.Errorf("ConfigForName() error = %q, want %q", got, tc.wantErr)
			}
			path, err := kcp.RequestPath(tc.name)
			if got := text(err); got != tc.wantErr {
				t.Errorf("RequestPath() error = %q, want %q", got, tc.wantErr)
			}
			if tc.wantErr != "" {
				return
			}
			if want := "https://kcp.example.com/clusters/" + tc.name.String(); config.Host != want {
				t.Errorf("ConfigForName() has host %q, want %q", config.Host, want)
			}
			if want := "/clusters/" + tc.name.String(); path != want {
				t.Errorf("RequestPath() = %q, want %q", path, want)
			}
		})
	}
}

func TestPathsOfWorkspaces(t *testing.T) {
	for path, wantErr := range map[string]string{
		"root":                 "",
		"root:org:team-a":      "",
		"1dz6n4ubraua7pul":     "",
		"system:admin":         "",
		"":                     `"" is not the path of a workspace`,
		"*":                    `"*" is not the path of a workspace`,
		"root:":                `"root:" is not the path of a workspace`,
		":root":                `":root" is not the path of a workspace`,
		"root::org":            `"root::org" is not the path of a workspace`,
		"root:*":               `"root:*" is not the path of a workspace`,
		"..":                   `".." is not the path of a workspace`,
		"../services/x":        `"../services/x" is not the path of a workspace`,
		"root:../../x":         `"root:../../x" is not the path of a workspace`,
		"system:../services/x": `"system:../services/x" is not the path of a workspace`,
		"root/org":             `"root/org" is not the path of a workspace`,
		"root?x":               `"root?x" is not the path of a workspace`,

		strings.Repeat("a:", 31) + "a":    "",
		strings.Repeat("a:", 32) + "a":    `"` + strings.Repeat("a:", 32) + `" has more than 32 names`,
		strings.Repeat("a:", 1<<10) + "A": `"` + strings.Repeat("a:", 32) + `" has more than 32 names`,
	} {
		config, err := kcp.ConfigFor(&rest.Config{Host: "https://kcp.example.com"}, logicalcluster.NewPath(path))
		if got := text(err); got != wantErr {
			t.Errorf("ConfigFor(%q) error = %q, want %q", path, got, wantErr)
		}
		if want := "https://kcp.example.com/clusters/" + path; err == nil && config.Host != want {
			t.Errorf("ConfigFor(%q) has host %q, want %q", path, config.Host, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzName checks that a URL with a valid name addresses one logical cluster, for any name.
func FuzzName(f *testing.F) {
	for _, name := range []string{"", "root", "1dz6n4ubraua7pul", "*", "..", "../services/x", "system:admin", "system:..", "a/b", "a%2fb", "a?b", "a\n", "root:org", "å"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		config, err := kcp.ConfigForName(&rest.Config{Host: "https://kcp.example.com"}, logicalcluster.Name(name))
		if err != nil {
			return
		}
		address, err := url.Parse(config.Host)
		if err != nil {
			t.Fatalf("%q: %v", config.Host, err)
		}
		if want := (url.URL{Scheme: "https", Host: "kcp.example.com", Path: "/clusters/" + name}); *address != want {
			t.Errorf("name %q has URL %v, want %v", name, *address, want)
		}
		if strings.ContainsAny(name, "/:*.%?# ") || name == "" {
			t.Errorf("%q is accepted as a name", name)
		}
	})
}
