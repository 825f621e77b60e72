package audit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// fakeReports records results as "update team: fail/high machine-ownership/InstanceNotOwned CloudSigmaMachine/worker".
type fakeReports struct {
	mu  sync.Mutex
	got []string
	all []openreports.ReportResult
}

func (r *fakeReports) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

func (r *fakeReports) record(what string, all map[string][]openreports.ReportResult) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for namespace, results := range all {
		line := what + " " + namespace + ":"
		for _, result := range results {
			line += fmt.Sprintf(" %s/%s %s/%s %s/%s,", result.Result, result.Severity, result.Policy, result.Rule, result.Subjects[0].Kind, result.Subjects[0].Name)
			r.all = append(r.all, result)
		}
		got = append(got, strings.TrimSuffix(line, ","))
	}
	slices.Sort(got)
	r.got = append(r.got, got...)
	return nil
}

func (r *fakeReports) Replace(_ context.Context, all map[string][]openreports.ReportResult) error {
	return r.record("replace", all)
}

func (r *fakeReports) Update(_ context.Context, changed map[string][]openreports.ReportResult) error {
	return r.record("update", changed)
}

// A run reports all namespaces. A check of one machine updates the report of its namespace within seconds.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idAbsent, idForeign = "00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000001"
		unused := ownership.Account{Cloud: "cloudsigma", Region: "next", User: "unknown@example.com"}
		objects := &fakeObjects{
			machines: []clusterapi.Machine{
				machine("worker", idOwn), machine("new", ""), machine("absent", idAbsent),
				machine("a", idOther, inNamespace("unlisted"), ofCluster("pool")), machine("other", idSpare, inNamespace("late")),
			},
			accounts: map[string]any{"team/pool": tenant, "unlisted/pool": unused, "late/pool": tenant},
		}
		cloud := &fakeCloud{
			instances: map[string][]ownership.Instance{tenant.User: {
				{ID: idOwn, Name: "worker", MachineUID: "uid-worker"}, {ID: idSpare, Name: "gone", MachineUID: "uid-gone"},
			}},
			errs: map[string]error{unused.User: notAllowed}, hidden: map[string]ownership.Verdict{idAbsent: ownership.Absent},
		}
		reports := &fakeReports{}
		checked := newAudit(*objects, cloud)
		checked.Objects = objects
		controller := &audit.Controller{
			Audit: checked, Recorder: &recorded{}, Election: elected{}, Interval: time.Hour, Synced: func() error { return nil }, Reports: reports,
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- controller.Start(ctx) }()
		after := func(period time.Duration, want ...string) {
			t.Helper()
			<-time.After(period)
			synctest.Wait()
			if diff := cmp.Diff(want, reports.take()); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		}
		after(time.Second,
			"replace late: pass/info machine-ownership/InstanceOwned CloudSigmaMachine/other",
			"replace team: fail/medium machine-ownership/InstanceNotFound CloudSigmaMachine/absent, pass/info machine-ownership/InstanceOwned CloudSigmaMachine/worker",
			"replace unlisted: error/medium machine-ownership/OwnershipUnknown CloudSigmaCluster/pool",
		)
		after(time.Minute) // nothing has changed

		objects.machines[2].InstanceID, objects.machines[0].InstanceID = "", idForeign
		controller.Changed(objects.machines[2].Key())
		controller.Changed(objects.machines[0].Key())
		after(30*time.Second, "update team: fail/high machine-ownership/InstanceNotOwned CloudSigmaMachine/worker")
		gone := objects.machines[4].Key()
		objects.machines = objects.machines[:4]
		controller.Changed(gone)
		after(30*time.Second, "update late:")
		after(time.Hour+time.Minute*7,
			"replace late: warn/low machine-ownership/InstanceOrphaned CloudSigmaCluster/pool",
			"replace team: fail/high machine-ownership/InstanceNotOwned CloudSigmaMachine/worker",
			"replace unlisted: error/medium machine-ownership/OwnershipUnknown CloudSigmaCluster/pool",
		)
		for _, result := range reports.all {
			if object := result.Subjects[0]; object.ResourceVersion != "" || result.Description == "" {
				t.Errorf("result %+v", result)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
