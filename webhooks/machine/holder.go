package machine

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
)

// anyMachine counts every machine as the holder of an instance.
func anyMachine(clusterapi.Machine) bool { return true }

// rivals returns which machines count as holders of an instance that the cloud attributes to account: those in the same namespace, those that
// act as the same user, and those whose credentials own the instance, because several clusters can act in one project. Another user or project
// cannot own it, and a machine of a tenant that names it, stored while claims were not evaluated, must not block the owner. All count if the
// account is shared, because several clusters can then own one instance.
func (g *Gate) rivals(ctx context.Context, c change, id string, account ownership.Account) func(clusterapi.Machine) bool {
	if account.User == "" && account.Identity == (ownership.Identity{}) {
		return anyMachine
	}
	limit, bounded := ctx.Deadline()
	if bounded { // the lookups of all holders together leave time for that of the machine itself
		limit = time.Now().Add(time.Until(limit) / 3)
	}
	return func(holder clusterapi.Machine) bool {
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
		early := ctx
		if bounded {
			var cancel context.CancelFunc
			early, cancel = context.WithDeadline(ctx, limit)
			defer cancel()
		}
		answer, err := g.owners.Decide(early, share.FromContext(ctx), ownership.Claim{Account: other, ID: id}, ownership.Options{DryRun: true})
		region, identity := (*ownership.RegionError)(nil), (*ownership.IdentityError)(nil)
		switch {
		case errors.As(err, &region), errors.As(err, &identity):
			return false // its author could revoke credentials that cannot be used to block the owner
		case err != nil: // nor may it choose an endpoint that does not answer
			answer, err = g.owners.Decide(ctx, share.FromContext(ctx), c.claim(id, account), ownership.Options{DryRun: true})
			return err != nil || answer.Verdict != ownership.Owned
		}
		return answer.Verdict == ownership.Owned
	}
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
