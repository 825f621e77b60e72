package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"internal/identity/a.go": "package identity\n\nfunc a() bool {\n\treturn 1 > 0 || b\n}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := "internal/identity/a.go | CONDITIONALS_BOUNDARY | return 1 > 0 || b"
	for name, tc := range map[string]struct {
		list, status string
		wantErr      bool
	}{
		"nothing survived":            {status: "KILLED"},
		"a survivor that is listed":   {list: "# why\n\n" + key + " | it is the same", status: "LIVED"},
		"a survivor that is not":      {status: "LIVED", wantErr: true},
		"code that no test runs":      {status: "NOT COVERED", wantErr: true},
		"listed without a reason":     {list: key, status: "LIVED", wantErr: true},
		"listed, and killed":          {list: key + " | it is the same", status: "KILLED", wantErr: true},
		"listed of another package":   {list: strings.Replace(key, "identity", "other", 1) + " | it is the same", status: "KILLED"},
		"listed of a package below":   {list: strings.Replace(key, "identity", "identity/below", 1) + " | it is the same", status: "KILLED"},
		"a mutant that runs forever":  {status: "TIMED OUT"},
		"a mutant that cannot be run": {status: "NOT VIABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			report := filepath.Join(t.TempDir(), "report.json")
			content := fmt.Sprintf(`{"files":[{"file_name":"a.go","mutations":[{"type":"CONDITIONALS_BOUNDARY","status":%q,"line":4,"column":11}]}]}`, tc.status)
			if err := os.WriteFile(report, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := compare([]byte(tc.list), root, []string{report + "=internal/identity"}); (err != nil) != tc.wantErr {
				t.Errorf("compare() = %v, want an error: %t", err, tc.wantErr)
			}
		})
	}
}

// TestTheListNamesLinesOfTheSources fails if a listed line was edited. Otherwise only "make mutate" would show that, after hours.
func TestTheListNamesLinesOfTheSources(t *testing.T) {
	content, err := os.ReadFile("list.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := read(content)
	if err != nil {
		t.Fatal(err)
	}
	for key := range listed {
		parts := strings.SplitN(key, separator, 3)
		source, err := os.ReadFile(filepath.Join("../..", parts[0]))
		if err != nil {
			t.Error(err)
			continue
		}
		found := false
		for line := range strings.Lines(string(source)) {
			found = found || strings.TrimSpace(line) == parts[2]
		}
		if !found {
			t.Errorf("%s does not contain the line %q", parts[0], parts[2])
		}
	}
}
