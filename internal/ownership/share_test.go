package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

var (
	attacker = share.Tenant{Namespace: "team-a"}
	victim   = share.Tenant{Namespace: "team-b"}
)

// blockingCloud answers Absent to one lookup for each permission.
type blockingCloud struct {
	permissions chan struct{}
	mu          sync.Mutex
	order       []string // the users of the lookups
}

func newBlockingCloud() *blockingCloud { return &blockingCloud{permissions: make(chan struct{})} }

func (c *blockingCloud) Ask(ctx context.Context, claim ownership.Claim) (ownership.Answer, error) {
	if err := c.wait(ctx, claim.User); err != nil {
		return ownership.Answer{}, err
	}
	return ownership.Answer{Verdict: ownership.Absent}, nil
}

func (c *blockingCloud) Instances(ctx context.Context, account ownership.Account) ([]ownership.Instance, int, error) {
	if err := c.wait(ctx, account.User); err != nil {
		return nil, 0, err
	}
	return []ownership.Instance{{ID: instanceID}}, 1, nil
}

func (c *blockingCloud) wait(ctx context.Context, user string) error {
	c.mu.Lock()
	c.order = append(c.order, user)
	c.mu.Unlock()
	select {
	case <-c.permissions:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *blockingCloud) lookups() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.order...)
}

// flood starts lookups of n random instances for the attacker, half of them in dry runs. It returns when all of them are blocked.
func flood(t *testing.T, gate *ownership.Gate, n int) (answers func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	var callers sync.WaitGroup
	got := map[string]int{}
	for i := range n {
		decide := asChanged(gate)
		if i%2 == 0 {
			decide = asDryRun(gate)
		}
		callers.Go(func() {
			answer, err := decide(t.Context(), attacker, numbered(i))
			mu.Lock()
			defer mu.Unlock()
			var unknown *ownership.UnknownError
			switch {
			case errors.As(err, &unknown):
				got[fmt.Sprintf("%s, again after %s", unknown.Cause, unknown.RetryAfter)]++
			case err != nil:
				t.Error(err)
			default:
				got[string(answer.Verdict)]++
			}
		})
	}
	synctest.Wait()
	return func() map[string]int {
		callers.Wait()
		return got
	}
}

func TestOneTenantDoesNotDelayAnother(t *testing.T) {
	const slots, ofAttacker = 4, 2
	for name, ask := range map[string]func(ctx context.Context, gate *ownership.Gate) error{
		"a claim": func(ctx context.Context, gate *ownership.Gate) error {
			_, err := gate.Decide(ctx, victim, claim(func(c *ownership.Claim) { c.User = "victim" }), ownership.Options{})
			return err
		},
		"a claim in a dry run": func(ctx context.Context, gate *ownership.Gate) error {
			_, err := gate.Decide(ctx, victim, claim(func(c *ownership.Claim) { c.User = "victim" }), ownership.Options{DryRun: true})
			return err
		},
		"a list": func(ctx context.Context, gate *ownership.Gate) error {
			_, err := gate.Instances(ctx, victim, ownership.Account{Cloud: cloudName, User: "victim"}, nil)
			return err
		},
		"the same claim as the other tenant": func(ctx context.Context, gate *ownership.Gate) error {
			_, err := gate.Decide(ctx, victim, numbered(999), ownership.Options{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newBlockingCloud()
				gate := newGate(t, slots, cloud)
				got := flood(t, gate, 1000)
				if lookups := len(cloud.lookups()); lookups != ofAttacker {
					t.Fatalf("%d concurrent lookups, want %d", lookups, ofAttacker)
				}
				answered := make(chan error, 1)
				go func() { answered <- ask(t.Context(), gate) }()
				synctest.Wait()
				if lookups := len(cloud.lookups()); lookups != ofAttacker+1 {
					t.Fatalf("%d lookups, want that of the victim at once", lookups)
				}
				for range ofAttacker + 1 { // for all lookups in flight, including the victim's
					cloud.permissions <- struct{}{}
					synctest.Wait()
				}
				select {
				case err := <-answered:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("the victim has no answer after its lookup")
				}
				close(cloud.permissions)
				want := map[string]int{"Absent": ofAttacker, "TooManyRequests, again after 2s": 1000 - ofAttacker}
				if diff := cmp.Diff(want, got()); diff != "" {
					t.Errorf("answers for the attacker (-want +got):\n%s", diff)
				}
				if _, err := gate.Decide(t.Context(), attacker, numbered(5000), ownership.Options{}); err != nil {
					t.Errorf("the attacker, after all lookups: %v", err)
				}
			})
		})
	}
}

// A provider with ten workers has more first claims at once than half of the lookups.
func TestAFirstClaimWaitsForTheShareOfItsTenant(t *testing.T) {
	for name, tc := range map[string]struct {
		released bool
		want     ownership.Cause // "" for an answer
		after    time.Duration
	}{
		"a lookup ends":                {released: true, after: time.Second},
		"no lookup ends for 2 seconds": {want: ownership.CauseTenantBusy, after: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newBlockingCloud()
				gate := newGate(t, 4, cloud)
				got := flood(t, gate, 2)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if tc.released {
					time.AfterFunc(time.Second, func() { close(cloud.permissions) })
				}
				began := time.Now()
				_, err := gate.Decide(ctx, attacker, numbered(999), ownership.Options{First: true})
				unknown, _ := errors.AsType[*ownership.UnknownError](err)
				if took := time.Since(began); unknown != nil && (unknown.Cause != tc.want || took != tc.after) || (unknown == nil) != (tc.want == "") {
					t.Errorf("error = %v after %s, want %q after %s", err, took, tc.want, tc.after)
				}
				if !tc.released {
					close(cloud.permissions)
				}
				got()
			})
		})
	}
}

func TestDenialIsCachedForDryRunsAndOtherNames(t *testing.T) {
	candidate := []ownership.Instance{{ID: "3e7a4c21-3b5d-4f60-9a12-6d0c1e2f3b45", Name: "g2b7h"}}
	for _, verdict := range []ownership.Verdict{ownership.Foreign, ownership.Absent} {
		t.Run(string(verdict), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				full := ownership.Answer{Verdict: verdict, RequestID: "r1", Candidates: candidate}
				bare := ownership.Answer{Verdict: verdict, RequestID: "r1"}
				cloud := cloudWith(full, nil)
				gate := newGate(t, 1, cloud)
				for i, step := range []struct {
					decide func(context.Context, share.Tenant, ownership.Claim) (ownership.Answer, error)
					claim  ownership.Claim
					want   ownership.Answer
				}{
					{asDryRun(gate), claim(), full},
					{asDryRun(gate), claim(), full},
					{asChanged(gate), claim(), full},
					// The candidates of another machine are not those of this one.
					{asDryRun(gate), claim(func(c *ownership.Claim) { c.Name = "other" }), bare},
					{asChanged(gate), claim(func(c *ownership.Claim) { c.MachineUID = "other" }), bare},
				} {
					got, err := step.decide(t.Context(), attacker, step.claim)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(step.want, got); diff != "" {
						t.Errorf("step %d (-want +got):\n%s", i, diff)
					}
				}
				if lookups := cloud.lookups.Load(); lookups != 1 {
					t.Errorf("the cloud got %d lookups, want 1", lookups)
				}
				for _, other := range []ownership.Claim{
					claim(func(c *ownership.Claim) { c.User = "bob@example.com" }),
					claim(func(c *ownership.Claim) { c.Region = "zrh" }),
					claim(func(c *ownership.Claim) { c.ID = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34" }),
				} {
					if _, err := gate.Decide(t.Context(), attacker, other, ownership.Options{DryRun: true}); err != nil {
						t.Error(err)
					}
				}
				if lookups := cloud.lookups.Load(); lookups != 4 {
					t.Errorf("%d lookups, want 4: another user, region or instance is another lookup", lookups)
				}
				<-time.After(9*time.Second + time.Millisecond)
				if _, err := gate.Decide(t.Context(), attacker, claim(), ownership.Options{DryRun: true}); err != nil || cloud.lookups.Load() != 5 {
					t.Errorf("%v, and the cloud got %d lookups, want another one after 9 seconds", err, cloud.lookups.Load())
				}
			})
		})
	}
}

func TestInstancesErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		account ownership.Account
		want    ownership.Cause
	}{
		"a cloud that is not configured": {ownership.Account{Cloud: "openstack"}, ownership.CauseCloud},
		"a timeout":                      {ownership.Account{Cloud: cloudName}, ownership.CauseTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := newGate(t, 1, newBlockingCloud())
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := gate.Instances(ctx, victim, tc.account, nil)
				var unknown *ownership.UnknownError
				if !errors.As(err, &unknown) || unknown.Cause != tc.want {
					t.Errorf("error = %v, want %s", err, tc.want)
				}
				<-time.After(10 * time.Second) // the lookup continues without its caller
			})
		})
	}
}
