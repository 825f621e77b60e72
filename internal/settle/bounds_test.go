package settle

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/fairqueue"
)

// The limits are exact, and claims that are not retried are removed first.
func TestLimitsAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := New(time.Second)
		refuse := func(share, machine, id int) (fairqueue.Tenant, Claim) {
			tenant := fairqueue.Tenant{LogicalCluster: strconv.Itoa(share)}
			claim := Claim{Machine: corev1.ObjectReference{Name: strconv.Itoa(machine)}, ID: strconv.Itoa(id)}
			claims.NotConfirmed(tenant, claim, false)
			return tenant, claim
		}
		want := func(what string, want int) {
			t.Helper()
			if claims.total != want {
				t.Errorf("%s: %d claims are remembered, want %d", what, claims.total, want)
			}
		}
		for id := range maxPerMachine + 1 {
			refuse(0, 0, id)
		}
		want("one machine", maxPerMachine)
		claims.Forget(refuse(0, 0, maxPerMachine))
		want("one is admitted", maxPerMachine-1)

		for share := range maxClaims/maxPerShare + 1 {
			for machine := range maxPerShare {
				refuse(share+1, machine, 0)
			}
		}
		want("all tenants", maxClaims)

		claims = New(time.Second)
		for machine := range maxPerShare {
			refuse(0, machine, 0)
		}
		want("one tenant", maxPerShare)
		<-time.After(time.Second + rememberedFor)
		refuse(0, 0, 1)
		want("one tenant, after a long time", 1)
	})
}
