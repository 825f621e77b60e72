package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
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

// cpuTime returns how long a process has computed since it started, as Linux tells it in hundredths of a second.
func cpuTime(pid int) (time.Duration, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("the time that a process computes can be read on Linux only: %w", err)
	}
	// The second field, the name in parentheses, may hold anything. User and system time are the 14th and the 15th.
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("no times in %s", path)
	}
	var user, system time.Duration
	if _, err := fmt.Sscan(fields[11], &user); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := fmt.Sscan(fields[12], &system); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return (user + system) * 10 * time.Millisecond, nil
}

// awaitCalm waits until a process has next to nothing to do.
func awaitCalm(ctx context.Context, pid int) error {
	const share, seconds = time.Second / 4, 5
	before, err := cpuTime(pid)
	if err != nil {
		return err
	}
	calm := 0
	return wait.PollUntilContextCancel(ctx, time.Second, false, func(context.Context) (bool, error) {
		now, err := cpuTime(pid)
		if calm++; now-before > share {
			calm = 0
		}
		before = now
		return calm >= seconds, err
	})
}
