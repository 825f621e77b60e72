package machine

import (
	"context"
	"errors"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// writes are the writes of machines and clusters that may not be stored yet. The zero value remembers none.
type writes struct {
	registry       *inflight.Registry
	version        inflight.VersionFunc
	logicalCluster string
}

// Sharing makes the gate share the registry of writes with the gates on clusters: a claim is undecided while the identity of its cluster
// is being changed, and the other way round. logicalCluster is that of kcp, "" on Kubernetes.
func (g *Gate) Sharing(registry *inflight.Registry, version inflight.VersionFunc, logicalCluster string) *Gate {
	g.writes = writes{registry: registry, version: version, logicalCluster: logicalCluster}
	return g
}

// begin registers a write of an object, with the resource version that it replaces, until end is called. The entry is nil if there is no
// registry and for dry runs, which are never stored. end is never nil.
func (w writes) begin(ctx context.Context, request admission.Request, write inflight.Write) (entry *inflight.Entry, end func(webhooks.Decision), err error) {
	if w.registry == nil || request.DryRun != nil && *request.DryRun {
		return nil, func(webhooks.Decision) {}, nil
	}
	write.LogicalCluster = w.logicalCluster
	if entry, err = w.registry.Begin(ctx, write, w.version); err != nil {
		return nil, func(webhooks.Decision) {}, err
	}
	return entry, func(decision webhooks.Decision) {
		if decision == webhooks.Allowed || decision == webhooks.Warned {
			entry.Admitted()
		} else {
			entry.End()
		}
	}, nil
}

// reviewClaim checks a change, and keeps it registered for a while if it is admitted. replaced is the resource version that it replaces.
func (g *Gate) reviewClaim(ctx context.Context, request admission.Request, c change, replaced string) (answer webhooks.Answer) {
	write := inflight.Write{
		Object: inflight.Object{Resource: c.machine.Kind.Resource(), Namespace: c.machine.Namespace, Name: c.machine.Name},
		Uses:   []inflight.Key{c.machine.Cluster().Key()},
	}
	if owners := c.machine.Owners(); len(owners) == 1 { // more are denied
		write.Uses = append(write.Uses, clusterapi.OwnerKey(c.machine.Namespace, owners[0]))
	}
	if c.exists {
		write.ResourceVersion = replaced
	} else {
		write.UID = c.machine.UID
	}
	entry, end, err := g.writes.begin(ctx, request, write)
	if err != nil {
		return g.conclude(c, notBegun("changes the identity that the provider of its cluster acts as", err))
	}
	defer func() { end(answer.Decision) }()
	return g.review(ctx, c, entry, request.DryRun != nil && *request.DryRun)
}

// alone excludes claims of other machines for the instance until this claim is stored. It returns a denial if another machine claims or
// names the instance. entry is nil if the write is not registered.
//
// It is called only after the cloud has confirmed the claim: otherwise a tenant that names an instance of another tenant would block the
// claims of its owner. A claim that is admitted without an answer of the cloud does not exclude other claims.
func (g *Gate) alone(ctx context.Context, c change, id string, entry *inflight.Entry, counts func(clusterapi.Machine) bool) *webhooks.Answer {
	if entry == nil {
		return nil
	}
	instance := inflight.Key{Subject: "Instance of " + string(c.machine.Kind.Provider), Name: id}
	if err := entry.Extend(ctx, []inflight.Key{instance}, g.writes.version); err != nil {
		return ptr.To(pending("names the same instance, or changes the identity that the provider of its cluster acts as", err))
	}
	return g.unheld(ctx, c, id, entry.Overlaps(), counts)
}

// anyMachine counts every machine as the holder of an instance.
func anyMachine(clusterapi.Machine) bool { return true }

// rivals returns which machines count as holders of an instance that the cloud attributes to the user of account: those in the same
// namespace, and those that act as the same user. Another user cannot own it, and a machine of a tenant that names it, stored while claims
// were not evaluated, must not block the owner. All count if the account has no user: then several clusters can own one instance.
func (g *Gate) rivals(ctx context.Context, c change, account ownership.Account) func(clusterapi.Machine) bool {
	if account.User == "" {
		return anyMachine
	}
	return func(holder clusterapi.Machine) bool {
		if holder.Namespace == c.machine.Namespace {
			return true
		}
		other, err := g.account(ctx, holder.Cluster())
		if invalid := (*clusterapi.AccountError)(nil); errors.As(err, &invalid) {
			return false // its provider acts as nobody
		}
		return err != nil || strings.EqualFold(other.User, account.User)
	}
}

// unheld denies an instance that another machine names. also are objects that were written a moment ago.
func (g *Gate) unheld(
	ctx context.Context, c change, id string, also []inflight.Object, counts func(clusterapi.Machine) bool,
) *webhooks.Answer {
	holder, err := g.objects.Holder(ctx, id, c.machine, also, counts)
	switch {
	case err != nil:
		return ptr.To(undecided("ObjectsUnknown", "it cannot be checked now whether another machine names the instance; try again", err))
	case holder != nil:
		return ptr.To(conflict(c, id, *holder))
	}
	return nil
}
