package main

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPagesAreShort keeps each page of the repository readable, and all of them together.
func TestPagesAreShort(t *testing.T) {
	const longestLine, most = 200, 110 << 10
	limits := map[string]int{
		"README.md": 8 << 10, "SECURITY.md": 9 << 10, "CONTRIBUTING.md": 6 << 10, "charts/warrantgate/README.md": 12 << 10,
		"webhooks/machine/README.md": 15 << 10, "webhooks/workspace/README.md": 9 << 10,
	}
	total := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		page, _ := filepath.Rel("../..", path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (page == ".git" || page == "bin" || page == "dist"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(page) != ".md":
			return nil
		}
		content := readFile(t, path)
		total += len(content)
		if limit, limited := limits[page]; limited && len(content) > limit {
			t.Errorf("%s has %d bytes, more than %d: move details to the page of their component", page, len(content), limit)
		}
		number := 0
		for line := range strings.Lines(content) {
			if number++; utf8.RuneCountInString(strings.TrimSpace(line)) > longestLine {
				t.Errorf("%s:%d has more than %d characters", page, number, longestLine)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if total > most {
		t.Errorf("all pages have %d bytes, more than %d", total, most)
	}
}
