package audit

import (
	"slices"
	"sync"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/clusterapi"
)

// ledger contains the current findings, for the metric and the reports: those of the last run, and those about machines that were checked since.
// It is empty while another replica is the leader.
type ledger struct {
	mu       sync.Mutex
	platform string // "" if this replica is not the leader
	findings []Finding
	// compared are the machines of each namespace that were compared with the cloud. It is nil if there are no reports.
	compared map[string]map[clusterapi.MachineKey]corev1.ObjectReference
	// changed are the namespaces that changed since the last call of results.
	changed map[string]bool
	// since are the results for the machines that were checked while a run is in progress, which may have read an older state. It is nil if
	// there is no run.
	since map[clusterapi.MachineKey]Rechecked
}

func (l *ledger) lead(platform string, reports bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.platform = platform
	if reports {
		l.compared, l.changed = map[string]map[clusterapi.MachineKey]corev1.ObjectReference{}, map[string]bool{}
	}
}

// resign removes all findings: a former leader has none.
func (l *ledger) resign() {
	l.mu.Lock()
	defer l.mu.Unlock()
	forget(l.platform)
	l.platform, l.findings, l.since, l.compared, l.changed = "", nil, nil, nil, nil
}

// begin is called at the beginning of a run.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = map[clusterapi.MachineKey]Rechecked{}
}

// end is called at the end of a run: with its result, or false if it has none.
func (l *ledger) end(result Result, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if complete {
		l.findings = slices.DeleteFunc(slices.Clone(result.Findings), func(f Finding) bool {
			_, newer := l.since[f.machine]
			return newer
		})
		clear(l.compared)
		for _, machine := range result.compared {
			l.compare(machine.key, &machine)
		}
		for machine, newer := range l.since {
			l.findings = append(l.findings, newer.Findings...)
			l.compare(machine, newer.compared)
		}
		show(l.platform, l.findings)
	}
	l.since = nil
}

// update replaces the result for a machine. If complete is false, not everything could be checked, and only findings with the same reasons
// are replaced.
func (l *ledger) update(machine clusterapi.MachineKey, result Rechecked, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.platform == "" {
		return
	}
	found := result.Findings
	before := len(l.findings)
	l.findings = slices.DeleteFunc(l.findings, func(f Finding) bool {
		return f.machine == machine && (complete || slices.ContainsFunc(found, func(other Finding) bool { return other.Reason == f.Reason }))
	})
	if len(l.findings) < before || len(found) > 0 {
		l.findings = append(l.findings, found...)
		show(l.platform, l.findings)
	}
	l.compare(machine, result.compared)
	if l.since != nil && complete {
		l.since[machine] = result
	}
}

// compare remembers whether a machine was compared with the cloud, nil if it was not.
func (l *ledger) compare(machine clusterapi.MachineKey, as *subject) {
	if l.compared == nil {
		return
	}
	l.changed[machine.Namespace] = true
	if as == nil {
		delete(l.compared[machine.Namespace], machine)
		return
	}
	if l.compared[machine.Namespace] == nil {
		l.compared[machine.Namespace] = map[clusterapi.MachineKey]corev1.ObjectReference{}
	}
	l.compared[machine.Namespace][machine] = as.object
}

// results returns the results for the reports by namespace: of all namespaces that have any, or of those that changed since the last call.
func (l *ledger) results(all bool) map[string][]openreports.ReportResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string][]Finding{}
	for _, f := range l.findings {
		if f.Object.Namespace != "" {
			found[f.Object.Namespace] = append(found[f.Object.Namespace], f)
		}
	}
	if all {
		clear(l.changed)
		for namespace := range found {
			l.changed[namespace] = true
		}
		for namespace, machines := range l.compared {
			if len(machines) > 0 {
				l.changed[namespace] = true
			}
		}
	}
	of := make(map[string][]openreports.ReportResult, len(l.changed))
	for namespace := range l.changed {
		of[namespace] = results(found[namespace], l.compared[namespace])
	}
	clear(l.changed)
	return of
}
