package settle_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/fairqueue"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/settle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	period = 20 * time.Second
	id     = "63dd227a-9502-4311-919e-cd49f3416753"
)

var (
	provider = fairqueue.Tenant{Namespace: "team-a", User: "provider"}
	editor   = fairqueue.Tenant{Namespace: "team-a", User: "editor"}
	tsap     = ownership.Account{Cloud: "cloudsigma", User: "tsap@example.com", Region: "next"}
)

func claim(machine, id string, modify ...func(*settle.Claim)) settle.Claim {
	c := settle.Claim{
		Machine: corev1.ObjectReference{Kind: "CloudSigmaMachine", Namespace: "team-a", Name: machine, UID: types.UID("uid-" + machine)},
		Account: tsap, ID: id,
	}
	for _, m := range modify {
		m(&c)
	}
	return c
}

// wait advances the clock of a bubble.
func wait(d time.Duration) { <-time.After(d) }

func TestARefusedFirstClaimIsDeniedAfterThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims, worker := settle.New(period), claim("worker", id)
		for _, step := range []struct {
			after                   time.Duration
			tenant                  fairqueue.Tenant
			dryRun                  bool
			wantDenied, wantSettles bool
		}{
			{tenant: provider, dryRun: true, wantSettles: true}, // a dry run does not start the period
			{after: time.Hour, tenant: provider, wantSettles: true},
			{after: period - time.Millisecond, tenant: editor, wantSettles: true}, // of the same namespace
			{after: time.Millisecond, tenant: provider, dryRun: true, wantDenied: true, wantSettles: true},
			{tenant: provider, wantDenied: true},
			{after: time.Minute, tenant: provider, wantDenied: true},
			{after: time.Hour + period - time.Millisecond, tenant: provider, wantDenied: true},
		} {
			wait(step.after)
			if got := claims.NotConfirmed(step.tenant, worker, step.dryRun); got != step.wantDenied {
				t.Errorf("%+v: Refuse() = %t", step, got)
			}
			if got := claims.Settles(step.tenant, worker); got != step.wantSettles {
				t.Errorf("%+v: Settles() = %t", step, got)
			}
		}
		if diff := cmp.Diff([]settle.Claim{worker}, claims.Denied()); diff != "" {
			t.Errorf("Denied() (-want +got):\n%s", diff)
		}
		wait(time.Hour + period)
		if got := claims.Denied(); len(got) > 0 || claims.NotConfirmed(provider, worker, false) {
			t.Errorf("a claim that was not tried for a long time is remembered: %v", got)
		}
	})
}

// A claim that a provider sends only once is reported when the period has passed, at least until the next report.
func TestAClaimThatIsNotRetried(t *testing.T) {
	const longer = 6 * time.Hour
	for name, tc := range map[string]struct {
		claims func() *settle.Claims
		// reported are times after the claim at which it is reported, forgotten is one at which it is not any more.
		reported  []time.Duration
		forgotten time.Duration
	}{
		"without reports":            {func() *settle.Claims { return settle.New(period) }, []time.Duration{period, time.Hour}, time.Hour + period},
		"reports at short intervals": {func() *settle.Claims { return settle.New(period).ReportedEvery(time.Minute) }, []time.Duration{period, time.Hour}, time.Hour + period},
		"reports at long intervals":  {func() *settle.Claims { return settle.New(period).ReportedEvery(longer) }, []time.Duration{period, longer * 11 / 10}, 2*longer + period},
		"without a period":           {func() *settle.Claims { return settle.New(0) }, []time.Duration{0, time.Hour - 1}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claims, worker, began := tc.claims(), claim("worker", id), time.Now()
				claims.NotConfirmed(provider, worker, false)
				if tc.reported[0] > 0 {
					wait(tc.reported[0] - time.Millisecond)
					if got := claims.Denied(); len(got) > 0 {
						t.Errorf("before the period has passed: %v", got)
					}
				}
				for _, at := range tc.reported {
					wait(time.Until(began.Add(at)))
					if diff := cmp.Diff([]settle.Claim{worker}, claims.Denied()); diff != "" {
						t.Errorf("Denied() after %s (-want +got):\n%s", at, diff)
					}
				}
				wait(time.Until(began.Add(tc.forgotten)))
				if got := claims.Denied(); len(got) > 0 {
					t.Errorf("Denied() after %s: %v", tc.forgotten, got)
				}
			})
		})
	}
}

// Claims that differ in one part are different claims.
func TestWhatIsAnotherClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		tenant fairqueue.Tenant
		claim  settle.Claim
		want   bool
	}{
		"the same":                      {provider, claim("worker", id), true},
		"another machine":               {provider, claim("other", id), false},
		"a machine that was made again": {provider, claim("worker", id, func(c *settle.Claim) { c.Machine.UID = "7" }), false},
		"another instance":              {provider, claim("worker", "4192fc6e-0372-4961-99fa-6dc9d4038dbf"), false},
		"another user":                  {provider, claim("worker", id, func(c *settle.Claim) { c.Account.User = "bob@example.com" }), false},
		"another logical cluster":       {fairqueue.Tenant{LogicalCluster: "abc"}, claim("worker", id, func(c *settle.Claim) { c.LogicalCluster = "abc" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				claims := settle.New(period)
				claims.NotConfirmed(provider, claim("worker", id), false)
				wait(period)
				if got := claims.NotConfirmed(tc.tenant, tc.claim, false); got != tc.want {
					t.Errorf("Refuse() = %t, want %t", got, tc.want)
				}
			})
		})
	}
}

func TestAClaimThatIsAdmittedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims, worker := settle.New(period), claim("worker", id)
		claims.Forget(provider, worker) // an unknown claim
		claims.NotConfirmed(provider, worker, false)
		claims.Forget(provider, worker)
		wait(period)
		if claims.NotConfirmed(provider, worker, false) {
			t.Error("the clock was not started again")
		}
	})
}

func TestWithoutAPeriod(t *testing.T) {
	claims, worker := settle.New(0), claim("worker", id)
	if claims.Settles(provider, worker) {
		t.Error("the cloud must get a new lookup")
	}
	if !claims.NotConfirmed(provider, worker, true) || !claims.NotConfirmed(provider, worker, false) {
		t.Error("a claim is undecided")
	}
	if diff := cmp.Diff([]settle.Claim{worker}, claims.Denied()); diff != "" {
		t.Errorf("Denied() (-want +got):\n%s", diff)
	}
}

// A tenant that claims random UUIDs replaces only its own claims, and only up to a limit.
func TestHowManyClaimsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := settle.New(period)
		other := fairqueue.Tenant{Namespace: "team-b"}
		claims.NotConfirmed(other, claim("victim", id), false)
		numbered := func(i int) string { return fmt.Sprintf("63dd227a-9502-4311-919e-%012d", i) }
		denied := func(tenant fairqueue.Tenant, machine string, from, to int) (count int) {
			for i := from; i < to; i++ {
				if claims.NotConfirmed(tenant, claim(machine, numbered(i)), false) {
					count++
				}
			}
			return count
		}

		denied(provider, "worker", 0, 3)
		denied(provider, "flooding", 0, 1000)
		wait(period)
		if got := denied(provider, "flooding", 996, 1000); got != 4 {
			t.Errorf("of a machine's last 4 claims %d are remembered", got)
		}
		if got := denied(provider, "flooding", 0, 1000); got != 0 {
			t.Errorf("of a machine's 1000 claims %d more are remembered", got)
		}
		if got := denied(provider, "worker", 0, 3); got != 3 {
			t.Errorf("of another machine's 3 claims %d are remembered", got)
		}

		for i := range 1000 {
			denied(provider, fmt.Sprint("machine-", i), 0, 1)
			wait(time.Millisecond)
		}
		wait(period)
		count := 0
		for i := range 1000 {
			count += denied(provider, fmt.Sprint("machine-", 999-i), 0, 1)
		}
		if count != 500 {
			t.Errorf("of a namespace's 1000 claims %d are remembered", count)
		}

		for i := range 300 { // many workspaces
			for j := range 100 {
				denied(fairqueue.Tenant{LogicalCluster: fmt.Sprint("ws-", i)}, fmt.Sprint("machine-", j), 0, 1)
			}
			wait(time.Millisecond)
		}
		if !claims.NotConfirmed(other, claim("victim", id), false) {
			t.Error("others' claims took the place of a namespace with one")
		}
		wait(period)
		count = 0
		for i := range 300 {
			for j := range 100 {
				if !claims.Settles(fairqueue.Tenant{LogicalCluster: fmt.Sprint("ws-", i)}, claim(fmt.Sprint("machine-", j), numbered(0))) {
					count++
				}
			}
		}
		if count != 0 {
			t.Errorf("%d claims are denied after one rejection", count)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	claims := settle.New(time.Nanosecond)
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			tenant := fairqueue.Tenant{Namespace: fmt.Sprint("team-", i%2)}
			for j := range 200 {
				c := claim(fmt.Sprint("machine-", j%5), fmt.Sprint(j))
				claims.NotConfirmed(tenant, c, false)
				claims.Settles(tenant, c)
				claims.Denied()
				claims.Forget(tenant, c)
			}
		})
	}
	running.Wait()
	if got := claims.Denied(); len(got) > 0 {
		t.Errorf("%d claims are remembered that were forgotten", len(got))
	}
}
