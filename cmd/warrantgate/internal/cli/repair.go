package cli

import (
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"

	"warrantgate.dev/initializers/owner"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
)

// NewRepair returns the repair of the workspaces that reading can read. It reads and writes LogicalClusters with writing.
func NewRepair(reading, writing *rest.Config, config v1beta1.GateConfiguration) (*owner.Repair, error) {
	shards, err := owner.NewShards(reading)
	if err != nil {
		return nil, err
	}
	workspaces, err := kcp.NewClients(reading)
	if err != nil {
		return nil, err
	}
	logicalClusters, err := kcp.NewClients(writing)
	if err != nil {
		return nil, err
	}
	return &owner.Repair{
		Shards: shards,
		Steps:  &owner.Steps{LogicalClusters: logicalClusters, Workspaces: workspaces, WorkspaceOf: shards.WorkspaceOf, Policy: config.Policy()},
		After:  config.Repair.After.Duration, Limiter: Limiter(config.Repair.WorkspacesPerSecond),
	}, nil
}

// Limiter returns a limiter that allows perSecond operations per second, evenly spaced.
func Limiter(perSecond int32) *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), 1) }
