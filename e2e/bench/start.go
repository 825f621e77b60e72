package main

import (
	"context"
	"errors"
	"os"
	"time"

	"warrantgate.dev/e2e/env/asset"
)

const (
	startBound  = 2
	binaryBound = 45

	// starts is the number of starts of serve. The slowest counts.
	starts = 5
	// machinesToRead is the number of machines of each user when serve starts. serve is ready after it has read them.
	machinesToRead = 2
)

// measureStart measures the size of the binary, and the time from its execution until /readyz responds with 200, beside an API
// server whose clusters and machines it reads before.
func measureStart(ctx context.Context, out *figures) (err error) {
	binary, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return err
	}
	file, err := os.Stat(binary)
	if err != nil {
		return err
	}
	out.atMost("binary_mb", float64(file.Size())/1e6, "MB", binaryBound)

	m := &machines{}
	defer func() { err = errors.Join(err, m.stop()) }() //nolint:contextcheck // what was started is stopped also when ctx has ended
	if err := m.begin(ctx, machinesToRead); err != nil {
		return err
	}
	if _, err := m.warrantgate.Install(ctx); err != nil {
		return err
	}
	progress("warrantgate starts, %d times", starts)
	var slowest time.Duration
	for range starts {
		begin := time.Now()
		if err := m.warrantgate.Start(ctx); err != nil {
			return err
		}
		slowest = max(slowest, time.Since(begin))
		if err := m.warrantgate.Stop(); err != nil {
			return err
		}
	}
	out.atMost("start_seconds", slowest.Seconds(), "s", startBound)
	return nil
}
