// Package audit looks at what is there already: machines that name an instance which is not their user's, clusters of which it
// is not known as whom they act, and instances that no machine names. It reports, and changes nothing.
//
// It repeats everything of the gates' checks that does not depend on who sends a request: as whom each cluster acts, what its
// credentials carry now, whether the instances are theirs, and whether the labels, owner references and references of objects
// agree. It cannot repeat whether somebody may name a user: an object does not say reliably who wrote it, because a tenant can
// forge managedFields and annotations. So a permission to impersonate that is revoked has no effect on what was admitted by it.
package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/settle"
)

// Reasons of findings that only the audit has. The others are those of the gate.
const (
	// ReasonDuplicate: an instance was made for a machine that names another one.
	ReasonDuplicate = "InstanceDuplicate"
	// ReasonOrphaned: an instance was made for a machine that does not exist here, or not as one of its user.
	ReasonOrphaned = "InstanceOrphaned"
	// ReasonNotNamed: an instance was made for a machine that named none in two passes.
	ReasonNotNamed = "InstanceNotNamed"
	// ReasonClaimDenied: the first claim of an instance was denied, and no machine names the instance.
	ReasonClaimDenied = "InstanceClaimDenied"
)

// reasonRegion is the gates' reason that a region is none of those configured.
const reasonRegion = "RegionNotAllowed"

// notKnown says that objects do not tell which account is used.
func notKnown(refused *clusterapi.AccountError) string {
	return "it is not known as which user its provider acts: " + refused.Message
}

// Finding is one thing that is not as it should be.
type Finding struct {
	// Reason is a word in CamelCase, for metrics and Events.
	Reason string
	// LogicalCluster is where Object is on kcp, "" on Kubernetes.
	LogicalCluster logicalcluster.Name
	// Object is the machine or the cluster that it is about. It is empty if the finding is about an account that several workspaces of
	// kcp use: it is for the operator only, because one workspace must not be told what another one may have left behind.
	Object corev1.ObjectReference
	// Instance is the UUID of the instance, "" where there is none.
	Instance string
	// Account is whose account it was found in.
	Account ownership.Account
	// Message is for people. It is the same in each pass as long as nothing changes.
	Message string
}

// place is an object, and the logical cluster of kcp in which it is. It is comparable.
type place struct {
	in     logicalcluster.Name
	object corev1.ObjectReference
}

func placeOf(machine clusterapi.Machine) place {
	return place{machine.LogicalCluster, machine.Reference()}
}

// finding returns a finding about the object.
func (p place) finding(f Finding) Finding {
	f.LogicalCluster, f.Object = p.in, p.object
	return f
}

// tenancy is all that belongs together: an account and what uses it.
type tenancy struct {
	account ownership.Account
	// about are the objects that say so: clusters, and machines that bring an account of their own.
	about    []place
	machines []clusterapi.Machine
}

// in reports whether an object of the logical cluster uses the account.
func (t tenancy) in(cluster logicalcluster.Name) bool {
	return slices.ContainsFunc(t.about, func(p place) bool { return p.in == cluster })
}

// whole returns the object for findings about the account as a whole, none if several logical clusters use it.
func (t tenancy) whole() place {
	if slices.ContainsFunc(t.about, func(p place) bool { return p.in != t.about[0].in }) {
		return place{}
	}
	return t.about[0]
}

// asker asks the cloud about one instance that a machine names.
type asker func(machine clusterapi.Machine, id string) (ownership.Answer, error)

// notNamed is an instance that was made for a machine which names none. A pass may see one that is about to be named.
type notNamed struct {
	account  ownership.Account
	instance string
	machine  types.UID
}

// compare says what is not as it should be between the machines of an account and its instances. all are the machines of
// all accounts: an instance that any of them names is no orphan. A list can miss an instance that is there, when others
// come and go meanwhile, so the cloud is asked about what is not in it. again reports whether the pass before saw the same.
func compare(t tenancy, instances []ownership.Instance, all named, ask asker, again func(notNamed) bool) []Finding {
	owned := make(map[string]bool, len(instances))
	byName, byUID := map[string][]ownership.Instance{}, map[string][]ownership.Instance{}
	for _, instance := range instances {
		owned[instance.ID] = true
		byName[instance.Name] = append(byName[instance.Name], instance)
		if instance.MachineUID != "" {
			byUID[instance.MachineUID] = append(byUID[instance.MachineUID], instance)
		}
	}
	var findings []Finding
	explained := map[string]bool{} // instances that are told of with a machine
	for _, machine := range t.machines {
		made := made(machine, byName, byUID)
		for _, id := range machine.IDs() {
			if owned[id] {
				continue
			}
			if answer, err := ask(machine, id); err != nil {
				findings = append(findings, unknown(t.account, placeOf(machine), id, err))
			} else if answer.Verdict != ownership.Owned {
				findings = append(findings, notOwned(t.account, machine, id, answer.Verdict, made))
			}
		}
		// Where the machine names none of the user's, none is one too many: the one that was made for it is told of as the one
		// to name, or is about to be named.
		if !slices.ContainsFunc(machine.IDs(), func(id string) bool { return owned[id] }) {
			for _, instance := range made {
				explained[instance.ID] = true
				if machine.InstanceID == "" && machine.ProviderID == "" && !all.isNamed(instance.ID, t) &&
					again(notNamed{account: t.account, instance: instance.ID, machine: machine.UID}) {
					findings = append(findings, unrecorded(t.account, machine, instance))
				}
			}
			continue
		}
		for _, instance := range made {
			if explained[instance.ID] || all.isNamed(instance.ID, t) {
				continue
			}
			explained[instance.ID] = true
			findings = append(findings, duplicate(t.account, machine, instance))
		}
	}
	return append(findings, orphans(t, instances, all, explained)...)
}

// made returns the instances that were made for a machine: they have its name or its UID.
func made(machine clusterapi.Machine, byName, byUID map[string][]ownership.Instance) []ownership.Instance {
	made := slices.Concat(byUID[string(machine.UID)], byName[machine.Name])
	made = slices.DeleteFunc(made, func(instance ownership.Instance) bool {
		return instance.MachineUID != "" && instance.MachineUID != string(machine.UID)
	})
	slices.SortFunc(made, func(a, b ownership.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Compact(made)
}

func notOwned(account ownership.Account, machine clusterapi.Machine, id string, verdict ownership.Verdict, made []ownership.Instance) Finding {
	reason, what := ownership.ReasonNotFound, "there is no instance %s of %s in %s, %s"
	if verdict == ownership.Foreign {
		reason, what = ownership.ReasonNotOwned, "instance %s exists, but is not one of %s in %s, %s"
	}
	message := fmt.Sprintf(what, id, account.Owner(), account.Place(), account.Acting(machine.ClusterName()))
	if len(made) > 0 {
		names := make([]string, 0, len(made))
		for _, instance := range made {
			names = append(names, instance.ID)
		}
		message += "; the user's own instance for this machine is " + strings.Join(names, " or ")
	}
	return placeOf(machine).finding(Finding{
		Reason: reason, Instance: id, Account: account,
		Message: message + "; clear the field, so that the provider adopts an instance of the user or makes one",
	})
}

func duplicate(account ownership.Account, machine clusterapi.Machine, instance ownership.Instance) Finding {
	return placeOf(machine).finding(Finding{
		Reason: ReasonDuplicate, Instance: instance.ID, Account: account,
		Message: fmt.Sprintf("instance %s (%q) of %s in %s was made for this machine, which names %s; delete the one that is not needed",
			instance.ID, instance.Name, account.Owner(), account.Place(), strings.Join(machine.IDs(), " and ")),
	})
}

func unrecorded(account ownership.Account, machine clusterapi.Machine, instance ownership.Instance) Finding {
	return placeOf(machine).finding(Finding{
		Reason: ReasonNotNamed, Instance: instance.ID, Account: account,
		Message: fmt.Sprintf("instance %s (%q) of %s in %s was made for this machine, which names none; if the provider does not adopt it, delete it",
			instance.ID, instance.Name, account.Owner(), account.Place()),
	})
}

// unnamedClaims are the findings about denied first claims whose instances no machine names. They are the same whether such an instance
// exists or not, because a tenant can claim any UUID. Of kcp's workspaces, only those count that have objects here: the others bind the
// APIExport of a provider that is not audited.
func unnamedClaims(denied []settle.Claim, objects Objects) []Finding {
	if len(denied) == 0 {
		return nil
	}
	names := map[string]bool{}
	seen := map[logicalcluster.Name]bool{"": true}
	for machine := range objects.Machines() {
		seen[machine.LogicalCluster] = true
		for _, id := range machine.IDs() {
			names[id] = true
		}
	}
	for cluster := range objects.Clusters() {
		seen[cluster.LogicalCluster] = true
	}
	var findings []Finding
	for _, claim := range denied {
		if names[claim.ID] || !seen[logicalcluster.Name(claim.LogicalCluster)] {
			continue
		}
		findings = append(findings, Finding{
			Reason: ReasonClaimDenied, LogicalCluster: logicalcluster.Name(claim.LogicalCluster), Object: claim.Machine, Instance: claim.ID, Account: claim.Account,
			Message: fmt.Sprintf("the claim of instance %s was denied, because the cloud did not show it as one of %s in %s, and no machine names "+
				"it; find out whether it exists, and delete it if nothing else uses it", claim.ID, claim.Account.Owner(), claim.Account.Place()),
		})
	}
	return findings
}

// orphans are the instances that were made for machines, of which none is here that could name them: a machine that has
// come to be another user's cannot. Instances that nobody made for a machine are none of ours.
func orphans(t tenancy, instances []ownership.Instance, all named, explained map[string]bool) []Finding {
	var findings []Finding
	for _, instance := range instances {
		if explained[instance.ID] || all.isNamed(instance.ID, t) {
			continue
		}
		why := "whose cluster acts as another user"
		if account, exists := all.madeFor(instance, t); !exists && instance.MachineUID != "" {
			why = "that is not here"
		} else if account == nil || *account == t.account {
			continue
		}
		findings = append(findings, t.whole().finding(Finding{
			Reason: ReasonOrphaned, Instance: instance.ID, Account: t.account,
			Message: fmt.Sprintf("instance %s (%q) of %s in %s was made for a machine %s; delete it if nothing else uses it",
				instance.ID, instance.Name, t.account.Owner(), t.account.Place(), why),
		}))
	}
	return findings
}

// named are the machines of all accounts.
type named struct {
	// byID are the machines that name an instance.
	byID map[string][]clusterapi.Machine
	// accounts are those that the machines' clusters use, by the UID of the machine, and names by its namespace and name; nil
	// where that is not known.
	accounts map[string]*ownership.Account
	names    map[machineName]*ownership.Account
	// places are the logical clusters of the machines, by their UIDs.
	places map[string]logicalcluster.Name
}

// machineName is the name of a machine in a logical cluster of kcp.
type machineName struct {
	in logicalcluster.Name
	types.NamespacedName
}

// isNamed reports whether a machine names an instance of a tenancy. A machine in a workspace that does not use the account does not count if
// it is known to be of another account: nothing in one workspace keeps a finding from another one.
func (n named) isNamed(id string, t tenancy) bool {
	return slices.ContainsFunc(n.byID[id], func(machine clusterapi.Machine) bool {
		account := n.accounts[string(machine.UID)]
		return account == nil || *account == t.account || t.in(machine.LogicalCluster)
	})
}

// madeFor returns the account of the machine that an instance was made for: by the machine's UID or, as not all providers
// leave that, by its name. Only a machine in a namespace of those objects counts then: who names one in another namespace like
// somebody's instance must not have that taken for its own. Where several machines have the name, it is not known.
//
// A machine of another account in a workspace of kcp that does not use this one does not exist: its workspace is none of the finding's.
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
		places: map[string]logicalcluster.Name{},
	}
	for _, machine := range machines {
		var account *ownership.Account
		if t := clusters[machine.Cluster()].tenancy; t != nil {
			account = &t.account
		}
		all.accounts[string(machine.UID)], all.places[string(machine.UID)] = account, machine.LogicalCluster
		name := machineName{machine.LogicalCluster, types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}}
		if other, taken := all.names[name]; taken && other != account { // one of another kind
			account = nil
		}
		all.names[name] = account
		for _, id := range machine.IDs() {
			all.byID[id] = append(all.byID[id], machine)
		}
	}
	return all
}

// alone says what is wrong with a machine by itself, and with others that name the same instance.
func alone(machine clusterapi.Machine, cluster lookup, all named) []Finding {
	var findings []Finding
	add := func(reason, instance, message string) {
		findings = append(findings, placeOf(machine).finding(Finding{Reason: reason, Instance: instance, Message: message}))
	}
	switch {
	case machine.ClusterName() == "":
		add(ownership.ReasonWithoutCluster, "", "it has no label cluster.x-k8s.io/cluster-name, so it is not known as which user its provider acts")
	case cluster.refused != nil && machine.Identity != (clusterapi.IdentityRef{}): // the register tells of it
	case cluster.refused != nil:
		add(string(cluster.refused.Reason), "", notKnown(cluster.refused))
	case cluster.tenancy == nil:
		add(string(clusterapi.ClusterMissing), "", fmt.Sprintf("it is of cluster %q, which is not here", machine.ClusterName()))
	}
	ids := machine.IDs()
	if len(ids) == 0 {
		add(ownership.ReasonInvalid, "", "it names no instance by what it holds in "+machine.Kind.InstanceIDPath+" or "+machine.Kind.ProviderIDPath+
			"; clear both fields, so that the provider adopts an instance of the user or makes one")
	}
	if len(ids) > 1 {
		add(ownership.ReasonMismatch, "", fmt.Sprintf("its fields %s and %s name two instances, %s", machine.Kind.InstanceIDPath,
			machine.Kind.ProviderIDPath, strings.Join(ids, " and ")))
	}
	for _, id := range ids {
		if same := all.conflicting(machine, id, cluster); len(same) > 1 {
			message := fmt.Sprintf("%d machines name instance %s, which can be that of one only", len(same), id)
			if slices.ContainsFunc(same, func(other clusterapi.Machine) bool { return other.LogicalCluster != machine.LogicalCluster }) {
				message += "; not all of them are in this workspace"
			}
			add(ownership.ReasonConflict, id, message)
		}
	}
	return findings
}

// conflicting returns the machines that name an instance, the given one included. Of another workspace of kcp, only those of the same account
// count: who names a server of somebody else there must not cause a finding here.
func (n named) conflicting(machine clusterapi.Machine, id string, cluster lookup) []clusterapi.Machine {
	return slices.DeleteFunc(slices.Clone(n.byID[id]), func(other clusterapi.Machine) bool {
		if other.LogicalCluster == machine.LogicalCluster {
			return machine.SameServer(other)
		}
		account := n.accounts[string(other.UID)]
		return account == nil || cluster.tenancy == nil || *account != cluster.tenancy.account
	})
}
