package machine

import (
	"context"
	"errors"
	"strings"
	"sync"

	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
)

// anyMachine counts every machine as the holder of an instance.
func anyMachine(clusterapi.Machine) bool { return true }

// unrivaled denies an instance that a rival names: a machine in the same namespace, one that acts as the same user, or one whose credentials own
// the instance, because several clusters can act in one project. Another user or project cannot own it, and a machine of a tenant that names it,
// stored while claims were not evaluated, must not block the owner. All machines are rivals if the account is shared, because several clusters can
// then own one instance.
func (g *Gate) unrivaled(ctx context.Context, c change, id string, account ownership.Account) *webhooks.Answer {
	if account.User == "" && account.Identity == (ownership.Identity{}) {
		return g.unheld(ctx, c, id, anyMachine)
	}
	early, cancel := ownership.Part(ctx, 1, 3) // for the lookups of all holders together
	defer cancel()
	owns := sync.OnceValue(func() bool {
		answer, err := g.owners.Decide(ctx, share.FromContext(ctx), c.claim(id, account), ownership.Options{DryRun: true, First: c.first})
		return err == nil && answer.Verdict == ownership.Owned
	})
	return g.unheld(ctx, c, id, func(holder clusterapi.Machine) bool {
		if holder.Namespace == c.machine.Namespace {
			return true
		}
		other, err := g.objects.Account(ctx, holder.Cluster())
		switch invalid := (*clusterapi.AccountError)(nil); {
		case errors.As(err, &invalid):
			return false // its provider acts as nobody
		case err != nil:
			return true
		case other.Identity == (ownership.Identity{}):
			return strings.EqualFold(other.User, account.User)
		}
		return g.mayOwn(early, other, id, owns)
	})
}

// mayOwn reports whether the account of a holder may own an instance. Its tenant must not block the owner by credentials that cannot be used, nor by an
// endpoint that does not answer, nor by so many such endpoints that this machine's share of lookups is used up. So owns then decides: whether the
// account of this machine owns it. The audit reports if both do.
func (g *Gate) mayOwn(ctx context.Context, holder ownership.Account, id string, owns func() bool) bool {
	if ctx.Err() != nil { // the time for all holders has ended
		return !owns()
	}
	answer, err := g.owners.Decide(ctx, share.FromContext(ctx), ownership.Claim{Account: holder, ID: id}, ownership.Options{DryRun: true})
	region, identity := (*ownership.RegionError)(nil), (*ownership.IdentityError)(nil)
	switch {
	case errors.As(err, &region), errors.As(err, &identity):
		return false
	case err != nil:
		return !owns()
	}
	return answer.Verdict == ownership.Owned
}

// unheld denies an instance that another machine names.
func (g *Gate) unheld(ctx context.Context, c change, id string, counts func(clusterapi.Machine) bool) *webhooks.Answer {
	holder, err := g.objects.Holder(ctx, id, c.machine, counts)
	switch {
	case err != nil:
		return ptr.To(unreadable("it cannot be checked now whether another machine names the instance; try again", err))
	case holder != nil:
		return ptr.To(conflict(c, id, *holder))
	}
	return nil
}
