package process_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		os.Exit(parent(dir))
	}
	goleak.VerifyTestMain(m)
}

// parentEnv makes the test binary the parent of a process. Its value is the directory for the files of the process.
const parentEnv = "PROCESS_TEST_PARENT"

// waitFor waits until a file contains a text, and returns the content of the file.
func waitFor(t *testing.T, path, text string) string {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	patience := time.After(30 * time.Second)
	for {
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), text) {
			return string(content)
		}
		select {
		case <-ticker.C:
		case <-patience:
			t.Fatalf("%s has no %q: %v: %q", path, text, err, content)
		}
	}
}
