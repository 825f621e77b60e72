package machine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/machine"
)

// silentCloud does not answer.
type silentCloud struct{ ownership.Cloud }

func (silentCloud) Ask(ctx context.Context, _ ownership.Claim) (ownership.Answer, error) {
	<-ctx.Done()
	return ownership.Answer{}, ctx.Err()
}

// If the cloud does not respond, the gate answers before the timeout of the API server, by the configured policy and with the reason. For a first
// claim that it admits it leaves the time to look for another machine with the instance.
func TestACloudThatDoesNotRespond(t *testing.T) {
	const budget = 2400 * time.Millisecond // 80 % of the 3 s that the API server waits
	for name, tc := range map[string]struct {
		old           object
		first, dryRun bool
	}{
		"a first claim":              {old: newMachine(), first: true},
		"a first claim on a dry run": {old: newMachine(), first: true, dryRun: true},
		"a changed claim":            {old: newMachine(instanceID(foreignID))},
	} {
		for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn} {
			for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit, v1beta1.AdmitFirstClaims} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, mode, policy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld()
						owners := ownership.NewGate(map[string]ownership.Cloud{"cloudsigma": silentCloud{}}, map[string]int32{"cloudsigma": 4})
						defer owners.Close()
						handler := webhooks.Handler(machine.New(v1beta1.Machine{Mode: mode, Unknown: policy}, kinds, w, owners), mode, w)
						begin := time.Now()
						got := send(t, handler, review(t, tc.old, newMachine(instanceID(ownID)), func(r *admissionv1.AdmissionRequest) { r.DryRun = &tc.dryRun }))
						wantTime := budget
						if tc.first && policy == v1beta1.AdmitFirstClaims {
							wantTime = budget * 2 / 3
						}
						if took := time.Since(begin); took != wantTime {
							t.Errorf("it took %s, want %s", took, wantTime)
						}
						want := unknownOwner(ownership.CauseTimeout, "")
						want.first = tc.first
						if diff := cmp.Diff(want.response(mode, policy), got); diff != "" {
							t.Errorf("response (-want +got):\n%s", diff)
						}
						wantEvents := want.events(mode, policy, false)
						if tc.dryRun {
							wantEvents = nil
						}
						if diff := cmp.Diff(wantEvents, w.events()); diff != "" {
							t.Errorf("Events (-want +got):\n%s", diff)
						}
						<-time.After(time.Minute) // the request to the cloud ends as well
					})
				})
			}
		}
	}
}

// squattingCloud does not answer about the account of another tenant.
type squattingCloud struct {
	silentCloud
	theirs ownership.Account
	// asked is the number of lookups for other accounts.
	asked *atomic.Int32
}

func (c squattingCloud) Ask(ctx context.Context, claim ownership.Claim) (ownership.Answer, error) {
	if claim.Account == c.theirs {
		return c.silentCloud.Ask(ctx, claim)
	}
	c.asked.Add(1)
	return ownership.Answer{Verdict: ownership.Owned}, nil
}

// A tenant chooses the endpoint of its cloud. While that does not respond, the machines that name another tenant's instance block its owner
// neither by a conflict, nor by the time that they take.
func TestAHolderWhoseCloudDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := ownership.Account{Cloud: "openstack", Identity: ownership.Identity{Namespace: "team-b", Secret: "keys", Entry: "tenant"}}
		w := newWorld(held("team-b", "squatter"), actsAs(theirs, nil), onOpenStack(func(w *world) { w.holders = 3 }))
		var asked atomic.Int32
		owners := ownership.NewGate(map[string]ownership.Cloud{"openstack": squattingCloud{theirs: theirs, asked: &asked}}, map[string]int32{"openstack": 4})
		defer owners.Close()
		handler := webhooks.Handler(machine.New(v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Deny}, kinds, w, owners), v1beta1.Enforce, w)
		begin := time.Now()
		got := send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))
		if took, want := time.Since(begin), 800*time.Millisecond; took != want { // a third of 80 % of the 3 s that the API server waits
			t.Errorf("it took %s, want %s", took, want)
		}
		if !got.Allowed || asked.Load() != 2 { // for all holders, and for the verdict
			t.Errorf("%d lookups for the own account, want 2; response %+v", asked.Load(), got)
		}
		<-time.After(time.Minute) // the request to the cloud ends as well
	})
}
