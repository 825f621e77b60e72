package main

import (
	"os"
	"testing"
	"time"
)

func TestProcessorTimeGrowsWithWork(t *testing.T) {
	now := func() time.Duration {
		took, err := processorTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return took
	}
	for before, start := now(), time.Now(); now() <= before; {
		if time.Since(start) > time.Minute {
			t.Fatal("a process that works for a minute took no processor time")
		}
	}
}
