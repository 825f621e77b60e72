// Package audit compares existing machines with the instances in the clouds. It reports machines that name an instance of another user,
// clusters whose provider acts as an unknown user, and instances that no machine names. It changes nothing.
//
// The audit repeats the checks of the gates: the user that each cluster acts as, the current roles of its credentials, the owner of its instances,
// and whether labels, owner references and references of objects agree. It does not repeat the check of who may impersonate the user.
package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// Reasons of findings that only the audit has. The others are those of the gate.
const (
	// ReasonDuplicate: an instance was created for a machine that names another instance.
	ReasonDuplicate = "InstanceDuplicate"
	// ReasonOrphaned: an instance was created for a machine that does not exist here, or whose cluster acts as another user.
	ReasonOrphaned = "InstanceOrphaned"
	// ReasonNotNamed: an instance was created for a machine that named no instance in two runs.
	ReasonNotNamed = "InstanceNotNamed"
)

// notKnown returns the message for objects that do not specify an account.
func notKnown(invalid *clusterapi.AccountError) string {
	return "the user that its provider acts as is unknown: " + invalid.Message
}

// Finding is one problem that the audit found.
type Finding struct {
	// Reason is a word in CamelCase, for metrics and Events.
	Reason string
	// LogicalCluster is the logical cluster of Object on kcp, "" on Kubernetes.
	LogicalCluster logicalcluster.Name
	// Object is the machine or cluster with the problem. It is empty if the finding is about an account that several workspaces of kcp use.
	// Such a finding is for the operator only, because one workspace must not learn about instances of another one.
	Object corev1.ObjectReference
	// Instance is the UUID of the instance, "" if there is none.
	Instance string
	// Account is the account with the problem.
	Account ownership.Account
	// Message describes the problem for users. It is the same in each run as long as nothing changes.
	Message string
	// gate is the gate that denies this at admission, "" if it is the one on machines.
	gate string
	// Others are up to three other machines that name the instance, if that is the problem. They are for the operator only: they may be in
	// namespaces of other users.
	Others []string
	// left is how much longer the problem has to last, because the provider may be about to correct it.
	left time.Duration
	// machine is the machine with the problem if Recheck finds the problem, too, and otherwise empty.
	machine clusterapi.MachineKey
}

// lasting returns the findings without those whose problem has not lasted long enough, and the machines of the latter.
func lasting(findings []Finding) (_ []Finding, young []clusterapi.MachineKey) {
	findings = slices.DeleteFunc(findings, func(f Finding) bool {
		if f.left > 0 {
			young = append(young, f.machine)
		}
		return f.left > 0
	})
	return findings, young
}

// place is an object in a logical cluster of kcp. It is comparable.
type place struct {
	in     logicalcluster.Name
	object corev1.ObjectReference
	// account is the account of the object. Messages about the object describe the owner of the account by it.
	account ownership.Account
}

func placeOf(machine clusterapi.Machine) place {
	return place{in: machine.LogicalCluster, object: machine.Reference()}
}

// findingOf returns a finding about a machine that Recheck finds, too.
func findingOf(machine clusterapi.Machine, f Finding) Finding {
	f.machine = machine.Key()
	return placeOf(machine).finding(f)
}

// acting is a machine with the account of its cluster.
type acting struct {
	clusterapi.Machine
	account ownership.Account
	// left is how much longer the fields of the machine may name different instances.
	left time.Duration
}

// replaces reports whether only spec.providerID names the instance, and the provider may be about to write another one there.
func (a acting) replaces(id string) bool {
	current, err := a.Kind.ParseInstanceID(a.InstanceID)
	return a.left > 0 && (err != nil || current != id)
}

// claim is the claim of an instance that the machine names, the same as that of the gate.
func (a acting) claim(id string) ownership.Claim {
	return ownership.Claim{Account: a.account, ID: id, Name: a.Name, MachineUID: string(a.UID)}
}

func (a acting) place() place {
	place := placeOf(a.Machine)
	place.account = a.account
	return place
}

// finding returns a finding about the object.
func (p place) finding(f Finding) Finding {
	f.LogicalCluster, f.Object = p.in, p.object
	return f
}

// tenancy is an account with the objects that use it.
type tenancy struct {
	// account is plain, so that it is the same for all objects.
	account ownership.Account
	// about are the objects that specify the account: clusters, and machines with their own identity.
	about    []place
	known    map[place]bool // those in about
	machines []acting
	// awaited is true if the instances could not be listed for a reason that ends by itself.
	awaited bool
}

func (t *tenancy) add(object place) {
	if t.known[object] {
		return
	}
	if t.known == nil {
		t.known = map[place]bool{}
	}
	t.known[object] = true
	t.about = append(t.about, object)
}

// in reports whether an object of the logical cluster uses the account.
func (t tenancy) in(cluster logicalcluster.Name) bool {
	return slices.ContainsFunc(t.about, func(p place) bool { return p.in == cluster })
}

// usedIn reports whether an object of the namespace uses the account, and makes it the first one. Each account is used in the namespace "".
func (t *tenancy) usedIn(namespace string) bool {
	if namespace == "" {
		return true
	}
	i := slices.IndexFunc(t.about, func(p place) bool { return p.object.Namespace == namespace })
	if i > 0 {
		t.about[0], t.about[i] = t.about[i], t.about[0]
	}
	return i >= 0
}

// whole returns the object for findings about the whole account. It has only the account if several logical clusters use the account.
func (t tenancy) whole() place {
	if slices.ContainsFunc(t.about, func(p place) bool { return p.in != t.about[0].in }) {
		return place{account: t.account}
	}
	return t.about[0]
}

// asker requests an instance that a machine names from the cloud.
type asker func(machine acting, id string) (ownership.Answer, error)

// notNamed is an instance that was created for a machine that names none. The provider may be about to write its ID into the machine.
type notNamed struct {
	account  ownership.Account
	instance string
	machine  types.UID
}

// compare returns the differences between the machines of an account and its instances. all are the machines of all accounts: an instance
// that any of them names is no orphan. While instances are created or deleted, a list can miss existing ones, so compare calls ask for each
// named instance that is not in the list. again reports whether the previous run saw the same instance.
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
	explained := map[string]bool{} // instances that need no further finding
	for _, machine := range t.machines {
		made := made(machine.Machine, byName, byUID)
		for _, id := range machine.IDs() {
			if owned[id] {
				continue
			}
			answer, err := ask(machine, id)
			switch {
			case err != nil:
				findings = append(findings, unknown(machine.place(), id, err))
			case answer.Verdict == ownership.Owned:
			case answer.Verdict == ownership.Absent && machine.DeletionTimestamp != nil: // its provider has deleted the instance
			default:
				finding := notOwned(machine, id, answer, made)
				if answer.Verdict == ownership.Absent && machine.replaces(id) {
					finding.left = machine.left
				}
				findings = append(findings, finding)
			}
		}
		// If the machine names no instance of the user, an instance that was created for it is no duplicate: the finding of notOwned
		// suggests it, or the provider is about to name it.
		if !slices.ContainsFunc(machine.IDs(), func(id string) bool { return owned[id] }) {
			for _, instance := range made {
				explained[instance.ID] = true
				if machine.InstanceID == "" && machine.ProviderID == "" && !all.isNamed(instance.ID, t) &&
					again(notNamed{account: t.account, instance: instance.ID, machine: machine.UID}) {
					findings = append(findings, unrecorded(machine, instance))
				}
			}
			continue
		}
		for _, instance := range made {
			if explained[instance.ID] || all.isNamed(instance.ID, t) {
				continue
			}
			explained[instance.ID] = true
			findings = append(findings, duplicate(machine, instance))
		}
	}
	return append(findings, orphans(t, instances, all, explained)...)
}

// made returns the instances that were created for a machine: those with its UID, and those with its name and no other UID.
func made(machine clusterapi.Machine, byName, byUID map[string][]ownership.Instance) []ownership.Instance {
	made := slices.Concat(byUID[string(machine.UID)], byName[machine.Name])
	made = slices.DeleteFunc(made, func(instance ownership.Instance) bool {
		return instance.MachineUID != "" && instance.MachineUID != string(machine.UID)
	})
	slices.SortFunc(made, func(a, b ownership.Instance) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Compact(made)
}

func notOwned(machine acting, id string, answer ownership.Answer, made []ownership.Instance) Finding {
	reason, what := ownership.ReasonNotFound, "there is no instance %s of %s in %s, %s"
	if answer.Verdict == ownership.Foreign {
		reason, what = ownership.ReasonNotOwned, "instance %s exists, but is not one of %s in %s, %s"
	}
	if len(made) == 0 { // or the instances were not listed
		made = answer.Candidates
	}
	account := machine.account
	message := fmt.Sprintf(what, id, account.Owner(), account.Place(), machine.Acting(account))
	if len(made) > 0 {
		names := make([]string, 0, len(made))
		for _, instance := range made {
			names = append(names, instance.ID)
		}
		message += "; the user's own instance for this machine is " + strings.Join(names, " or ")
	}
	return findingOf(machine.Machine, Finding{
		Reason: reason, Instance: id, Account: account,
		Message: message + "; " + machine.Kind.Correction(),
	})
}

func duplicate(machine acting, instance ownership.Instance) Finding {
	return machine.place().finding(Finding{
		Reason: ReasonDuplicate, Instance: instance.ID, Account: machine.account,
		Message: fmt.Sprintf("instance %s (%q) of %s in %s was created for this machine, which names %s; delete the one that is not needed",
			instance.ID, instance.Name, machine.account.Owner(), machine.account.Place(), strings.Join(machine.IDs(), " and ")),
	})
}

func unrecorded(machine acting, instance ownership.Instance) Finding {
	return machine.place().finding(Finding{
		Reason: ReasonNotNamed, Instance: instance.ID, Account: machine.account,
		Message: fmt.Sprintf("instance %s (%q) of %s in %s was created for this machine, which names none; if the provider does not adopt it, delete it",
			instance.ID, instance.Name, machine.account.Owner(), machine.account.Place()),
	})
}

// orphans returns findings about instances that were created for a machine, if no machine here can name them: the machine does not exist,
// or its cluster now acts as another user. Instances that were not created for a machine are ignored.
func orphans(t tenancy, instances []ownership.Instance, all named, explained map[string]bool) []Finding {
	var findings []Finding
	about := t.whole()
	for _, instance := range instances {
		if explained[instance.ID] || all.isNamed(instance.ID, t) {
			continue
		}
		why := "whose cluster acts as another user"
		if account, exists := all.madeFor(instance, t); !exists && instance.MachineUID != "" {
			why = "that does not exist here"
		} else if account == nil || *account == t.account {
			continue
		}
		findings = append(findings, about.finding(Finding{
			Reason: ReasonOrphaned, Instance: instance.ID, Account: t.account,
			Message: fmt.Sprintf("instance %s (%q) of %s in %s was created for a machine %s; delete it if nothing else uses it",
				instance.ID, instance.Name, about.account.Owner(), about.account.Place(), why),
		}))
	}
	return findings
}

// alone returns the findings about a machine that need no request to a cloud: its labels and fields, and machines that name the same
// instance.
func alone(machine acting, cluster lookup, all named) []Finding {
	var findings []Finding
	add := func(reason, instance, message string) {
		findings = append(findings, findingOf(machine.Machine, Finding{Reason: reason, Instance: instance, Message: message}))
	}
	external := machine.Kind.Provider.IsExternal()
	switch {
	case external: // its account is not known
	case machine.ClusterName() == "":
		add(ownership.ReasonWithoutCluster, "", "it has no label cluster.x-k8s.io/cluster-name, so the user that its provider acts as is unknown")
	case cluster.invalid != nil && machine.Identity != (clusterapi.IdentityRef{}): // register.add reports it
	case cluster.invalid != nil:
		add(string(cluster.invalid.Reason), "", notKnown(cluster.invalid))
	case cluster.tenancy == nil:
		message := fmt.Sprintf("it belongs to cluster %q, which does not exist here", machine.ClusterName())
		if machine.LogicalCluster != "" { // a tenant can have a kind of the same name
			message += ", or does not come from the provider's APIExport"
		}
		add(string(clusterapi.ClusterMissing), "", message)
	}
	ids := machine.IDs()
	if _, err := machine.Kind.ParseProviderID(machine.ProviderID); external && err != nil {
		add(ownership.ReasonProviderID, "", fmt.Sprintf("%s %v, so it is not compared with others", machine.Kind.ProviderIDPath, err))
	} else if len(ids) == 0 {
		add(ownership.ReasonInvalid, "", "it does not name an instance in "+machine.Kind.InstanceIDPath+" or "+machine.Kind.ProviderIDPath+
			"; clear both fields, so that the provider adopts an instance of the user or creates one")
	}
	if len(ids) > 1 {
		instanceID, providerID := machine.Kind.InstanceIDPath, machine.Kind.ProviderIDPath
		add(ownership.ReasonMismatch, "", fmt.Sprintf("%s names instance %s, and %s names %s; if %s is the instance of this "+
			"machine, write it into %s, too; otherwise clear %s, so that the provider adopts an instance of the user or creates one, and writes both fields",
			instanceID, ids[0], providerID, ids[1], ids[0], providerID, instanceID))
		findings[len(findings)-1].left = machine.left
	}
	for _, id := range ids {
		if same, number := all.conflicting(machine.Machine, id, cluster); number > 1 {
			message := fmt.Sprintf("%d machines name instance %s, which can be that of one only", number, id)
			if slices.ContainsFunc(same, func(other clusterapi.Machine) bool { return other.LogicalCluster != machine.LogicalCluster }) {
				message += "; not all of them are in this workspace"
			}
			add(ownership.ReasonConflict, id, message)
			findings[len(findings)-1].Others = describeOthers(machine.Machine, same)
		}
	}
	return findings
}

// maxOthers limits the machines that a finding names beside its own.
const maxOthers = 3

// describeOthers describes the first machines other than the given one.
func describeOthers(machine clusterapi.Machine, same []clusterapi.Machine) []string {
	var others []string
	for _, other := range same {
		if other.Key() == machine.Key() || len(others) == maxOthers {
			continue
		}
		if others = append(others, other.String()); other.LogicalCluster != "" {
			others[len(others)-1] += fmt.Sprintf(" of logical cluster %q", other.LogicalCluster)
		}
	}
	return others
}
