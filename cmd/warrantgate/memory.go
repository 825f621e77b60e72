package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// idleInterval is how long little has to be allocated for serve to count as idle.
	idleInterval = 20 * time.Second
	// idleBytes is little: what probes, scrapes of the metrics and a Lease allocate in that time.
	idleBytes = 8 << 20
)

// giveBackMemory returns to the operating system, once serve has become idle, what the load before took. The runtime would
// keep it for the next load, for minutes, and there are several replicas of which most have little to do. It ends with ctx.
func giveBackMemory(ctx context.Context) error {
	allocated, given := allocatedBytes(), false
	wait.UntilWithContext(ctx, func(context.Context) {
		now := allocatedBytes()
		idle := now-allocated < idleBytes
		allocated = now
		if idle && !given {
			debug.FreeOSMemory()
		}
		given = idle
	}, idleInterval)
	return nil
}

// allocatedBytes is how much has been allocated since the start, whether or not it has been freed since.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
