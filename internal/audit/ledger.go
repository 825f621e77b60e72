package audit

import (
	"slices"
	"sync"

	"warrantgate.dev/internal/clusterapi"
)

// ledger contains the current findings, for the metric: those of the last run, and those about machines that were checked since. It is empty
// while another replica is the leader.
type ledger struct {
	mu       sync.Mutex
	platform string // "" if this replica is not the leader
	findings []Finding
	// since are the findings about the machines that were checked while a run is in progress, which may have read an older state. It is nil if
	// there is no run.
	since map[clusterapi.MachineKey][]Finding
}

func (l *ledger) lead(platform string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.platform = platform
}

// resign removes all findings: a former leader has none.
func (l *ledger) resign() {
	l.mu.Lock()
	defer l.mu.Unlock()
	forget(l.platform)
	l.platform, l.findings, l.since = "", nil, nil
}

// begin is called at the beginning of a run.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = map[clusterapi.MachineKey][]Finding{}
}

// end is called at the end of a run: with its findings, or false if it has none.
func (l *ledger) end(findings []Finding, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if complete {
		l.findings = slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool {
			_, newer := l.since[f.machine]
			return newer
		})
		for _, newer := range l.since {
			l.findings = append(l.findings, newer...)
		}
		show(l.platform, l.findings)
	}
	l.since = nil
}

// update replaces the findings about a machine. If complete is false, not everything could be checked, and only those with the same reasons
// are replaced.
func (l *ledger) update(machine clusterapi.MachineKey, found []Finding, complete bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.platform == "" {
		return
	}
	before := len(l.findings)
	l.findings = slices.DeleteFunc(l.findings, func(f Finding) bool {
		return f.machine == machine && (complete || slices.ContainsFunc(found, func(other Finding) bool { return other.Reason == f.Reason }))
	})
	if len(l.findings) < before || len(found) > 0 {
		l.findings = append(l.findings, found...)
		show(l.platform, l.findings)
	}
	if l.since != nil && complete {
		l.since[machine] = found
	}
}
