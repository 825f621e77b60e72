package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// processorTime returns the CPU time of a process since its start, as Linux reports it (proc_pid_stat(5)).
func processorTime(pid int) (time.Duration, error) {
	const (
		// tick is the unit of the times. It is the same on all Linux platforms of Go.
		tick = 10 * time.Millisecond
		// user and system are the indices of the times in the fields after the name of the program.
		user, system = 11, 12
	)
	path := fmt.Sprintf("/proc/%d/stat", pid)
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("processor time can be read on Linux only: %w", err)
	}
	// The name is in parentheses, and can contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= system {
		return 0, fmt.Errorf("no processor times in %s", path)
	}
	var ticks int64
	for _, at := range []int{user, system} {
		n, err := strconv.ParseInt(string(fields[at]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor times in %s: %w", path, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}
