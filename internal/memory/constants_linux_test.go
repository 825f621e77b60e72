package memory

import (
	"regexp"
	"testing"

	"github.com/prometheus/procfs"
)

func TestConstantsAreUnmappedAndCanStillBeRead(t *testing.T) {
	before := mappedBytes(t)
	if err := unmapConstants(); err != nil {
		t.Fatal(err)
	}
	if after := mappedBytes(t); after+1<<20 > before {
		t.Errorf("the program takes %d bytes of memory, and %d before; want a MiB less at least", after, before)
	}
	// This needs tables, types and texts.
	if !regexp.MustCompile(`^\p{Lu}[a-z]+$`).MatchString("Workspace") {
		t.Error("what was unmapped is not what it was")
	}
}

// mappedBytes is how much of files is mapped, which in a test is the program.
func mappedBytes(t *testing.T) uint64 {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	status, err := self.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	return status.RssFile
}
