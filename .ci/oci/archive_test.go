package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestArchivesAreCompared(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	made := func(name, version, program string) string {
		file, archive := filepath.Join(dir, name), filepath.Join(dir, name+".tar")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := command([]string{"archive", "-image=warrantgate:test", "-version=" + version, "-revision=c0ffee", "-arch=amd64", file, archive}); err != nil {
			t.Fatal(err)
		}
		return archive
	}
	one := made("one", "v1.2.3", "program")
	for name, tc := range map[string]struct{ version, program, want string }{
		"equal":           {"v1.2.3", "program", ""},
		"another label":   {"v1.2.4", "program", "org.opencontainers.image.version:v1.2.4"},
		"another program": {"v1.2.3", "changed", "-rwxr-xr-x, 7 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			err := command([]string{"compare", one, made("other", tc.version, tc.program)})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("compare: error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestArchiveMistakes(t *testing.T) {
	for want, args := range map[string]string{
		"name the program and the archive": "archive -image=a:b program",
		"repository can only contain":      "archive -image=A program archive",
		"SOURCE_DATE_EPOCH":                "archive -image=a:b program archive",
		"name two archives":                "compare one",
		"none: open none":                  "compare none none",
	} {
		if err := command(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("oci %s: error = %v, want one with %q", args, err, want)
		}
	}
}
