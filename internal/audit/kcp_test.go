package audit_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

// other is another user than tenant.
var other = ownership.Account{Cloud: "cloudsigma", User: "other@example.com", Region: "next"}

// at moves a machine to a logical cluster of kcp.
func at(in string) func(*clusterapi.Machine) {
	return func(m *clusterapi.Machine) {
		m.LogicalCluster = logicalcluster.Name(in)
		m.UID = types.UID("uid-" + in + "-" + m.Name)
	}
}

// Workspaces contain objects with the same names. No workspace gets a finding about objects of another one only.
func TestPassOverWorkspaces(t *testing.T) {
	const orphaned = `instance ` + idSpare + ` ("gone") of user "tenant@example.com" in region "next" was created for a machine that does not exist here; delete it if nothing else uses it`
	own := ownership.Instance{ID: idOwn, Name: "worker", MachineUID: "uid-a-worker"}
	orphan := ownership.Instance{ID: idSpare, Name: "gone", MachineUID: "uid-gone"}
	notOwned := func(id, user string) string {
		return fmt.Sprintf("instance %s exists, but is not one of user %q in region \"next\", which cluster \"pool\" acts as; clear the field, so that "+
			"the provider adopts an instance of the user or creates one", id, user)
	}
	const conflict = "2 machines name instance " + idOwn + ", which can be that of one only; not all of them are in this workspace"
	for name, tc := range map[string]struct {
		machines  []clusterapi.Machine
		accounts  map[string]any
		owners    map[string]any
		instances map[string][]ownership.Instance
		want      []string // workspace reason object: message
		wantErr   string
	}{
		"equal names in two workspaces": {
			machines:  []clusterapi.Machine{machine("worker", idOwn, at("a")), machine("worker", idOther, at("b"))},
			accounts:  map[string]any{"a|team/pool": tenant, "b|team/pool": other},
			instances: map[string][]ownership.Instance{tenant.User: {own}, other.User: {{ID: idOther, Name: "worker", MachineUID: "uid-b-worker"}}},
		},
		"a cluster of the same name in another workspace is not that of a machine": {
			machines: []clusterapi.Machine{machine("worker", idOwn, at("a"))},
			accounts: map[string]any{"b|team/pool": other},
			want:     []string{`a ClusterMissing worker: it belongs to cluster "pool", which does not exist here, or does not come from the provider's APIExport`},
		},
		"objects of an external provider in two workspaces": {
			machines: []clusterapi.Machine{external("worker", "i-1", at("a")), external("worker", "i-1", at("b")), external("other", "i-1", at("b"))},
			accounts: map[string]any{},
			want: []string{
				"a InstanceIDConflict worker: 3 machines name instance i-1, which can be that of one only; not all of them are in this workspace",
				"b InstanceIDConflict other: 2 machines name instance i-1, which can be that of one only; not all of them are in this workspace",
				"b InstanceIDConflict worker: 2 machines name instance i-1, which can be that of one only; not all of them are in this workspace",
			},
		},
		"two workspaces of one user with machines of one server": {
			machines:  []clusterapi.Machine{machine("worker", idOwn, at("a")), machine("twin", idOwn, at("b"))},
			accounts:  map[string]any{"a|team/pool": tenant, "b|team/pool": tenant},
			instances: map[string][]ownership.Instance{tenant.User: {own}},
			want:      []string{"a InstanceIDConflict worker: " + conflict, "b InstanceIDConflict twin: " + conflict},
		},
		"a machine that names a server of another workspace's user causes findings in its own one only": {
			machines:  []clusterapi.Machine{machine("worker", idOwn, at("a")), machine("thief", idOwn, at("b"))},
			accounts:  map[string]any{"a|team/pool": tenant, "b|team/pool": other},
			instances: map[string][]ownership.Instance{tenant.User: {own}},
			want:      []string{"b InstanceNotOwned thief: " + notOwned(idOwn, other.User)},
		},
		"a machine without a cluster that names a server of another workspace, too": {
			machines:  []clusterapi.Machine{machine("worker", idOwn, at("a")), machine("thief", idOwn, at("b"), ofCluster(""))},
			accounts:  map[string]any{"a|team/pool": tenant},
			instances: map[string][]ownership.Instance{tenant.User: {own}},
			want: []string{
				"b MachineWithoutCluster thief: it has no label cluster.x-k8s.io/cluster-name, so the user that its provider acts as is unknown",
			},
		},
		"an orphan of a user of one workspace is reported there": {
			accounts:  map[string]any{"a|team/pool": tenant, "b|team/pool": other},
			instances: map[string][]ownership.Instance{tenant.User: {orphan}},
			want:      []string{"a InstanceOrphaned pool: " + orphaned},
		},
		"an orphan of a user of two workspaces is reported in none of them": {
			accounts:  map[string]any{"a|team/pool": tenant, "b|team/pool": tenant},
			instances: map[string][]ownership.Instance{tenant.User: {orphan}},
			want:      []string{" InstanceOrphaned : " + orphaned},
		},
		"another workspace cannot hide an orphan": {
			machines:  []clusterapi.Machine{machine("thief", idSpare, at("b"))},
			accounts:  map[string]any{"a|team/pool": tenant, "b|team/pool": other},
			instances: map[string][]ownership.Instance{tenant.User: {orphan}},
			want:      []string{"a InstanceOrphaned pool: " + orphaned, "b InstanceNotOwned thief: " + notOwned(idSpare, other.User)},
		},
		"a server whose machine is in another workspace of another user": {
			machines: []clusterapi.Machine{machine("moved", "", at("b"))},
			accounts: map[string]any{"a|team/pool": tenant, "b|team/pool": other},
			instances: map[string][]ownership.Instance{tenant.User: {
				{ID: idSpare, Name: "gone", MachineUID: "uid-b-moved"},
			}},
			want: []string{"a InstanceOrphaned pool: " + orphaned},
		},
		"a server of one user in another of the user's workspaces": {
			machines:  []clusterapi.Machine{machine("worker", idOwn, at("b"))},
			accounts:  map[string]any{"a|team/pool": tenant, "b|team/pool": tenant},
			instances: map[string][]ownership.Instance{tenant.User: {{ID: idOwn, Name: "worker"}}},
		},
		"owners that cannot be read in one workspace": {
			machines: []clusterapi.Machine{
				machine("worker", idOther, at("a"), ownedBy("slow")), machine("again", idOther, at("a"), ownedBy("slow")),
				machine("worker", idOwn, at("b"), ownedBy("of-other")),
			},
			accounts:  map[string]any{"a|team/pool": other, "b|team/pool": tenant},
			owners:    map[string]any{"a|slow": errors.New("deadline exceeded"), "b|of-other": "other"},
			instances: map[string][]ownership.Instance{tenant.User: {{ID: idOwn, Name: "worker"}}, other.User: {{ID: idOther, Name: "x"}}},
			want: []string{
				"a InstanceIDConflict again: 2 machines name instance " + idOther + ", which can be that of one only",
				"a InstanceIDConflict worker: 2 machines name instance " + idOther + ", which can be that of one only",
				`b OwnerClusterMismatch worker: its owner, Machine "of-other", belongs to cluster "other" by its label cluster.x-k8s.io/cluster-name, ` +
					`which the provider uses, but the machine has the label of cluster "pool"; set the same label on both; if Cluster API sets it back, clear status.instanceID and spec.providerID`,
			},
			wantErr: `owners of machines of logical cluster "a": deadline exceeded`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAudit(fakeObjects{machines: tc.machines, accounts: tc.accounts, owners: tc.owners}, &fakeCloud{instances: tc.instances})
			result, err := a.Run(t.Context())
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if gotErr != tc.wantErr {
				t.Errorf("error %q, want %q", gotErr, tc.wantErr)
			}
			var got []string
			for _, f := range result.Findings {
				got = append(got, f.LogicalCluster.String()+" "+f.Reason+" "+f.Object.Name+": "+f.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// Events are recorded in the workspace of the object. A finding without an object, and a failed check, cause no Event.
func TestControllerOnKCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := fakeObjects{
			machines: []clusterapi.Machine{machine("worker", idOther, at("a"))},
			accounts: map[string]any{"a|team/pool": tenant, "b|team/pool": tenant},
		}
		recorder := &recorded{}
		audited := newAudit(objects, &fakeCloud{instances: map[string][]ownership.Instance{tenant.User: {{ID: idSpare, Name: "gone", MachineUID: "uid-gone"}}}})
		var unread atomic.Bool
		audited.Refresh = func(context.Context) error {
			if unread.Load() {
				return errors.New("a shard is down")
			}
			return nil
		}
		controller := &audit.Controller{
			Audit: audited, Recorder: recorder, Election: elected{}, Interval: 10 * time.Minute, OnKCP: true,
			Synced: func() error { return nil },
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- controller.Start(ctx) }()
		want := map[string]string{"a": "InstanceNotOwned worker"}
		for _, broken := range []bool{false, true, false} {
			unread.Store(broken)
			<-time.After(11 * time.Minute)
			synctest.Wait()
			got := map[string]string{}
			for _, event := range recorder.take() {
				got[event.Cluster.String()] = event.Reason + " " + event.Object.Name
			}
			if broken && len(got) > 0 {
				t.Errorf("Events without objects: %v", got)
			}
			if diff := cmp.Diff(want, got); !broken && diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
}
