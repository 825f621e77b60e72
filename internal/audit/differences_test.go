package audit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// A provider that replaces an instance writes status.instanceID first and spec.providerID second. The two differ in between.
func TestFieldsThatNameDifferentInstances(t *testing.T) {
	const (
		differ = "InstanceIDMismatch worker: status.instanceID names instance " + idOwn + ", and spec.providerID names " + idSpare + "; if " + idOwn +
			" is the instance of this machine, write it into spec.providerID, too; otherwise clear status.instanceID, so that the " +
			"provider adopts an instance of the user or creates one, and writes both fields"
		gone  = "InstanceNotFound worker: there is no instance " + idSpare + ` of user "tenant@example.com" in region "next", which cluster "pool" acts as`
		oneOf = "; clear the field, so that the provider adopts an instance of the user or creates one"
		made  = "; the user's own instance for this machine is " + idOwn
	)
	type run struct {
		// after is the time since the run before.
		after    time.Duration
		machines []clusterapi.Machine
		want     []string
		// wantYoung is the number of findings that are missing.
		wantYoung int
	}
	const soon, almost = 5 * time.Second, 59 * time.Second
	one := func(instanceID string, modify ...func(*clusterapi.Machine)) []clusterapi.Machine {
		return []clusterapi.Machine{machine("worker", instanceID, modify...)}
	}
	differing, equal := one(idOwn, withProviderID(idSpare)), one(idOwn, withProviderID(idOwn))
	again := one(idOwn, withProviderID(idSpare), func(m *clusterapi.Machine) { m.UID = "again" })
	instances := []ownership.Instance{{ID: idOwn, Name: "worker"}, {ID: idSpare, Name: "spare"}}
	for name, tc := range map[string]struct {
		instances []ownership.Instance
		hidden    map[string]ownership.Verdict
		runs      []run
	}{
		"for less than a minute": {instances: instances, runs: []run{
			{machines: differing, wantYoung: 1}, {after: almost, machines: differing, wantYoung: 1}, {after: soon, machines: equal},
		}},
		"for longer": {instances: instances, runs: []run{
			{machines: differing, wantYoung: 1}, {after: time.Minute, machines: differing, want: []string{differ}},
			{after: time.Hour, machines: differing, want: []string{differ}}, {after: soon, machines: equal},
		}},
		"twice, and equal in between": {instances: instances, runs: []run{
			{machines: differing, wantYoung: 1}, {after: almost, machines: equal}, {after: almost, machines: differing, wantYoung: 1},
		}},
		"other instances than before": {instances: []ownership.Instance{{ID: idOwn}, {ID: idSpare}, {ID: idOther}}, runs: []run{
			{machines: one(idOther, withProviderID(idSpare)), wantYoung: 1}, {after: time.Hour, machines: differing, wantYoung: 1},
		}},
		"in a machine that was created again": {instances: instances, runs: []run{
			{machines: differing, wantYoung: 1}, {after: time.Hour, machines: again, wantYoung: 1}, {after: time.Hour, machines: differing, wantYoung: 1},
		}},
		"while the former instance is gone": {
			instances: instances[:1], hidden: map[string]ownership.Verdict{idSpare: ownership.Absent}, runs: []run{
				{machines: one("", withProviderID(idSpare)), wantYoung: 1}, // the provider has cleared status.instanceID
				{after: soon, machines: differing, wantYoung: 2},
				{after: soon, machines: equal},
			},
		},
		"and the former instance stays gone": {
			instances: instances[:1], hidden: map[string]ownership.Verdict{idSpare: ownership.Absent}, runs: []run{
				{machines: one("", withProviderID(idSpare)), wantYoung: 1},
				{after: time.Minute, machines: one("", withProviderID(idSpare)), want: []string{gone + made + oneOf}},
				{after: soon, machines: differing, wantYoung: 2},
				{after: time.Minute, machines: differing, want: []string{differ, gone + made + oneOf}},
			},
		},
		"and the former instance is another user's, which no provider corrects by itself": {
			instances: instances[:1], runs: []run{{machines: differing, wantYoung: 1, want: []string{
				"InstanceNotOwned worker: instance " + idSpare + ` exists, but is not one of user "tenant@example.com" in region "next", which cluster "pool" acts as` +
					made + oneOf,
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &fakeCloud{instances: map[string][]ownership.Instance{tenant.User: tc.instances}, hidden: tc.hidden}
			audited, now := newAudit(fakeObjects{}, cloud), time.Unix(0, 0)
			audited.Now = func() time.Time { return now }
			for i, r := range tc.runs {
				now = now.Add(r.after)
				audited.Objects = fakeObjects{machines: r.machines, accounts: map[string]any{"team/pool": tenant}}
				result, err := audited.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range result.Findings {
					got = append(got, f.Reason+" "+f.Object.Name+": "+f.Message)
				}
				if diff := cmp.Diff(r.want, got); diff != "" {
					t.Errorf("run %d (-want +got):\n%s", i, diff)
				}
				if result.Young != r.wantYoung {
					t.Errorf("run %d: Young = %d, want %d", i, result.Young, r.wantYoung)
				}
			}
		})
	}
}
