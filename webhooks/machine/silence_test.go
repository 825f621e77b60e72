package machine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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

// If the cloud does not respond, the gate answers before the timeout of the API server, by the configured policy and with the reason.
func TestACloudThatDoesNotRespond(t *testing.T) {
	for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn} {
		for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit, v1beta1.AdmitFirstClaims} {
			t.Run(fmt.Sprintf("%s/%s", mode, policy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					owners, err := ownership.NewGate(map[string]ownership.Cloud{"cloudsigma": silentCloud{}}, map[string]int32{"cloudsigma": 4})
					if err != nil {
						t.Fatal(err)
					}
					defer owners.Close()
					handler := webhooks.Handler(machine.New(v1beta1.Machine{Mode: mode, Unknown: policy}, kinds, w, owners), mode, w)
					begin := time.Now()
					got := send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))
					if took := time.Since(begin); took != 2400*time.Millisecond {
						t.Errorf("it took %s, want 80 %% of the 3 s that the API server waits", took)
					}
					want := unknownOwner(ownership.CauseTimeout, "")
					want.first = true
					if diff := cmp.Diff(want.response(mode, policy), got); diff != "" {
						t.Errorf("response (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(want.events(mode, policy, false), w.events()); diff != "" {
						t.Errorf("Events (-want +got):\n%s", diff)
					}
					<-time.After(time.Minute) // the request to the cloud ends as well
				})
			})
		}
	}
}
