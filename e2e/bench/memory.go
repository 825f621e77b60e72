package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// residentMebibytes returns the resident memory of a process, as Linux tells it.
func residentMebibytes(pid int) (float64, error) { return statusMebibytes(pid, "VmRSS") }

// anonymousMebibytes returns the anonymous memory of a process: what it has allocated, without the files that it maps, which Linux
// drops when others need the memory.
func anonymousMebibytes(pid int) (float64, error) { return statusMebibytes(pid, "RssAnon") }

// peakMebibytes returns the resident memory that a process has had at most.
func peakMebibytes(pid int) (float64, error) { return statusMebibytes(pid, "VmHWM") }

func statusMebibytes(pid int, field string) (float64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("resident memory can be read on Linux only: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		var kibibytes float64
		if _, err := fmt.Sscanf(line, field+": %f kB", &kibibytes); err == nil {
			return kibibytes / 1024, nil
		}
	}
	return 0, fmt.Errorf("no %s in %s", field, path)
}

// peakArgument makes this program run another and tell how much memory that had at most.
const peakArgument = "peak-memory"

// finished is a program that has ended.
type finished struct {
	// PeakKiB is the resident memory that it had at most.
	PeakKiB int64
	// Output is what it printed. Failure is why its exit status is not 0, "" if it is.
	Output, Failure string
}

// runForMemory runs a program to its end. In between is a small process: what Linux tells of a process that has ended
// includes the memory of the one that it was forked from, and this one is large.
func runForMemory(ctx context.Context, env []string, program string, args ...string) (finished, error) {
	self, err := os.Executable()
	if err != nil {
		return finished{}, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{peakArgument, program}, args...)...)
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it can end what it runs
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	told, err := cmd.Output()
	if err != nil {
		return finished{}, err
	}
	var f finished
	err = json.Unmarshal(told, &f)
	return f, err
}

// tellPeak runs a program to its end and writes to out what became of it.
func tellPeak(ctx context.Context, command []string, out io.Writer) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &output, &output
	failure := cmd.Run()
	if cmd.ProcessState == nil { // it did not start
		return failure
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("this system does not tell how much memory a process had")
	}
	f := finished{PeakKiB: usage.Maxrss, Output: output.String()} // in KiB on Linux
	if failure != nil {
		f.Failure = failure.Error()
	}
	return json.NewEncoder(out).Encode(f)
}
