package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Only Linux sends a signal to a process when its parent ends.
func TestProcessEndsWithItsParent(t *testing.T) {
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(command.Environ(), parentEnv+"="+dir)
	command.Stderr = t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(waitFor(t, filepath.Join(dir, "child.log"), "end"), "pid %d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it was killed
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	patience := time.After(30 * time.Second)
	for runs(pid) {
		select {
		case <-ticker.C:
		case <-patience:
			t.Fatal("the process still runs after its parent has ended")
		}
	}
}

// runs returns whether a process exists and is not a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
