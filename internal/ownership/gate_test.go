package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
)

func TestDecideReturnsTheAnswerOfTheCloud(t *testing.T) {
	for name, want := range map[string]ownership.Answer{
		"an instance of the user": {Verdict: ownership.Owned, UserID: "2f6b80d3", Response: "200", RequestID: "r1"},
		"an instance of another user": {
			Verdict: ownership.Foreign, UserID: "2f6b80d3", Response: "403 permission", RequestID: "r2",
			Candidates: []ownership.Instance{{ID: "3e7a4c21-3b5d-4f60-9a12-6d0c1e2f3b45", Name: "g2b7h", MachineUID: "6a1b"}},
		},
		"no instance": {Verdict: ownership.Absent, Response: "404 not found"},
	} {
		t.Run(name, func(t *testing.T) {
			gate := newGate(t, 1, cloudWith(want, nil))
			for from, decide := range map[string]func(context.Context, share.Tenant, ownership.Claim) (ownership.Answer, error){
				"the cloud": asDryRun(gate), "the cloud or memory": asChanged(gate),
			} {
				got, err := decide(t.Context(), tenant, claim())
				if err != nil {
					t.Fatalf("from %s: %v", from, err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("from %s (-want +got):\n%s", from, diff)
				}
			}
		})
	}
}

func TestDecideErrors(t *testing.T) {
	rateLimited := &ownership.UnknownError{
		Cause: ownership.CauseRateLimited, RequestID: "r1", RetryAfter: time.Minute, Err: errors.New("429 too many requests"),
	}
	for name, tc := range map[string]struct {
		cloud ownership.Cloud
		claim ownership.Claim
		want  ownership.UnknownError
		// wantErr is the text of the error's cause.
		wantErr string
	}{
		"an UnknownError of the cloud": {
			cloud: cloudWith(ownership.Answer{}, rateLimited), claim: claim(),
			want: *rateLimited, wantErr: "429 too many requests",
		},
		"a wrapped UnknownError of the cloud": {
			cloud: cloudWith(ownership.Answer{}, fmt.Errorf("ask: %w", rateLimited)), claim: claim(),
			want: *rateLimited, wantErr: "429 too many requests",
		},
		"an error with a verdict": {
			cloud: cloudWith(ownership.Answer{Verdict: ownership.Owned}, rateLimited), claim: claim(),
			want: *rateLimited, wantErr: "429 too many requests",
		},
		"a timeout of the cloud": {
			cloud: cloudWith(ownership.Answer{}, fmt.Errorf("GET: %w", context.DeadlineExceeded)), claim: claim(),
			want: ownership.UnknownError{Cause: ownership.CauseTimeout}, wantErr: "GET: context deadline exceeded",
		},
		"a canceled request": {
			cloud: cloudWith(ownership.Answer{}, context.Canceled), claim: claim(),
			want: ownership.UnknownError{Cause: ownership.CauseTimeout}, wantErr: "context canceled",
		},
		"any other error": {
			cloud: cloudWith(ownership.Answer{}, errors.New("boom")), claim: claim(),
			want: ownership.UnknownError{Cause: ownership.CauseCloud}, wantErr: "boom",
		},
		"an answer without a verdict": {
			cloud: cloudWith(ownership.Answer{Response: "200"}, nil), claim: claim(),
			want: ownership.UnknownError{Cause: ownership.CauseCloud}, wantErr: `"" is no verdict`,
		},
		"an unknown verdict": {
			cloud: cloudWith(ownership.Answer{Verdict: "owned"}, nil), claim: claim(),
			want: ownership.UnknownError{Cause: ownership.CauseCloud}, wantErr: `"owned" is no verdict`,
		},
		"a panic": {
			cloud: &fakeCloud{ask: func(context.Context, ownership.Claim) (ownership.Answer, error) { panic("boom") }}, claim: claim(),
			want: ownership.UnknownError{Cause: ownership.CauseCloud}, wantErr: "panic: boom",
		},
		"a cloud that is not configured": {
			cloud: cloudWith(ownership.Answer{Verdict: ownership.Owned}, nil), claim: claim(func(c *ownership.Claim) { c.Cloud = "openstack" }),
			want: ownership.UnknownError{Cause: ownership.CauseCloud}, wantErr: `no access to the cloud "openstack" is configured`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newGate(t, 1, tc.cloud).Decide(t.Context(), tenant, tc.claim, ownership.Options{})
			if diff := cmp.Diff(ownership.Answer{}, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			unknown, ok := err.(*ownership.UnknownError) //nolint:errorlint // the error itself must have the type, not one that it wraps
			if !ok {
				t.Fatalf("error = %T %v, want an UnknownError", err, err)
			}
			if unknown.Err.Error() != tc.wantErr {
				t.Errorf("cause = %q, want %q", unknown.Err, tc.wantErr)
			}
			unknown = &ownership.UnknownError{Cause: unknown.Cause, RequestID: unknown.RequestID, RetryAfter: unknown.RetryAfter}
			tc.want.Err = nil
			if diff := cmp.Diff(tc.want, *unknown); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRegionErrorIsWrapped(t *testing.T) {
	want := &ownership.RegionError{Region: "zrh", Allowed: []string{"next"}}
	_, err := newGate(t, 1, cloudWith(ownership.Answer{}, want)).Decide(t.Context(), tenant, claim(), ownership.Options{})
	var got *ownership.RegionError
	if !errors.As(err, &got) {
		t.Fatalf("error = %v, want a RegionError in it", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFirst checks that First asks again each second until the verdict is Owned, or until half a second before the deadline. Before a recheck, it
// waits two thirds of the time for the first answer.
func TestFirst(t *testing.T) {
	denied, owned := ownership.Answer{Verdict: ownership.Absent}, ownership.Answer{Verdict: ownership.Owned}
	away := &ownership.UnknownError{Cause: ownership.CauseCloud, Err: errors.New("500")}
	type reply struct {
		answer ownership.Answer
		err    error
		after  time.Duration
	}
	for name, tc := range map[string]struct {
		replies  []reply // the last one is repeated
		recheck  bool
		want     ownership.Answer
		wantErr  error
		wantTime time.Duration
		asked    int32
	}{
		"the user's":                         {replies: []reply{{answer: owned}}, want: owned, asked: 1},
		"the user's, after three seconds":    {replies: []reply{{answer: denied}, {answer: denied}, {answer: denied}, {answer: owned}}, want: owned, wantTime: 3 * time.Second, asked: 4},
		"denied":                             {replies: []reply{{answer: denied}}, want: denied, wantTime: 7500 * time.Millisecond, asked: 8},
		"denied, and no answer later":        {replies: []reply{{answer: denied}, {err: away}}, want: denied, wantTime: 7500 * time.Millisecond, asked: 8},
		"denied, no answer, then the user's": {replies: []reply{{answer: denied}, {err: away}, {answer: owned}}, want: owned, wantTime: 2 * time.Second, asked: 3},
		"no answer":                          {replies: []reply{{err: away}}, wantErr: away, asked: 1},
		"no answer in time":                  {replies: []reply{{answer: owned, after: 9 * time.Second}}, wantErr: context.DeadlineExceeded, wantTime: 8 * time.Second, asked: 1},
		"no answer in time for a recheck":    {replies: []reply{{answer: owned, after: 9 * time.Second}}, recheck: true, wantErr: context.DeadlineExceeded, wantTime: 8 * time.Second * 2 / 3, asked: 1},
		"denied, before a recheck":           {replies: []reply{{answer: denied}}, recheck: true, want: denied, wantTime: 7500 * time.Millisecond, asked: 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replies := tc.replies
				cloud := &fakeCloud{ask: func(context.Context, ownership.Claim) (ownership.Answer, error) {
					reply := replies[0]
					if len(replies) > 1 {
						replies = replies[1:]
					}
					<-time.After(reply.after)
					return reply.answer, reply.err
				}}
				gate := newGate(t, 1, cloud)
				first := func() (ownership.Answer, error) {
					ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
					defer cancel()
					return gate.Decide(ctx, tenant, claim(), ownership.Options{First: true, Recheck: tc.recheck})
				}
				began := time.Now()
				got, err := first()
				if took := time.Since(began); took != tc.wantTime {
					t.Errorf("it took %s, want %s", took, tc.wantTime)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.wantErr) {
					t.Errorf("First() = %v, want %v; answer (-want +got):\n%s", err, tc.wantErr, diff)
				}
				if asked := cloud.lookups.Load(); asked != tc.asked {
					t.Errorf("the cloud got %d lookups, want %d", asked, tc.asked)
				}
				<-time.After(4 * time.Second) // a late lookup ends
			})
		})
	}
}

// TestRepeatsOfFirst checks that a denied first claim is denied at once for a minute, and that other denials are no denials of first claims.
func TestRepeatsOfFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := cloudWith(ownership.Answer{Verdict: ownership.Foreign, Candidates: []ownership.Instance{{ID: "own"}}}, nil)
		gate := newGate(t, 1, cloud)
		ctx := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		expect := func(what string, asked int32, candidates int, decide func(context.Context, share.Tenant, ownership.Claim) (ownership.Answer, error), claim ownership.Claim) {
			t.Helper()
			got, err := decide(ctx(), tenant, claim)
			if lookups := cloud.lookups.Swap(0); err != nil || got.Verdict != ownership.Foreign || lookups != asked || len(got.Candidates) != candidates {
				t.Errorf("%s: %v, %v after %d lookups, want a denial with %d candidates after %d", what, got, err, lookups, candidates, asked)
			}
		}
		another := claim(func(c *ownership.Claim) { c.Name = "another" })
		expect("a changed claim", 1, 1, asChanged(gate), claim())
		expect("a first claim after it", 8, 1, asFirst(gate), claim())
		for range 50 {
			expect("its repetition", 0, 1, asFirst(gate), claim())
			<-time.After(time.Second)
		}
		expect("the first claim of another machine", 0, 0, asFirst(gate), another)
		expect("a changed claim", 0, 1, asChanged(gate), claim())
		expect("a dry run", 0, 1, asDryRun(gate), claim())
		expect("the first claim of another account", 8, 1, asFirst(gate), claim(func(c *ownership.Claim) { c.User = "bob@example.com" }))
		<-time.After(10 * time.Second)
		expect("a first claim after a minute", 8, 1, asFirst(gate), claim())
	})
}

// TestFirstHoldsNoSlot checks that first claims that are denied leave the only slot to others between their lookups.
func TestFirstHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(t, 1, cloudWith(ownership.Answer{Verdict: ownership.Absent}, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var firsts sync.WaitGroup
		for i := range 5 {
			firsts.Go(func() {
				_, _ = gate.Decide(ctx, tenant, claim(func(c *ownership.Claim) { c.ID = fmt.Sprint(i) }), ownership.Options{First: true})
			})
		}
		synctest.Wait()
		began := time.Now()
		if _, err := gate.Decide(ctx, tenant, claim(), ownership.Options{}); err != nil || time.Since(began) > 0 {
			t.Errorf("another lookup: %v after %s", err, time.Since(began))
		}
		firsts.Wait()
	})
}

func TestFirstWithoutADeadlineAsksOnce(t *testing.T) {
	cloud := cloudWith(ownership.Answer{Verdict: ownership.Absent}, nil)
	gate := newGate(t, 1, cloud)
	if answer, err := gate.Decide(t.Context(), tenant, claim(), ownership.Options{First: true}); err != nil || answer.Verdict != ownership.Absent || cloud.lookups.Load() != 1 {
		t.Errorf("First() = %v, %v after %d lookups", answer, err, cloud.lookups.Load())
	}
}

func TestCacheTTL(t *testing.T) {
	for name, tc := range map[string]struct {
		answer ownership.Answer
		err    error
		want   time.Duration
	}{
		"an instance of the user":     {answer: ownership.Answer{Verdict: ownership.Owned}, want: 5 * time.Minute},
		"an instance of another user": {answer: ownership.Answer{Verdict: ownership.Foreign}, want: 9 * time.Second},
		"no instance":                 {answer: ownership.Answer{Verdict: ownership.Absent}, want: 9 * time.Second},
		"no verdict":                  {err: &ownership.UnknownError{Cause: ownership.CauseCloud, Err: errors.New("503")}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := cloudWith(tc.answer, tc.err)
				gate := newGate(t, 1, cloud)
				decide := func() int32 {
					_, _ = gate.Decide(t.Context(), tenant, claim(), ownership.Options{}) // another test checks the result
					return cloud.lookups.Load()
				}
				decide()
				if tc.want > 0 {
					// Reading the cached answer does not extend its TTL.
					for range 4 {
						<-time.After(tc.want/4 - time.Millisecond)
						if lookups := decide(); lookups != 1 {
							t.Fatalf("the cloud got %d lookups within %s, want 1", lookups, tc.want)
						}
					}
				}
				<-time.After(5 * time.Millisecond)
				if lookups := decide(); lookups != 2 {
					t.Errorf("the cloud got %d lookups after %s, want 2", lookups, tc.want)
				}
			})
		})
	}
}

func TestRepeatsCauseOneLookup(t *testing.T) {
	for name, verdict := range map[string]ownership.Verdict{"admitted": ownership.Owned, "denied": ownership.Foreign} {
		t.Run(name, func(t *testing.T) {
			cloud := cloudWith(ownership.Answer{Verdict: verdict, RequestID: "r1"}, nil)
			gate := newGate(t, 16, cloud)
			var callers sync.WaitGroup
			for range 1000 {
				callers.Go(func() {
					got, err := gate.Decide(t.Context(), tenant, claim(), ownership.Options{})
					if err != nil || got.RequestID != "r1" || got.Verdict != verdict {
						t.Errorf("Decide() = %v, %v", got, err)
					}
				})
			}
			callers.Wait()
			for range 1000 {
				if _, err := gate.Decide(t.Context(), tenant, claim(), ownership.Options{}); err != nil {
					t.Error(err)
				}
			}
			if lookups := cloud.lookups.Load(); lookups != 1 {
				t.Errorf("the cloud got %d lookups, want 1", lookups)
			}
		})
	}
}

func TestDifferentClaimsCauseSeparateLookups(t *testing.T) {
	cloud := &fakeCloud{ask: func(_ context.Context, claim ownership.Claim) (ownership.Answer, error) {
		return ownership.Answer{Verdict: ownership.Owned, RequestID: fmt.Sprintf("%q", claim)}, nil
	}}
	gate := newGate(t, 4, cloud)
	claims := []ownership.Claim{
		claim(),
		claim(func(c *ownership.Claim) { c.User = "bob@example.com" }),
		claim(func(c *ownership.Claim) { c.Region = "zrh" }),
		claim(func(c *ownership.Claim) { c.ID = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34" }),
		claim(func(c *ownership.Claim) { c.Name = "g2b7h" }),
		claim(func(c *ownership.Claim) { c.MachineUID = "" }),
		// Different values whose concatenation with blanks or quotes is equal.
		claim(func(c *ownership.Claim) { c.User, c.Region = "a b", "c" }),
		claim(func(c *ownership.Claim) { c.User, c.Region = "a", "b c" }),
		claim(func(c *ownership.Claim) { c.User, c.Region = `a" "b`, "c" }),
		claim(func(c *ownership.Claim) { c.User, c.Region = "a", `b" "c` }),
	}
	for range 2 {
		for _, claim := range claims {
			got, err := gate.Decide(t.Context(), tenant, claim, ownership.Options{})
			if want := fmt.Sprintf("%q", claim); err != nil || got.RequestID != want {
				t.Errorf("Decide(%v) = %v, %v, want that of %s", claim, got, err, want)
			}
		}
	}
	if lookups := int(cloud.lookups.Load()); lookups != len(claims) {
		t.Errorf("the cloud got %d lookups, want %d", lookups, len(claims))
	}
}

// Confirmed reads the verdict Owned from the cache, and sends no request.
func TestConfirmed(t *testing.T) {
	for verdict, want := range map[ownership.Verdict]bool{ownership.Owned: true, ownership.Foreign: false} {
		gate := newGate(t, 1, cloudWith(ownership.Answer{Verdict: verdict}, nil))
		if gate.Confirmed(claim()) {
			t.Error("Confirmed() before Decide")
		}
		if _, err := gate.Decide(t.Context(), tenant, claim(), ownership.Options{}); err != nil {
			t.Fatal(err)
		}
		if got := gate.Confirmed(claim()); got != want {
			t.Errorf("Confirmed() after %s = %t, want %t", verdict, got, want)
		}
	}
}

func TestPreviewDoesNotCacheOwned(t *testing.T) {
	cloud := cloudWith(ownership.Answer{Verdict: ownership.Owned}, nil)
	gate := newGate(t, 1, cloud)
	ask := func(decide func(context.Context, share.Tenant, ownership.Claim) (ownership.Answer, error), wantAsked int32) {
		t.Helper()
		if answer, err := decide(t.Context(), tenant, claim()); err != nil || answer.Verdict != ownership.Owned {
			t.Errorf("= %v, %v", answer, err)
		}
		if lookups := cloud.lookups.Load(); lookups != wantAsked {
			t.Errorf("the cloud got %d lookups, want %d", lookups, wantAsked)
		}
	}
	ask(asDryRun(gate), 1)
	ask(asDryRun(gate), 2)
	ask(asChanged(gate), 3)
	ask(asDryRun(gate), 3) // uses the cached answer
	ask(asChanged(gate), 3)
}

func TestDecideThatJoinsAPreviewCachesTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeCloud{ask: func(context.Context, ownership.Claim) (ownership.Answer, error) {
			<-time.After(time.Second)
			return ownership.Answer{Verdict: ownership.Owned}, nil
		}}
		gate := newGate(t, 1, cloud)
		var callers sync.WaitGroup
		callers.Go(func() { _, _ = gate.Decide(t.Context(), tenant, claim(), ownership.Options{DryRun: true}) })
		synctest.Wait()
		callers.Go(func() { _, _ = gate.Decide(t.Context(), tenant, claim(), ownership.Options{}) })
		callers.Wait()
		if _, err := gate.Decide(t.Context(), tenant, claim(), ownership.Options{}); err != nil || cloud.lookups.Load() != 1 {
			t.Errorf("error %v, and the cloud got %d lookups, want 1", err, cloud.lookups.Load())
		}
	})
}

func TestCanceledCallerDoesNotCancelOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeCloud{ask: func(ctx context.Context, _ ownership.Claim) (ownership.Answer, error) {
			select {
			case <-ctx.Done():
				return ownership.Answer{}, ctx.Err()
			case <-time.After(time.Second):
				return ownership.Answer{Verdict: ownership.Owned}, nil
			}
		}}
		gate := newGate(t, 1, cloud)
		const impatient = 7 // callers that cancel, including the one that started the lookup
		var callers sync.WaitGroup
		var answered, gaveUp atomic.Int32
		for i := range 100 {
			ctx, leave := context.WithCancel(t.Context())
			t.Cleanup(leave)
			callers.Go(func() {
				answer, err := gate.Decide(ctx, tenant, claim(), ownership.Options{})
				var unknown *ownership.UnknownError
				switch {
				case err == nil && answer.Verdict == ownership.Owned:
					answered.Add(1)
				case errors.As(err, &unknown) && unknown.Cause == ownership.CauseTimeout && errors.Is(err, context.Canceled):
					gaveUp.Add(1)
				default:
					t.Errorf("Decide() = %v, %v", answer, err)
				}
			})
			synctest.Wait()
			if i < impatient {
				leave()
				synctest.Wait()
			}
		}
		callers.Wait()
		if answered.Load() != 100-impatient || gaveUp.Load() != impatient || cloud.lookups.Load() != 1 {
			t.Errorf("%d got answers, %d were canceled, the cloud got %d lookups, want %d, %d and 1",
				answered.Load(), gaveUp.Load(), cloud.lookups.Load(), 100-impatient, impatient)
		}
	})
}

func TestLateAnswerIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeCloud{ask: func(context.Context, ownership.Claim) (ownership.Answer, error) {
			<-time.After(4 * time.Second)
			return ownership.Answer{Verdict: ownership.Owned}, nil
		}}
		gate := newGate(t, 4, cloud)
		for name, decide := range map[string]func(context.Context, share.Tenant, ownership.Claim) (ownership.Answer, error){
			"a request": asChanged(gate), "a dry run": asDryRun(gate),
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			t.Cleanup(cancel)
			of := claim(func(c *ownership.Claim) { c.Name = name })
			var unknown *ownership.UnknownError
			if _, err := decide(ctx, tenant, of); !errors.As(err, &unknown) || unknown.Cause != ownership.CauseTimeout {
				t.Errorf("%s: error = %v, want %s", name, err, ownership.CauseTimeout)
			}
		}
		<-time.After(10 * time.Second)
		lookups := cloud.lookups.Load()
		if _, err := gate.Decide(t.Context(), tenant, claim(func(c *ownership.Claim) { c.Name = "a request" }), ownership.Options{}); err != nil || cloud.lookups.Load() != lookups {
			t.Errorf("error %v, and the cloud got another lookup", err)
		}
		if _, err := gate.Decide(t.Context(), tenant, claim(func(c *ownership.Claim) { c.Name = "a dry run" }), ownership.Options{}); err != nil || cloud.lookups.Load() != lookups+1 {
			t.Errorf("error %v, and a dry run was cached", err)
		}
	})
}

func TestConcurrentLookupsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4
		cloud := newBlockingCloud()
		gate := newGate(t, most, cloud)
		got := map[string]int{}
		var mu sync.Mutex
		var callers sync.WaitGroup
		for i := range 2 * most { // each of another tenant
			callers.Go(func() {
				_, err := gate.Decide(t.Context(), share.Tenant{Namespace: fmt.Sprint(i)}, numbered(i), ownership.Options{})
				mu.Lock()
				defer mu.Unlock()
				got[fmt.Sprint(err)]++
			})
		}
		synctest.Wait()
		if asking := len(cloud.lookups()); asking != most {
			t.Errorf("%d concurrent lookups, want %d", asking, most)
		}
		cloud.permissions <- struct{}{}
		synctest.Wait()
		if lookups := len(cloud.lookups()); lookups != most+1 {
			t.Errorf("%d lookups after one has ended, want %d", lookups, most+1)
		}
		<-time.After(3 * time.Second)
		close(cloud.permissions)
		callers.Wait()
		want := map[string]int{"<nil>": most + 1, "Busy: wait for the lookups of other tenants: context deadline exceeded": most - 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

func TestUnresponsiveCloud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// It returns a second after its timeout.
		blocked := &fakeCloud{ask: func(ctx context.Context, _ ownership.Claim) (ownership.Answer, error) {
			<-ctx.Done()
			<-time.After(time.Second)
			return ownership.Answer{}, ctx.Err()
		}}
		lively := cloudWith(ownership.Answer{Verdict: ownership.Owned}, nil)
		gate := ownership.NewGate(map[string]ownership.Cloud{cloudName: blocked, "openstack": lively}, nil)
		defer gate.Close()

		begin, rejected := time.Now(), series(t, "warrantgate_ownership_rejected_total")[cloudName]
		var mu sync.Mutex
		got := map[string]int{}
		var callers sync.WaitGroup
		for i := range 6 {
			callers.Go(func() {
				_, err := gate.Decide(t.Context(), tenant, numbered(i), ownership.Options{})
				mu.Lock()
				defer mu.Unlock()
				got[fmt.Sprintf("%s: %v", time.Since(begin), err)]++
			})
			synctest.Wait()
		}
		callers.Go(func() {
			_, err := gate.Decide(t.Context(), tenant, claim(func(c *ownership.Claim) { c.Cloud = "openstack" }), ownership.Options{})
			if err != nil || time.Since(begin) > 0 {
				t.Errorf("the other cloud: %v after %s", err, time.Since(begin))
			}
		})
		callers.Wait()
		want := map[string]int{"0s: TooManyRequests: the tenant already uses its share": 5, "11s: Timeout: context deadline exceeded": 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if lookups := blocked.lookups.Load(); lookups != 1 {
			t.Errorf("the cloud got %d lookups, want 1", lookups)
		}
		if got := series(t, "warrantgate_ownership_rejected_total")[cloudName] - rejected; got != 5 {
			t.Errorf("warrantgate_ownership_rejected_total grew by %v, want 5", got)
		}
	})
}

func TestMetrics(t *testing.T) {
	verdicts := map[string]ownership.Answer{"m": {Verdict: ownership.Owned}, "n": {Verdict: ownership.Foreign}, "o": {Verdict: ownership.Absent}}
	cloud := &fakeCloud{ask: func(_ context.Context, claim ownership.Claim) (ownership.Answer, error) {
		if answer, found := verdicts[claim.User]; found {
			return answer, nil
		}
		return ownership.Answer{}, &ownership.UnknownError{Cause: ownership.CauseRateLimited, Err: errors.New("429")}
	}}
	gate, counted := newGate(t, 1, cloud), newAnswers(t)
	for range 3 {
		for _, name := range []string{"m", "n", "o", "p"} {
			_, _ = gate.Decide(t.Context(), tenant, claim(func(c *ownership.Claim) { c.User = name }), ownership.Options{}) // only counted here
		}
	}
	want := map[string]float64{
		"cloudsigma/cloud/Owned": 1, "cloudsigma/cache/Owned": 2,
		"cloudsigma/cloud/Foreign": 1, "cloudsigma/cache/Foreign": 2,
		"cloudsigma/cloud/Absent": 1, "cloudsigma/cache/Absent": 2,
		"cloudsigma/cloud/RateLimited": 3,
	}
	if diff := cmp.Diff(want, counted()); diff != "" {
		t.Errorf("warrantgate_ownership_answers_total (-want +got):\n%s", diff)
	}
}

func TestSeriesDoNotGrowWithClaims(t *testing.T) {
	gate := newGate(t, 16, cloudWith(ownership.Answer{Verdict: ownership.Owned, UserID: "u"}, nil))
	decide := func(i int) {
		c := numbered(i)
		c.User, c.Region, c.Name, c.MachineUID = fmt.Sprint("user", i), fmt.Sprint("region", i), fmt.Sprint("name", i), fmt.Sprint("uid", i)
		for range 2 {
			if _, err := gate.Decide(t.Context(), tenant, c, ownership.Options{}); err != nil {
				t.Error(err)
			}
		}
	}
	count := func() int {
		return len(series(t, "warrantgate_ownership_answers_total"))
	}
	decide(0)
	before := count()
	for i := range 3000 {
		decide(i)
	}
	if after := count(); after != before {
		t.Errorf("%d series after 3,000 claims, want %d as after the first", after, before)
	}
}

// TestCredentialsThatChange checks that the verdict on the former credentials of a Secret does not count for the next ones: the account of a
// claim names the Secret only.
func TestCredentialsThatChange(t *testing.T) {
	cloud := cloudWith(ownership.Answer{Verdict: ownership.Owned}, nil)
	gate := newGate(t, 1, cloud)
	of := claim(func(c *ownership.Claim) {
		c.Account = ownership.Account{Cloud: cloudName, Identity: ownership.Identity{Namespace: "team-a", Secret: "keys", Entry: "tenant"}}
	})
	for _, want := range []ownership.Verdict{ownership.Owned, ownership.Absent} {
		cloud.ask = func(context.Context, ownership.Claim) (ownership.Answer, error) {
			return ownership.Answer{Verdict: want}, nil
		}
		if got, err := gate.Decide(t.Context(), tenant, of, ownership.Options{}); err != nil || got.Verdict != want {
			t.Errorf("Decide() = %s, %v, want %s", got.Verdict, err, want)
		}
	}
}
