package audit

import (
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// named indexes the machines of all accounts.
type named struct {
	// byID are the machines by the UUIDs of the instances that they name, and external the objects of each external provider by their IDs.
	byID     map[string][]clusterapi.Machine
	external map[externalID]*holders
	// accounts are the accounts of the machines' clusters by the UID of the machine, names the same by the name of the machine. An account
	// is nil if it is unknown.
	accounts map[string]*ownership.Account
	names    map[machineName]*ownership.Account
	// places are the logical clusters of the machines, by their UIDs.
	places map[string]logicalcluster.Name
}

// externalID is an ID of an external provider.
type externalID struct {
	provider v1beta1.Provider
	id       string
}

// holders are the objects that name an ID of an external provider. A namespace may have any number of them, so each is compared with numbers only.
type holders struct {
	number int
	// in is their number in each namespace, and first are the first ones in the first namespaces.
	in    map[clusterapi.MachineKey]int
	first []clusterapi.Machine
}

// holdsIn identifies the namespace of an object. An object without one stands for itself.
func holdsIn(machine clusterapi.Machine) clusterapi.MachineKey {
	if machine.Namespace == "" {
		return machine.Key()
	}
	return clusterapi.MachineKey{LogicalCluster: machine.LogicalCluster.String(), Namespace: machine.Namespace}
}

func (n named) addExternal(machine clusterapi.Machine) {
	for _, id := range machine.IDs() {
		key := externalID{machine.Kind.Provider, id}
		if n.external[key] == nil {
			n.external[key] = &holders{in: map[clusterapi.MachineKey]int{}}
		}
		h, in := n.external[key], holdsIn(machine)
		h.number++
		h.in[in]++
		if h.in[in] <= maxOthers && len(h.in) <= 1+maxOthers {
			h.first = append(h.first, machine)
		}
	}
}

// machineName is the name of a machine in a logical cluster of kcp.
type machineName struct {
	in logicalcluster.Name
	types.NamespacedName
}

// isNamed reports whether a machine names an instance of a tenancy. A machine in a workspace that does not use the account does not count
// if its own account is known and is another one: no workspace can suppress a finding about another workspace.
func (n named) isNamed(id string, t tenancy) bool {
	return slices.ContainsFunc(n.byID[id], func(machine clusterapi.Machine) bool {
		if string(machine.Kind.Provider) != t.account.Cloud {
			return false
		}
		account := n.accounts[string(machine.UID)]
		return account == nil || *account == t.account || t.in(machine.LogicalCluster)
	})
}

// madeFor returns the account of the machine that an instance was created for. It finds the machine by the UID in the instance or, because
// not all providers store the UID, by its name. By name, only machines in the namespaces of t.about count: otherwise a user could claim an
// instance of another user with a machine of this name in another namespace. The account is nil if several machines have the name.
//
// A machine with another account, in a workspace of kcp that does not use this account, counts as missing: the finding must not depend on
// that workspace.
func (n named) madeFor(instance ownership.Instance, t tenancy) (account *ownership.Account, exists bool) {
	if instance.MachineUID != "" {
		account, exists = n.accounts[instance.MachineUID]
		if account != nil && !t.in(n.places[instance.MachineUID]) {
			return nil, false
		}
		return account, exists
	}
	for _, about := range t.about {
		found, taken := n.names[machineName{about.in, types.NamespacedName{Namespace: about.object.Namespace, Name: instance.Name}}]
		switch {
		case taken && exists && found != account:
			return nil, true
		case taken:
			account, exists = found, true
		}
	}
	return account, exists
}

func index(machines []clusterapi.Machine, clusters map[clusterapi.Cluster]lookup) named {
	all := named{
		byID: map[string][]clusterapi.Machine{}, accounts: map[string]*ownership.Account{}, names: map[machineName]*ownership.Account{},
		places: map[string]logicalcluster.Name{}, external: map[externalID]*holders{},
	}
	for _, machine := range machines {
		if machine.Kind.Provider.IsExternal() { // no cloud has instances for it
			all.addExternal(machine)
			continue
		}
		for _, id := range machine.IDs() {
			all.byID[id] = append(all.byID[id], machine)
		}
		var account *ownership.Account
		if t := clusters[machine.Cluster()].tenancy; t != nil {
			account = &t.account
		}
		all.accounts[string(machine.UID)], all.places[string(machine.UID)] = account, machine.LogicalCluster
		name := machineName{machine.LogicalCluster, types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}}
		if other, taken := all.names[name]; taken && other != account { // a machine of another kind
			account = nil
		}
		all.names[name] = account
	}
	return all
}

// conflicting returns the machines that name an instance, and their number, including the given one. Machines in another workspace of kcp count
// only if they have the same account: a user who names an instance of another user there must not cause a finding here. Of an external provider, all
// other namespaces count, and only some of them are returned, without the given one.
func (n named) conflicting(machine clusterapi.Machine, id string, cluster lookup) (same []clusterapi.Machine, number int) {
	if machine.Kind.Provider.IsExternal() {
		h, in := n.external[externalID{machine.Kind.Provider, id}], holdsIn(machine)
		others := slices.DeleteFunc(slices.Clone(h.first), func(other clusterapi.Machine) bool { return holdsIn(other) == in })
		return others, 1 + h.number - h.in[in]
	}
	same = slices.DeleteFunc(slices.Clone(n.byID[id]), func(other clusterapi.Machine) bool {
		if other.Kind.Provider != machine.Kind.Provider {
			return true
		}
		if other.LogicalCluster == machine.LogicalCluster {
			return machine.SameServer(other)
		}
		account := n.accounts[string(other.UID)]
		return account == nil || cluster.tenancy == nil || *account != cluster.tenancy.account
	})
	return same, len(same)
}
