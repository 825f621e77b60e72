package machine

import (
	"context"
	"errors"
	"strings"

	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

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
		other, err := g.objects.Account(ctx, holder.Cluster())
		if invalid := (*clusterapi.AccountError)(nil); errors.As(err, &invalid) {
			return false // its provider acts as nobody
		}
		return err != nil || strings.EqualFold(other.User, account.User)
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
