package main

import (
	"fmt"
	"os"
	"strings"
)

// residentMebibytes returns the resident memory of a process, as Linux tells it.
func residentMebibytes(pid int) (float64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("resident memory can be read on Linux only: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		var kibibytes float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kibibytes); err == nil {
			return kibibytes / 1024, nil
		}
	}
	return 0, fmt.Errorf("no VmRSS in %s", path)
}
