package serve

import (
	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
)

// memoryShare is the share of the container's memory that the Go runtime takes before it collects garbage more often. The rest is for what is in use
// at that moment and for memory outside of the runtime.
const memoryShare = 0.8

// limitMemory makes the Go runtime respect the memory limit of the container. Otherwise a flood of large requests can exceed it while other work on
// the machine delays the garbage collection, and the kernel ends the process. The variable GOMEMLIMIT takes precedence.
func limitMemory(logger logr.Logger, container memlimit.Provider) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(container))
	if err != nil { // there is no container
		logger.V(1).Info("the memory limit of the container is unknown, so the Go runtime has none", "error", err.Error())
		return
	}
	logger.V(1).Info("the Go runtime has a memory limit", "bytes", limit)
}
