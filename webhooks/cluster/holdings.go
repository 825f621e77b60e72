package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
)

// maxListed limits how many machines a denial names.
const maxListed = 5

// Machines reads the machines of clusters from the API server.
type Machines interface {
	// Holders returns the machines of a cluster that name instances and act as the cluster does.
	Holders(ctx context.Context, cluster clusterapi.Cluster) ([]clusterapi.Machine, error)
}

// Instances lists the instances of accounts.
type Instances interface {
	// Instances returns all instances of an account for a tenant. lister lists them; nil means the cloud of the account. The error is
	// an *ownership.UnknownError.
	Instances(ctx context.Context, tenant share.Tenant, account ownership.Account, lister ownership.Lister) ([]ownership.Instance, error)
}

// Holdings checks a change of a provider's account against the instances that machines already name: each must belong to the new
// account. A nil *Holdings admits every change.
type Holdings struct {
	machines  Machines
	instances Instances
}

// NewHoldings returns the check.
func NewHoldings(machines Machines, instances Instances) *Holdings {
	return &Holdings{machines: machines, instances: instances}
}

// ownerName returns the name of the owner of an account for the requester, and the name for all readers of Events.
type ownerName func(account ownership.Account) (open, public string)

// openly is for owners that all readers of Events may know.
func openly(account ownership.Account) (open, public string) { return account.Owner(), account.Owner() }

// check compares the new accounts with the instances that machines name. lister lists the instances of an account; nil means the cloud
// of the account.
func (h *Holdings) check(ctx context.Context, o object, nameOf ownerName, lister ownership.Lister, dependents ...clusterapi.Dependent) *webhooks.Answer {
	if h == nil {
		return nil
	}
	own := map[ownership.Account]map[string]bool{}
	for _, dependent := range dependents {
		machines, err := h.machines.Holders(ctx, dependent.Cluster)
		switch {
		case err != nil:
			return ptr.To(undecided("MachinesUnknown", "the machines of the cluster could not be read; try again", err))
		case len(machines) == 0:
			continue
		case dependent.Err != nil:
			return ptr.To(unusable(dependent.Err))
		}
		open, public := nameOf(dependent.Account)
		d := held{dependent: dependent, elsewhere: dependent.Cluster.Namespace != o.Namespace, open: open, public: public}
		account := dependent.Account.Plain()
		if own[account] == nil {
			instances, err := h.instances.Instances(ctx, share.FromContext(ctx), account, lister)
			if err != nil {
				return d.notListed(err)
			}
			own[account] = idsOf(instances)
		}
		d.machines = slices.DeleteFunc(machines, func(m clusterapi.Machine) bool {
			return !slices.ContainsFunc(m.IDs(), func(id string) bool { return !own[account][id] })
		})
		if len(d.machines) > 0 {
			return d.deny()
		}
	}
	return nil
}

func idsOf(instances []ownership.Instance) map[string]bool {
	ids := make(map[string]bool, len(instances))
	for _, instance := range instances {
		ids[instance.ID] = true
	}
	return ids
}

// held are machines that name instances which do not belong to the new account of their provider.
type held struct {
	dependent clusterapi.Dependent
	machines  []clusterapi.Machine
	// elsewhere is true if they are in another namespace than the object of the request, and so belong to another tenant.
	elsewhere bool
	// open and public name the owner of the new account.
	open, public string
}

// answer denies with a text for the requester and one for Events, which name the owner differently.
func (h held) answer(reason string, text func(owner string) string) *webhooks.Answer {
	answer := denied(reason, text(h.open)).WithDetails("cluster", h.dependent.Cluster.Namespace+"/"+h.dependent.Cluster.Name, "machines", len(h.machines))
	answer.Lasting = text(h.public)
	return &answer
}

// cluster returns the name of the machines' cluster, unless it belongs to another tenant.
func (h held) cluster() string {
	if h.elsewhere {
		return "a cluster of another namespace"
	}
	return fmt.Sprintf("cluster %q", message.Value(h.dependent.Cluster.Name))
}

// place returns the place where the instances have to be, unless the cluster belongs to another tenant.
func (h held) place() string {
	if h.elsewhere {
		return "its region"
	}
	return h.dependent.Account.Place()
}

// deny names the machines if they are in the namespace of the request.
func (h held) deny() *webhooks.Answer {
	return h.answer("MachinesHoldInstances", func(owner string) string {
		text := fmt.Sprintf("machines of %s name instances that do not belong to %s in %s", h.cluster(), owner, h.place())
		if h.elsewhere {
			return text + "; their owner has to delete them or clear their instance IDs first"
		}
		return text + ": " + h.list() + "; delete these machines or clear their instance IDs first"
	})
}

func (h held) list() string {
	names := make([]string, 0, maxListed+1)
	for _, machine := range h.machines[:min(maxListed, len(h.machines))] {
		names = append(names, fmt.Sprintf("%s %q (%s)", machine.Kind.Kind, message.Value(machine.Name), strings.Join(machine.IDs(), ", ")))
	}
	if more := len(h.machines) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// notListed is the answer if the instances of an account are not known.
func (h held) notListed(err error) *webhooks.Answer {
	var region *ownership.RegionError
	var identity *ownership.IdentityError
	switch {
	case errors.As(err, &region):
		return h.answer(ownership.RegionNotAllowed, func(string) string {
			if h.elsewhere {
				return "machines of a cluster of another namespace name instances, and its region is not allowed"
			}
			return fmt.Sprintf("machines of %s name instances, and %v", h.cluster(), region)
		})
	case errors.As(err, &identity):
		return h.answer(identity.Reason, func(string) string { return identity.Message })
	}
	unknown := &ownership.UnknownError{Cause: ownership.CauseCloud}
	errors.As(err, &unknown)
	answer := h.answer(ownership.ReasonUnknown, func(owner string) string {
		return fmt.Sprintf("it cannot be checked whether the instances that machines of %s name belong to %s in %s: %s",
			h.cluster(), owner, h.place(), unknown.Explain())
	})
	answer.Decision = webhooks.Undecided
	if unknown.Cause == ownership.CauseTenantBusy {
		answer.Status, answer.RetryAfter = metav1.StatusReasonTooManyRequests, unknown.RetryAfter
	}
	return ptr.To(answer.WithDetails("error", err.Error()))
}
