package machine

import (
	"context"
	"errors"
	"strings"

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
// account is shared: then several clusters can own one instance.
func (g *Gate) rivals(ctx context.Context, c change, id string, account ownership.Account) func(clusterapi.Machine) bool {
	if account.User == "" && account.Identity == (ownership.Identity{}) {
		return anyMachine
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
		return g.mayOwn(ctx, other, id)
	}
}

// mayOwn reports whether an account owns an instance, or whether the cloud does not answer that. Credentials that cannot be used own nothing: their
// author could revoke them to block the owner.
func (g *Gate) mayOwn(ctx context.Context, account ownership.Account, id string) bool {
	answer, err := g.owners.Decide(ctx, share.FromContext(ctx), ownership.Claim{Account: account, ID: id}, ownership.Options{DryRun: true})
	var region *ownership.RegionError
	var identity *ownership.IdentityError
	if errors.As(err, &region) || errors.As(err, &identity) {
		return false
	}
	return err != nil || answer.Verdict == ownership.Owned
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
