// Package ownershiptest contains tests for parsers of instance IDs.
package ownershiptest

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// FuzzID checks that each result of parse is a plain UUID that is contained in the input, and that parse accepts it after the prefix.
func FuzzID(f *testing.F, parse func(string) (string, error), prefix string, seeds ...string) {
	f.Helper()
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parse(s)
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
		if again, err := parse(prefix + got); err != nil || again != got {
			t.Errorf("%q: the result %q is taken for %q, %v", s, got, again, err)
		}
	})
}
