// Package fairqueue divides a number of slots among tenants, so that the backlog of one tenant does not delay others.
//
// A free slot goes to the share with the fewest slots in use, and among these to the share that was served longest ago. A share is
// a logical cluster of kcp, or a namespace on Kubernetes. A user who controls a logical cluster or a namespace can act there under
// any number of user names, so more users do not get more slots. Within a share, the queue divides the slots among the users in the
// same way. Limits can leave slots for other shares.
//
// The fair queues of k8s.io/apiserver were considered. They separate flows only with a probability (shuffle sharding) and on one
// level, and they depend on the etcd client.
package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// Tenant identifies the tenant that work is done for. It is comparable.
type Tenant struct {
	// LogicalCluster is the logical cluster of the objects on kcp, "" on Kubernetes.
	LogicalCluster string
	// Namespace is the namespace of the object, "" for cluster-scoped objects.
	Namespace string
	// User is the name of the requesting user.
	User string
}

// Share returns the tenant's share, which is the tenant without the user: the logical cluster, on Kubernetes the namespace.
func (t Tenant) Share() Tenant {
	if t.LogicalCluster != "" {
		return Tenant{LogicalCluster: t.LogicalCluster}
	}
	return Tenant{Namespace: t.Namespace}
}

type tenantKey struct{}

// WithTenant returns a context for work that is done for a tenant.
func WithTenant(ctx context.Context, tenant Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf returns the tenant that the work of ctx is done for. It is the zero Tenant for work that no request caused.
func TenantOf(ctx context.Context) Tenant {
	tenant, _ := ctx.Value(tenantKey{}).(Tenant)
	return tenant
}

var (
	// ErrTenant means that the tenant's share has too many waiting callers.
	ErrTenant = errors.New("too many of this tenant are waiting")
	// ErrAll means that all tenants together have too many waiting callers, and this tenant has no more than others.
	ErrAll = errors.New("too many of all tenants are waiting")
)

// Limits are the limits of a Queue.
type Limits struct {
	// Slots is the maximum number of callers that hold a slot at the same time.
	Slots int
	// SlotsPerShare is the maximum for one share. If it is less than Slots, another share gets a slot at once, even if the callers of the
	// first hold theirs for long. Default: Slots.
	SlotsPerShare int
	// WaitingPerShare and Waiting are the maximum numbers of waiting callers, per share and in total.
	WaitingPerShare, Waiting int
}

// Queue grants slots. Create it with New.
type Queue struct {
	limits Limits

	mu   sync.Mutex
	turn uint64 // increases whenever a caller gets a slot or joins
	root *node
}

// node is the root, a share, or a user of a share. Only users have waiters.
type node struct {
	running, waiting int
	// served is the turn of the last slot, or of joining.
	served   uint64
	children map[Tenant]*node
	waiters  []*waiter
}

// waiter waits for a slot. got receives one value: nil for a slot, or an error.
type waiter struct{ got chan error }

// New returns a queue.
func New(limits Limits) *Queue {
	limits.SlotsPerShare = cmp.Or(limits.SlotsPerShare, limits.Slots)
	return &Queue{limits: limits, root: &node{children: map[Tenant]*node{}}}
}

// Acquire waits until the tenant gets a slot. The caller has to call release. The error is ErrTenant, ErrAll, or that of ctx.
func (q *Queue) Acquire(ctx context.Context, tenant Tenant) (release func(), err error) {
	w := &waiter{got: make(chan error, 1)}
	q.mu.Lock()
	p := q.join(tenant)
	switch {
	case q.root.running < q.limits.Slots && p.share.running < q.limits.SlotsPerShare:
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

// Waiting returns the number of waiting callers.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.root.waiting
}

// path is the path from the root to the user of a share.
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

// join returns the path of a tenant. It creates missing nodes.
func (q *Queue) join(tenant Tenant) path {
	share := q.child(q.root, tenant.Share())
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

// leave removes the idle nodes of a path.
func (q *Queue) leave(p path) {
	if p.user.idle() {
		delete(p.share.children, p.tenant)
	}
	if p.share.idle() {
		delete(q.root.children, p.tenant.Share())
	}
}

func (n *node) idle() bool { return n.running == 0 && n.waiting == 0 }

// start gives the path a slot.
func (q *Queue) start(p path) {
	q.turn++
	p.run(+1)
	p.share.served, p.user.served = q.turn, q.turn
}

// makeRoom makes room for one more waiter of the path. If too many wait, it rejects the newest waiter of the longest queue, or
// returns an error if the longest queue is that of the path.
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
	case share.waiting <= 1: // every share has at most one waiter
		return ErrAll
	case share.waiting <= p.share.waiting+1:
		return ErrTenant
	}
	tenant, user := share.longest()
	q.reject(path{tenant: tenant, root: q.root, share: share, user: user})
	return nil
}

// reject sends ErrTenant to the newest waiter of a path.
func (q *Queue) reject(p path) {
	last := len(p.user.waiters) - 1
	p.user.waiters[last].got <- ErrTenant
	p.user.waiters = slices.Delete(p.user.waiters, last, last+1)
	p.wait(-1)
	q.leave(p)
}

// longest returns the child with the most waiters.
func (n *node) longest() (Tenant, *node) {
	return n.best(func(a, b *node) int {
		return cmp.Or(cmp.Compare(b.waiting, a.waiting), cmp.Compare(b.served, a.served))
	})
}

// next returns the child that gets the next slot, among those with waiters.
func (n *node) next() (Tenant, *node) {
	return n.best(func(a, b *node) int {
		return cmp.Or(cmp.Compare(min(b.waiting, 1), min(a.waiting, 1)), cmp.Compare(a.running, b.running), cmp.Compare(a.served, b.served))
	})
}

// best returns the first child in an order.
func (n *node) best(order func(a, b *node) int) (best Tenant, child *node) {
	for key, candidate := range n.children {
		if child == nil || order(candidate, child) < 0 {
			best, child = key, candidate
		}
	}
	return best, child
}

// release returns a slot and gives it to the next waiter whose share may have one more.
func (q *Queue) release(p path) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.run(-1)
	q.leave(p)
	if q.root.waiting == 0 {
		return
	}
	_, share := q.root.next()
	if share.running >= q.limits.SlotsPerShare { // so has each share with waiters
		return
	}
	tenant, user := share.next()
	next := path{tenant: tenant, root: q.root, share: share, user: user}
	w := user.waiters[0]
	user.waiters = user.waiters[1:]
	next.wait(-1)
	q.start(next)
	w.got <- nil
}

// giveUp removes a waiter whose context has ended. If the waiter got a slot at the same time, it keeps the slot.
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
