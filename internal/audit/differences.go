package audit

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/clusterapi"
)

// Lasting is how long spec.providerID of a machine may name another instance than status.instanceID until that is a finding. A provider that
// replaces an instance writes status.instanceID first and spec.providerID second, and never clears spec.providerID.
const Lasting = time.Minute

// differences remembers since when the fields of machines name different instances: one entry for each machine. The zero value is empty.
type differences struct {
	mu   sync.Mutex
	seen map[types.UID]difference
}

type difference struct {
	// instance and provided are the UUIDs in status.instanceID and spec.providerID, "" if there is none.
	instance, provided string
	since              time.Time
}

// left returns how much longer spec.providerID of a machine may name another instance than status.instanceID. It is 0 if Lasting is over,
// and if the fields do not differ.
func (d *differences) left(machine clusterapi.Machine, now time.Time) time.Duration {
	var of difference
	if id, err := machine.Kind.ParseInstanceID(machine.InstanceID); err == nil {
		of.instance = id
	}
	if id, err := machine.Kind.ParseProviderID(machine.ProviderID); err == nil {
		of.provided = id
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if of.provided == "" || of.provided == of.instance {
		delete(d.seen, machine.UID)
		return 0
	}
	before, differed := d.seen[machine.UID]
	if of.since = before.since; !differed || before != of {
		of.since = now
		if d.seen == nil {
			d.seen = map[types.UID]difference{}
		}
		d.seen[machine.UID] = of
	}
	return max(Lasting-now.Sub(of.since), 0)
}

// keep forgets all other machines.
func (d *differences) keep(machines []clusterapi.Machine) {
	exists := make(map[types.UID]bool, len(machines))
	for i := range machines {
		exists[machines[i].UID] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.seen, func(uid types.UID, _ difference) bool { return !exists[uid] })
}
