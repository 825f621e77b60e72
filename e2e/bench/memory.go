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

// anonymousMebibytes returns the anonymous memory of a process: its allocations without mapped files, which Linux drops under memory
// pressure.
func anonymousMebibytes(pid int) (float64, error) { return memoryOf(pid, "RssAnon") }

// memoryOf returns a figure of the memory of a process, in MiB.
func memoryOf(pid int, figure string) (float64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("the memory of a process can be read on Linux only: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		var kibibytes float64
		if _, err := fmt.Sscanf(line, figure+": %f kB", &kibibytes); err == nil {
			return kibibytes / 1024, nil
		}
	}
	return 0, fmt.Errorf("no %s in %s", figure, path)
}

// peakMebibytes returns the peak of the resident memory of a process.
func peakMebibytes(pid int) (float64, error) { return memoryOf(pid, "VmHWM") }

// peakArgument makes this program run another one and report its peak of memory.
const peakArgument = "peak-memory"

// finished is a program that has ended.
type finished struct {
	// PeakKiB is the peak of its resident memory.
	PeakKiB int64
	// Output is its output. Failure is the reason of an exit status other than 0, "" if the status is 0.
	Output, Failure string
}

// runForMemory runs a program to its end through a small process: the peak that Linux reports of an ended process includes the
// memory of the process that forked it, and this one is large.
func runForMemory(ctx context.Context, env []string, program string, args ...string) (finished, error) {
	self, err := os.Executable()
	if err != nil {
		return finished{}, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{peakArgument, program}, args...)...)
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that it can stop its own processes
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return finished{}, err
	}
	var f finished
	err = json.Unmarshal(output, &f)
	return f, err
}

// reportPeak runs a program to its end and writes the result to out.
func reportPeak(ctx context.Context, command []string, out io.Writer) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &output, &output
	failure := cmd.Run()
	if cmd.ProcessState == nil { // it did not start
		return failure
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("this system does not report the peak memory of a process")
	}
	f := finished{PeakKiB: usage.Maxrss, Output: output.String()} // in KiB on Linux
	if failure != nil {
		f.Failure = failure.Error()
	}
	return json.NewEncoder(out).Encode(f)
}
