package audit

import (
	"errors"
	"slices"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// One is the audit of one machine, with what the user of a command could read.
type One struct {
	Machine clusterapi.Machine
	// Account is the account of the machine's cluster. It is not known if Unknown is set: a *clusterapi.AccountError if the objects specify no
	// account, another error if they could not be read.
	Account ownership.Account
	Unknown error
	// Others are other machines. All is true if these are all other machines of the cloud.
	Others []clusterapi.Machine
	All    bool
	// Instances are the instances of the account. Listed is false if they are unknown.
	Instances []ownership.Instance
	Listed    bool
	// Ask returns the answer of the cloud about an instance that the machine names.
	Ask func(id string) (ownership.Answer, error)
}

// Own returns the instances of the account that have the name of the machine, or were created for it.
func (o One) Own() []ownership.Instance {
	var own []ownership.Instance
	for _, instance := range o.Instances {
		if instance.Name == o.Machine.Name || instance.MachineUID == string(o.Machine.UID) {
			own = append(own, instance)
		}
	}
	return own
}

// Findings returns what Audit.Run reports about the machine and those instances, except about the owner of the machine. It reports an instance that
// the machine does not name at once.
func (o One) Findings() []Finding {
	about := placeOf(o.Machine)
	about.account = o.Account
	machine := acting{Machine: o.Machine, account: o.Account}
	t := &tenancy{account: o.Account.Plain(), machines: []acting{machine}}
	t.add(about)
	cluster := lookup{tenancy: t, account: o.Account}
	if invalid, ok := errors.AsType[*clusterapi.AccountError](o.Unknown); ok {
		if cluster = (lookup{}); invalid.Reason != clusterapi.ClusterMissing {
			cluster.invalid = invalid
		}
	}
	all := index(slices.Concat([]clusterapi.Machine{o.Machine}, o.Others), map[clusterapi.Cluster]lookup{o.Machine.Cluster(): cluster})
	var findings []Finding
	if o.Machine.InstanceID != "" || o.Machine.ProviderID != "" {
		findings = alone(machine, cluster, all)
	}
	if o.Unknown != nil || !o.Listed {
		return findings
	}
	ask := func(_ acting, id string) (ownership.Answer, error) { return o.Ask(id) }
	return append(findings, compare(*t, o.compared(), all, ask, func(notNamed) bool { return true })...)
}

// compared returns the instances to compare: those of Own, and those that the machine names. It leaves out instances that were created for another
// machine if it is unknown whether that machine exists.
func (o One) compared() []ownership.Instance {
	own := o.Own()
	return slices.DeleteFunc(slices.Clone(o.Instances), func(instance ownership.Instance) bool {
		if slices.Contains(o.Machine.IDs(), instance.ID) {
			return false
		}
		another := instance.MachineUID != "" && instance.MachineUID != string(o.Machine.UID)
		return !slices.Contains(own, instance) || another && !o.All
	})
}
