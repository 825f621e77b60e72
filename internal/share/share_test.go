package share_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"warrantgate.dev/internal/share"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTenantOf(t *testing.T) {
	for want, got := range map[share.Tenant]share.Tenant{
		{Namespace: "team-a"}:                share.TenantOf("", "team-a"),
		{LogicalCluster: "1dz6n4ubraua7pul"}: share.TenantOf("1dz6n4ubraua7pul", "team-a"),
		{}:                                   share.FromContext(t.Context()),
		{Namespace: "team-b"}:                share.FromContext(share.WithTenant(t.Context(), share.TenantOf("", "team-b"))),
	} {
		if got != want {
			t.Errorf("tenant = %+v, want %+v", got, want)
		}
	}
}

// Each tenant takes units until it is refused.
func TestTenantsUseWhatTheyLeaveFree(t *testing.T) {
	limit := share.New[string](16)
	for _, tc := range []struct {
		tenant string
		want   int
	}{
		{"a", 8}, {"b", 4}, {"c", 2}, {"d", 1}, {"e", 1}, {"f", 0},
	} {
		got := 0
		for {
			if _, taken := limit.Try(tc.tenant, 1); !taken {
				break
			}
			got++
		}
		if got != tc.want {
			t.Errorf("%s got %d units, want %d", tc.tenant, got, tc.want)
		}
	}
	if used := limit.Used(); used != 16 {
		t.Errorf("%d units are used, want 16", used)
	}
}

func TestFirstUnitsOfATenant(t *testing.T) {
	limit := share.New[string](16)
	if _, taken := limit.Try("a", 17); taken {
		t.Error("more than the limit was taken")
	}
	if _, err := limit.Take(t.Context(), "a", 16); err != nil {
		t.Errorf("a tenant that uses nothing did not get all: %v", err)
	}
}

func TestTheSystemMayUseAllThatIsFree(t *testing.T) {
	limit := share.New[share.Tenant](4)
	for range 4 {
		if _, err := limit.Take(t.Context(), share.Tenant{}, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// call is a call that may have to wait.
type call struct {
	err  error
	took time.Duration
}

func TestWaiting(t *testing.T) {
	const until = time.Second // until then, a holds two units and the rest is used by others
	for name, tc := range map[string]struct {
		take    func(*share.Limit[string], context.Context, string, int64) (func(), error)
		tenant  string
		timeout time.Duration
		want    call
	}{
		"a tenant that uses its share":             {(*share.Limit[string]).Take, "a", time.Hour, call{share.ErrExceeded, 0}},
		"a patient tenant that uses its share":     {(*share.Limit[string]).Wait, "a", time.Hour, call{nil, until}},
		"a tenant that uses nothing":               {(*share.Limit[string]).Take, "b", time.Hour, call{nil, until}},
		"a tenant that uses nothing, at its end":   {(*share.Limit[string]).Take, "b", until / 2, call{context.DeadlineExceeded, until / 2}},
		"a patient tenant, at the end":             {(*share.Limit[string]).Wait, "a", until / 2, call{context.DeadlineExceeded, until / 2}},
		"the system":                               {(*share.Limit[string]).Take, "", time.Hour, call{nil, until}},
		"a tenant that uses its share, at its end": {(*share.Limit[string]).Take, "a", 0, call{share.ErrExceeded, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := share.New[string](4)
				var releases []func()
				for _, tenant := range []string{"a", "a", "c", "d"} {
					release, err := limit.Take(t.Context(), tenant, 1)
					if err != nil {
						t.Fatal(err)
					}
					releases = append(releases, release)
				}
				time.AfterFunc(until, func() {
					for _, release := range releases {
						release()
						release() // a second call does nothing
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), tc.timeout)
				defer cancel()
				began := time.Now()
				release, err := tc.take(limit, ctx, tc.tenant, 1)
				if diff := cmp.Diff(tc.want, call{err, time.Since(began)}, cmp.AllowUnexported(call{}), cmp.Comparer(errors.Is)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if err == nil {
					release()
				}
				time.Sleep(2 * until) //nolint:forbidigo // of the bubble
				if used := limit.Used(); used != 0 {
					t.Errorf("%d units are used at the end", used)
				}
			})
		})
	}
}

// TestMany runs many concurrent calls that end or are canceled, for the race detector, and checks that no unit is lost.
func TestMany(t *testing.T) {
	const size = 3
	limit := share.New[string](size)
	var callers sync.WaitGroup
	for i := range 500 {
		callers.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 0 {
				go cancel()
			} else {
				defer cancel()
			}
			release, err := limit.Wait(ctx, fmt.Sprint(i%7), 1)
			if err != nil {
				return
			}
			if used := limit.Used(); used > size {
				t.Errorf("%d units are used", used)
			}
			release()
		})
	}
	callers.Wait()
	if used := limit.Used(); used != 0 {
		t.Errorf("%d units are used at the end", used)
	}
}
