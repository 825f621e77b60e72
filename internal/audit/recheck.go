package audit

import (
	"context"
	"errors"
	"time"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// Rechecked is the result of the check of one machine.
type Rechecked struct {
	// Findings are those that need no list of instances, the same as those of a run.
	Findings []Finding
	// Requests is the number of requests to clouds.
	Requests int
	// Later is when the machine has to be checked again, because its provider may be about to correct a problem. It is 0 if there is none.
	Later time.Duration
	// compared is the machine if its instances were compared with those of the cloud, and otherwise nil.
	compared *subject
}

// Recheck checks one machine. An error means that not everything could be checked, and that the machine has to be checked again; the result
// then has the other findings. An account that cannot be used for a reason that does not end by itself is no error, because each run reports it.
func (a *Audit) Recheck(ctx context.Context, object clusterapi.MachineKey) (result Rechecked, _ error) {
	machine, exists := a.Objects.Machine(object)
	if !exists || machine.InstanceID == "" && machine.ProviderID == "" {
		return Rechecked{}, nil
	}
	book := a.newRegister()
	if cluster := machine.Cluster(); cluster.Name != "" || cluster.Identity != (clusterapi.IdentityRef{}) {
		book.resolve(ctx, cluster, placeOf(machine))
	}
	if err := book.failure(); err != nil {
		return Rechecked{}, err
	}
	machines := append(a.sharing(machine), machine)
	for _, other := range machines {
		if other.LogicalCluster != machine.LogicalCluster { // its account counts, see named.conflicting
			book.resolve(ctx, other.Cluster(), placeOf(other))
		}
	}
	result.Findings = book.assign([]clusterapi.Machine{machine}, index(machines, book.byCluster))
	misowned, failed := a.owners(ctx, []clusterapi.Machine{machine})
	result.Findings = append(result.Findings, misowned...)
	ask := func(machine acting, id string) (ownership.Answer, error) {
		claim := machine.claim(id)
		if a.Confirmed != nil && a.Confirmed(claim) {
			return ownership.Answer{Verdict: ownership.Owned}, nil
		}
		result.Requests++
		answer, _, err := a.ask(ctx, claim)
		if awaited(err) {
			failed = errors.Join(failed, err)
		}
		return answer, err
	}
	if t := book.byCluster[machine.Cluster()].tenancy; t != nil && a.Clouds[t.account.Cloud] != nil {
		compared := subjectOf(machine)
		result.compared = &compared
		for _, f := range compare(*t, nil, named{}, ask, nil) {
			if f.Reason == ownership.ReasonUnknown {
				result.compared = nil
				continue
			}
			result.Findings = append(result.Findings, f)
		}
	}
	for _, f := range result.Findings {
		result.Later = max(result.Later, f.left)
	}
	result.Findings, _ = lasting(result.Findings)
	return result, failed
}

// sharing returns the other machines that name an instance of a machine.
func (a *Audit) sharing(machine clusterapi.Machine) []clusterapi.Machine {
	seen := map[clusterapi.MachineKey]bool{machine.Key(): true}
	var others []clusterapi.Machine
	for _, id := range machine.IDs() {
		for _, other := range a.Objects.Naming(id, machine) {
			if !seen[other.Key()] {
				seen[other.Key()] = true
				others = append(others, other)
			}
		}
	}
	return others
}
