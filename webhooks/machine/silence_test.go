package machine_test

import (
	"context"
	"fmt"
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
// claim it leaves the time to look for another machine with the instance.
func TestACloudThatDoesNotRespond(t *testing.T) {
	const budget = 2400 * time.Millisecond // 80 % of the 3 s that the API server waits
	for name, tc := range map[string]struct {
		old           object
		first, dryRun bool
		want          time.Duration
	}{
		"a first claim":              {old: newMachine(), first: true, want: budget * 2 / 3},
		"a first claim on a dry run": {old: newMachine(), first: true, dryRun: true, want: budget * 2 / 3},
		"a changed claim":            {old: newMachine(instanceID(foreignID)), want: budget},
	} {
		for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn} {
			for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit, v1beta1.AdmitFirstClaims} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, mode, policy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld()
						owners, err := ownership.NewGate(map[string]ownership.Cloud{"cloudsigma": silentCloud{}}, map[string]int32{"cloudsigma": 4})
						if err != nil {
							t.Fatal(err)
						}
						defer owners.Close()
						handler := webhooks.Handler(machine.New(v1beta1.Machine{Mode: mode, Unknown: policy}, kinds, w, owners), mode, w)
						begin := time.Now()
						got := send(t, handler, review(t, tc.old, newMachine(instanceID(ownID)), func(r *admissionv1.AdmissionRequest) { r.DryRun = &tc.dryRun }))
						if took := time.Since(begin); took != tc.want {
							t.Errorf("it took %s, want %s", took, tc.want)
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
