// Package memory keeps small what lives long and mostly waits.
package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// idleInterval is how long little has to be allocated for the process to count as idle.
	idleInterval = 20 * time.Second
	// idleBytes is little: what probes, scrapes of the metrics and a Lease allocate in that time.
	idleBytes = 8 << 20
)

// GiveBack returns to the operating system, as long as the process is idle, what the load before took and what being idle has
// taken since, and what only the start needed of the program. The runtime would keep the one for the next load, for minutes, and
// Linux the other for good; and there are several replicas of which most have little to do. Each time costs one collection of a
// small heap, some milliseconds. It ends with ctx.
func GiveBack(ctx context.Context) error {
	allocated := allocatedBytes()
	wait.UntilWithContext(ctx, func(context.Context) {
		now := allocatedBytes()
		if now-allocated < idleBytes {
			debug.FreeOSMemory()
			if err := unmapConstants(); err != nil {
				logf.FromContext(ctx).V(1).Info("the program stays in memory as a whole", "error", err.Error())
			}
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
