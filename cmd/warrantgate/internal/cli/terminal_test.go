package cli_test

import (
	"os"
	"testing"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/preflight"
)

// What goes into a pipe or a file has neither colors nor progress.
func TestNotOnATerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if got := cli.Color(file, preflight.No, "wrong"); got != "wrong" {
		t.Errorf("Color() = %q", got)
	}
	progress := cli.NewProgress(file)
	progress.Show("%d of %d", 1, 2)
	if progress.Clear() {
		t.Error("progress was shown")
	}
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("%d bytes were written, %v", info.Size(), err)
	}
}
