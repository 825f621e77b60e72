package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"warrantgate.dev/internal/fairqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a queue, and the names of served callers in order.
type world struct {
	*fairqueue.Queue
	t       *testing.T
	callers sync.WaitGroup

	mu     sync.Mutex
	served []string
	failed map[string]error
	// holding contains the release functions of the callers that hold a slot, in the same order.
	holding []func()
}

func newWorld(t *testing.T, limits fairqueue.Limits) *world {
	t.Helper()
	return &world{Queue: fairqueue.New(limits), t: t, failed: map[string]error{}}
}

// send starts n Acquire calls of a tenant, one after the other, so that their order is known.
func (w *world) send(tenant fairqueue.Tenant, name string, n int) {
	w.t.Helper()
	for i := range n {
		w.callers.Go(func() {
			release, err := w.Acquire(w.t.Context(), tenant)
			w.mu.Lock()
			defer w.mu.Unlock()
			if err != nil {
				w.failed[fmt.Sprint(name, i)] = err
				return
			}
			w.served = append(w.served, name)
			w.holding = append(w.holding, release)
		})
		synctest.Wait()
	}
}

// finish releases the n oldest slots.
func (w *world) finish(n int) {
	w.t.Helper()
	for range n {
		w.mu.Lock()
		if len(w.holding) == 0 {
			w.mu.Unlock()
			w.t.Fatal("no caller holds a slot")
		}
		release := w.holding[0]
		w.holding = w.holding[1:]
		w.mu.Unlock()
		release()
		synctest.Wait()
	}
}

// end releases all slots until no caller waits.
func (w *world) end() {
	w.t.Helper()
	for {
		w.mu.Lock()
		left := len(w.holding)
		w.mu.Unlock()
		if left == 0 {
			break
		}
		w.finish(1)
	}
	w.callers.Wait()
	if waiting := w.Waiting(); waiting != 0 {
		w.t.Errorf("%d wait at the end", waiting)
	}
}

// order returns the served callers, in order.
func (w *world) order() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.served, "")
}

var (
	a = fairqueue.Tenant{Namespace: "a", User: "alice"}
	b = fairqueue.Tenant{Namespace: "b", User: "bob"}
	c = fairqueue.Tenant{Namespace: "c", User: "carol"}
	// roomy limits reject no caller.
	roomy = fairqueue.Limits{Slots: 2, WaitingPerShare: 100, Waiting: 1000}
)

func TestOrderOfService(t *testing.T) {
	for name, tc := range map[string]struct {
		send func(w *world)
		want string
	}{
		"a single tenant uses all slots": {
			send: func(w *world) { w.send(a, "a", 4) },
			want: "aaaa",
		},
		"a later tenant alternates with a waiting tenant": {
			send: func(w *world) { w.send(a, "a", 6); w.send(b, "b", 3) },
			want: "aabababaa",
		},
		"three tenants alternate": {
			send: func(w *world) { w.send(a, "a", 5); w.send(b, "b", 2); w.send(c, "c", 2) },
			want: "aabacbaca",
		},
		"one user in two namespaces is two tenants": {
			send: func(w *world) {
				w.send(fairqueue.Tenant{Namespace: "a", User: "provider"}, "a", 4)
				w.send(fairqueue.Tenant{Namespace: "b", User: "provider"}, "b", 1)
			},
			want: "aabaa",
		},
		"users do not add to the share of their namespace": {
			send: func(w *world) {
				for i := range 6 {
					w.send(fairqueue.Tenant{Namespace: "a", User: fmt.Sprint("user", i)}, "a", 1)
				}
				w.send(b, "b", 2)
			},
			want: "aababaaa",
		},
		"namespaces do not add to the share of their logical cluster": {
			send: func(w *world) {
				for i := range 6 {
					w.send(fairqueue.Tenant{LogicalCluster: "one", Namespace: fmt.Sprint("n", i), User: "alice"}, "a", 1)
				}
				w.send(fairqueue.Tenant{LogicalCluster: "two", Namespace: "n0", User: "alice"}, "b", 2)
			},
			want: "aababaaa",
		},
		"a namespace and a logical cluster of the same name are two tenants": {
			send: func(w *world) {
				w.send(fairqueue.Tenant{Namespace: "x"}, "a", 4)
				w.send(fairqueue.Tenant{LogicalCluster: "x"}, "b", 1)
			},
			want: "aabaa",
		},
		"users of one namespace alternate": {
			send: func(w *world) {
				w.send(fairqueue.Tenant{Namespace: "a", User: "editor"}, "e", 6)
				w.send(fairqueue.Tenant{Namespace: "a", User: "provider"}, "p", 2)
			},
			want: "eepepeee",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, roomy)
				tc.send(w)
				w.end()
				if got := w.order(); got != tc.want {
					t.Errorf("served %s, want %s", got, tc.want)
				}
				if len(w.failed) > 0 {
					t.Errorf("not served: %v", w.failed)
				}
			})
		})
	}
}

func TestSlotGoesToTheShareWithFewestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fairqueue.Limits{Slots: 4, WaitingPerShare: 100, Waiting: 1000})
		w.send(a, "a", 8)
		w.send(b, "b", 8)
		w.finish(2) // the calls of a are slow: b gets each released slot until both have two
		if got := w.order(); got != "aaaabb" {
			t.Errorf("served %s, want aaaabb", got)
		}
		w.end()
	})
}

func TestAShareLeavesSlotsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fairqueue.Limits{Slots: 4, SlotsPerShare: 3, WaitingPerShare: 100, Waiting: 1000})
		w.send(a, "a", 3)
		w.send(fairqueue.Tenant{Namespace: "a", User: "provider"}, "p", 1) // another user does not get the slot that is left
		w.send(b, "b", 2)                                                  // the second waits, although the share has one slot only
		if got := w.order(); got != "aaab" || w.Waiting() != 2 {
			t.Errorf("served %s, and %d wait; want aaab, and 2", got, w.Waiting())
		}
		w.finish(1) // of a: b has fewer slots
		w.finish(1) // of a: only p waits
		if got := w.order(); got != "aaabbp" || w.Waiting() != 0 {
			t.Errorf("served %s, and %d wait; want aaabbp, and 0", got, w.Waiting())
		}
		w.send(c, "c", 1)
		w.send(a, "a", 4)
		w.end()
		if got := w.order(); got != "aaabbpcaaaa" {
			t.Errorf("served %s, want aaabbpcaaaa", got)
		}
		if len(w.failed) > 0 {
			t.Errorf("not served: %v", w.failed)
		}
	})
}

// A slot that a share releases is not given to another share that has all it may have, and is not lost.
func TestASlotIsFreeWhileItsWaitersHaveAllTheyMayHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fairqueue.Limits{Slots: 2, SlotsPerShare: 1, WaitingPerShare: 100, Waiting: 1000})
		w.send(b, "b", 1)
		w.send(a, "a", 3)
		w.finish(1) // of b
		if got := w.order(); got != "ba" || w.Waiting() != 2 {
			t.Errorf("served %s, and %d wait; want ba, and 2", got, w.Waiting())
		}
		w.send(b, "b", 1)
		w.end()
		if got := w.order(); got != "babaa" {
			t.Errorf("served %s, want babaa", got)
		}
	})
}

func TestQueueOfATenantIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fairqueue.Limits{Slots: 2, WaitingPerShare: 3, Waiting: 6})
		w.send(a, "a", 7) // 2 have a slot, 3 wait
		want := map[string]error{"a5": fairqueue.ErrTenant, "a6": fairqueue.ErrTenant}
		if diff := cmp.Diff(want, w.failed, cmp.Comparer(errors.Is)); diff != "" {
			t.Errorf("a, after too many calls (-want +got):\n%s", diff)
		}
		// The waiter of another user of the namespace replaces the newest waiter of the longest queue.
		w.send(fairqueue.Tenant{Namespace: "a", User: "provider"}, "p", 2)
		want["a4"], want["p1"] = fairqueue.ErrTenant, fairqueue.ErrTenant
		if diff := cmp.Diff(want, w.failed, cmp.Comparer(errors.Is)); diff != "" {
			t.Errorf("another user (-want +got):\n%s", diff)
		}
		w.send(b, "b", 3)
		if w.Waiting() != 6 {
			t.Fatalf("%d wait, want 6", w.Waiting())
		}
		// The queue is full: a new waiter replaces one of the longest queue, until all queues have the same length.
		w.send(c, "c", 3)
		if w.Waiting() != 6 {
			t.Errorf("%d wait, want 6", w.Waiting())
		}
		got := map[byte]int{}
		for name, err := range w.failed {
			if !errors.Is(err, fairqueue.ErrTenant) {
				t.Errorf("%s: %v", name, err)
			}
			got[name[0]]++
		}
		if diff := cmp.Diff(map[byte]int{'a': 4, 'p': 1, 'b': 1, 'c': 1}, got); diff != "" {
			t.Errorf("rejected (-want +got):\n%s", diff)
		}
		w.end()
		w.failed = map[string]error{}
		w.send(a, "a", 5)
		if len(w.failed) > 0 {
			t.Errorf("a, with an empty queue: %v", w.failed)
		}
		w.end()
	})
}

func TestErrAllIfEachShareHasOneWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fairqueue.Limits{Slots: 1, WaitingPerShare: 2, Waiting: 2})
		w.send(a, "a", 1)
		w.send(b, "b", 1)
		w.send(c, "c", 1)
		w.send(fairqueue.Tenant{Namespace: "d"}, "d", 1)
		if diff := cmp.Diff(map[string]error{"d0": fairqueue.ErrAll}, w.failed, cmp.Comparer(errors.Is)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.end()
	})
}

func TestCanceledCallerIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, fairqueue.Limits{Slots: 1, WaitingPerShare: 1, Waiting: 1})
		w.send(a, "a", 1)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := w.Acquire(ctx, b)
			left <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want %v", err, context.Canceled)
		}
		w.send(c, "c", 1) // the canceled caller has left the queue
		w.end()
		if got := w.order(); got != "ac" {
			t.Errorf("served %s, want ac", got)
		}
	})
}

// TestMany runs many concurrent calls that end or are canceled, for the race detector, and checks that no slot is lost.
func TestMany(t *testing.T) {
	const slots = 3
	q := fairqueue.New(fairqueue.Limits{Slots: slots, SlotsPerShare: slots - 1, WaitingPerShare: 4, Waiting: 8})
	var callers sync.WaitGroup
	var mu sync.Mutex
	running, most, served := 0, 0, 0
	for i := range 500 {
		callers.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 0 {
				go cancel()
			} else {
				defer cancel()
			}
			release, err := q.Acquire(ctx, fairqueue.Tenant{Namespace: fmt.Sprint(i % 7), User: fmt.Sprint(i % 2)})
			if err != nil {
				return
			}
			mu.Lock()
			running, served = running+1, served+1
			most = max(most, running)
			mu.Unlock()
			mu.Lock()
			running--
			mu.Unlock()
			release()
			release() // a second call does nothing
		})
	}
	callers.Wait()
	if q.Waiting() != 0 || most > slots || served == 0 {
		t.Errorf("%d wait at the end, %d held a slot at once, %d were served", q.Waiting(), most, served)
	}
	for i := range slots { // all slots are free
		if _, err := q.Acquire(t.Context(), fairqueue.Tenant{Namespace: fmt.Sprint(i)}); err != nil {
			t.Error(err)
		}
	}
}
