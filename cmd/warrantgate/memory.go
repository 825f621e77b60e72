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

// giveBackMemory returns to the operating system, as long as serve is idle, what the load before took and what being idle has
// taken since. The runtime would keep it for the next load, for minutes, and there are several replicas of which most have
// little to do. Each time costs one collection of a small heap, some milliseconds. It ends with ctx.
func giveBackMemory(ctx context.Context) error {
	allocated := allocatedBytes()
	wait.UntilWithContext(ctx, func(context.Context) {
		now := allocatedBytes()
		if now-allocated < idleBytes {
			debug.FreeOSMemory()
		}
		allocated = now
	}, idleInterval)
	return nil
}

// allocatedBytes is how much has been allocated since the start, whether or not it has been freed since.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
