// Package fairqueue shares a number of slots between tenants, so that the backlog of one tenant does not delay another.
//
// A free slot goes to the share that uses the fewest slots, and among those to the one that was served longest ago. A share
// is a logical cluster of kcp or, on Kubernetes, a namespace: whoever controls one of these can act there as any number of
// users, so users do not add shares. Inside a share the slots are divided between its users in the same way.
//
// The fair queues of k8s.io/apiserver were considered. They separate flows by chance (shuffle sharding) and on one level only,
// and they depend on the client of etcd.
package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// Tenant is on whose behalf work is done. It is comparable.
type Tenant struct {
	// LogicalCluster is where the objects are on kcp, "" on Kubernetes.
	LogicalCluster string
	// Namespace is the namespace of the object, "" for objects without one.
	Namespace string
	// User is the name of the requesting user.
	User string
}

// share returns the tenant's share, which has no user.
func (t Tenant) share() Tenant {
	if t.LogicalCluster != "" {
		return Tenant{LogicalCluster: t.LogicalCluster}
	}
	return Tenant{Namespace: t.Namespace}
}

var (
	// ErrTenant means that the tenant's own share has too many waiting.
	ErrTenant = errors.New("too many of this tenant are waiting")
	// ErrAll means that all tenants together have too many waiting, and this one no more than others.
	ErrAll = errors.New("too many of all tenants are waiting")
)

// Limits bound a Queue.
type Limits struct {
	// Slots is how many callers hold a slot at the same time at most.
	Slots int
	// WaitingPerShare and Waiting are how many wait at the same time at most, of one share and of all.
	WaitingPerShare, Waiting int
}

// Queue hands out slots. Use New.
type Queue struct {
	limits Limits

	mu   sync.Mutex
	turn uint64 // counts what gets a slot or joins
	root *node
}

// node is the root, a share below it, or a user of that share, who has the waiters.
type node struct {
	running, waiting int
	// served is the turn in which it got a slot last, or joined.
	served   uint64
	children map[Tenant]*node
	waiters  []*waiter
}

// waiter waits for a slot. What it gets is told once through got: nil for a slot.
type waiter struct{ got chan error }

// New returns a queue.
func New(limits Limits) *Queue {
	return &Queue{limits: limits, root: &node{children: map[Tenant]*node{}}}
}

// Acquire waits until the tenant has a slot. The caller gives it back with release. The error is ErrTenant, ErrAll, or that
// of ctx.
func (q *Queue) Acquire(ctx context.Context, tenant Tenant) (release func(), err error) {
	w := &waiter{got: make(chan error, 1)}
	q.mu.Lock()
	p := q.join(tenant)
	switch {
	case q.root.running < q.limits.Slots:
		q.start(p)
		w.got <- nil
	default:
		if err = q.makeRoom(p); err == nil {
			p.wait(+1)
			p.user.waiters = append(p.user.waiters, w)
		} else {
			q.leave(p)
		}
	}
	q.mu.Unlock()
	if err != nil {
		return nil, err
	}

	select {
	case err = <-w.got:
	case <-ctx.Done():
		err = q.giveUp(ctx, p, w)
	}
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { q.release(p) }), nil
}

// Waiting returns how many wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.root.waiting
}

// path is the way from the root to the user of a share.
type path struct {
	tenant            Tenant
	root, share, user *node
}

func (p path) nodes() []*node { return []*node{p.root, p.share, p.user} }

func (p path) wait(change int) {
	for _, n := range p.nodes() {
		n.waiting += change
	}
}

func (p path) run(change int) {
	for _, n := range p.nodes() {
		n.running += change
	}
}

// join returns the path of a tenant, with new nodes where there are none.
func (q *Queue) join(tenant Tenant) path {
	share := q.child(q.root, tenant.share())
	return path{tenant: tenant, root: q.root, share: share, user: q.child(share, tenant)}
}

func (q *Queue) child(parent *node, key Tenant) *node {
	n, found := parent.children[key]
	if !found {
		q.turn++
		n = &node{served: q.turn, children: map[Tenant]*node{}}
		parent.children[key] = n
	}
	return n
}

// leave removes the nodes of a path that nobody uses.
func (q *Queue) leave(p path) {
	if p.user.idle() {
		delete(p.share.children, p.tenant)
	}
	if p.share.idle() {
		delete(q.root.children, p.tenant.share())
	}
}

func (n *node) idle() bool { return n.running == 0 && n.waiting == 0 }

// start gives a path a slot.
func (q *Queue) start(p path) {
	q.turn++
	p.run(+1)
	p.share.served, p.user.served = q.turn, q.turn
}

// makeRoom sees to it that one more of the path may wait. Where too many do, the newest waiter of the longest queue is
// rejected, which may be the one that is to be added.
func (q *Queue) makeRoom(p path) error {
	if p.share.waiting >= q.limits.WaitingPerShare {
		tenant, user := p.share.longest()
		if user.waiting <= p.user.waiting+1 {
			return ErrTenant
		}
		q.reject(path{tenant: tenant, root: q.root, share: p.share, user: user})
		return nil
	}
	if q.root.waiting < q.limits.Waiting {
		return nil
	}
	_, share := q.root.longest()
	switch {
	case share.waiting <= 1: // everybody waits for one thing only
		return ErrAll
	case share.waiting <= p.share.waiting+1:
		return ErrTenant
	}
	tenant, user := share.longest()
	q.reject(path{tenant: tenant, root: q.root, share: share, user: user})
	return nil
}

// reject tells the newest waiter of a path that it gets no slot.
func (q *Queue) reject(p path) {
	last := len(p.user.waiters) - 1
	p.user.waiters[last].got <- ErrTenant
	p.user.waiters = slices.Delete(p.user.waiters, last, last+1)
	p.wait(-1)
	q.leave(p)
}

// longest returns the child that most wait in.
func (n *node) longest() (Tenant, *node) {
	return n.best(func(a, b *node) int {
		return cmp.Or(cmp.Compare(b.waiting, a.waiting), cmp.Compare(b.served, a.served))
	})
}

// next returns the child whose turn it is among those in which somebody waits.
func (n *node) next() (Tenant, *node) {
	return n.best(func(a, b *node) int {
		return cmp.Or(cmp.Compare(min(b.waiting, 1), min(a.waiting, 1)), cmp.Compare(a.running, b.running), cmp.Compare(a.served, b.served))
	})
}

// best returns the least child by an order.
func (n *node) best(order func(a, b *node) int) (best Tenant, child *node) {
	for key, candidate := range n.children {
		if child == nil || order(candidate, child) < 0 {
			best, child = key, candidate
		}
	}
	return best, child
}

// release takes a slot back and gives it to whose turn it is.
func (q *Queue) release(p path) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.run(-1)
	q.leave(p)
	if q.root.waiting == 0 {
		return
	}
	_, share := q.root.next()
	tenant, user := share.next()
	next := path{tenant: tenant, root: q.root, share: share, user: user}
	w := user.waiters[0]
	user.waiters = user.waiters[1:]
	next.wait(-1)
	q.start(next)
	w.got <- nil
}

// giveUp takes a waiter whose context has ended out of the queue. If it got a slot at the same time, it has it.
func (q *Queue) giveUp(ctx context.Context, p path, w *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(p.user.waiters, w)
	if at < 0 {
		return <-w.got
	}
	p.user.waiters = slices.Delete(p.user.waiters, at, at+1)
	p.wait(-1)
	q.leave(p)
	return ctx.Err()
}
