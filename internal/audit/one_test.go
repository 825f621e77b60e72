package audit_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
)

func TestOne(t *testing.T) {
	listed := []ownership.Instance{
		{ID: idOwn, Name: "worker"}, {ID: idSpare, Name: "worker", MachineUID: "uid-deleted"}, {ID: "desktop", Name: "desktop"},
		{ID: "renamed", Name: "renamed", MachineUID: "uid-worker"},
	}
	for name, tc := range map[string]struct {
		one  audit.One
		want []string
	}{
		"all is known": {
			one:  audit.One{Machine: machine("worker", idOwn), All: true, Instances: listed, Listed: true},
			want: []string{"InstanceDuplicate renamed", "InstanceOrphaned " + idSpare},
		},
		"an instance of a machine that another one names": {
			one:  audit.One{Machine: machine("worker", idOwn), Others: []clusterapi.Machine{machine("other", idSpare)}, All: true, Instances: listed[:2], Listed: true},
			want: nil,
		},
		"machines of other namespaces are unknown": {
			one:  audit.One{Machine: machine("worker", idOwn), Instances: listed, Listed: true},
			want: []string{"InstanceDuplicate renamed"},
		},
		"an instance of the user with another name": {
			one:  audit.One{Machine: machine("worker", "3e7a4c21-3b5d-4f60-9a12-000000000000"), All: true, Listed: true, Instances: []ownership.Instance{{ID: "3e7a4c21-3b5d-4f60-9a12-000000000000", Name: "x"}}},
			want: nil,
		},
		"another user's": {
			one:  audit.One{Machine: machine("worker", idOther), All: true, Instances: listed[:1], Listed: true},
			want: []string{"InstanceNotOwned " + idOther},
		},
		"none, and one of its name": {
			one:  audit.One{Machine: machine("worker", ""), All: true, Instances: listed[:1], Listed: true},
			want: []string{"InstanceNotNamed " + idOwn},
		},
		"the instances are unknown": {
			one:  audit.One{Machine: machine("worker", idOther), Others: []clusterapi.Machine{machine("other", idOther)}, All: true},
			want: []string{"InstanceIDConflict " + idOther},
		},
		"the cluster is unknown": {
			one:  audit.One{Machine: machine("worker", idOther), Unknown: errors.New("forbidden"), Instances: listed, Listed: true},
			want: nil,
		},
		"the cluster names no user": {
			one:  audit.One{Machine: machine("worker", idOther), Unknown: &clusterapi.AccountError{Reason: clusterapi.UserMissing}},
			want: []string{"UserMissing "},
		},
		"no cluster": {
			one:  audit.One{Machine: machine("worker", idOther), Unknown: &clusterapi.AccountError{Reason: clusterapi.ClusterMissing}},
			want: []string{"ClusterMissing "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.one.Unknown == nil {
				tc.one.Account = tenant
			}
			tc.one.Ask = func(string) (ownership.Answer, error) { return ownership.Answer{Verdict: ownership.Foreign}, nil }
			var got []string
			for _, finding := range tc.one.Findings() {
				if finding.Object != tc.one.Machine.Reference() {
					t.Errorf("finding = %+v is not about the machine", finding)
				}
				got = append(got, finding.Reason+" "+finding.Instance)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	var own []string
	for _, instance := range (audit.One{Machine: machine("worker", ""), Instances: listed}).Own() {
		own = append(own, instance.ID)
	}
	if diff := cmp.Diff([]string{idOwn, idSpare, "renamed"}, own); diff != "" {
		t.Errorf("Own() (-want +got):\n%s", diff)
	}
}
