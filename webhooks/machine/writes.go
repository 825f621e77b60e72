package machine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/webhooks"
)

// writes are those of machines and clusters that may not be stored yet. The zero value remembers none.
type writes struct {
	registry       *inflight.Registry
	version        func(ctx context.Context, object inflight.Object) (string, error)
	logicalCluster string
}

// Sharing has the gate share what may not be stored yet with the gates on clusters: a claim is undecided while the identity of
// its cluster is being changed, and the other way round. version returns the resource version that an object has now.
// logicalCluster is that of kcp, "" on Kubernetes.
func (g *Gate) Sharing(
	registry *inflight.Registry, version func(ctx context.Context, object inflight.Object) (string, error), logicalCluster string,
) *Gate {
	g.writes = writes{registry: registry, version: version, logicalCluster: logicalCluster}
	return g
}

// reviewClaim judges a change, and remembers it for a while if it is admitted. replaced is the resource version that it replaces.
func (g *Gate) reviewClaim(ctx context.Context, request admission.Request, c change, replaced string) (answer webhooks.Answer) {
	dryRun := request.DryRun != nil && *request.DryRun
	if g.writes.registry == nil || dryRun {
		return g.conclude(c, g.judge(ctx, c, dryRun))
	}
	write := inflight.Write{
		Object: inflight.Object{
			LogicalCluster: g.writes.logicalCluster, Resource: c.machine.Kind.Resource(), Namespace: c.machine.Namespace, Name: c.machine.Name,
		},
		Uses: []inflight.Key{c.machine.Cluster().Key()},
	}
	if c.exists {
		write.ResourceVersion = replaced
	}
	entry, err := g.writes.registry.Begin(ctx, write, g.writes.version)
	if err != nil {
		return g.conclude(c, undecided("ClaimPending", "another write is being stored that changes as whom the provider of its cluster acts; try again", err))
	}
	defer func() {
		if answer.Decision == webhooks.Allowed || answer.Decision == webhooks.Warned {
			entry.Admitted()
		} else {
			entry.End()
		}
	}()
	return g.conclude(c, g.judge(ctx, c, dryRun))
}
