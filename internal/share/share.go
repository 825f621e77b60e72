// Package share limits how much of a resource each tenant uses at the same time, so that one tenant cannot exhaust it for others.
//
// A tenant may use as much as it leaves free to others: half of the resource if it is the only one, half of the rest if it is the second.
// A tenant that uses nothing may use whatever is free. The more tenants try to exhaust a resource, the less each of them gets.
package share

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Tenant is a logical cluster of kcp, or a namespace on Kubernetes. A user who controls one of them can act there under any number of user
// names, so users are not distinguished. The zero Tenant is warrantgate itself, for work that no request caused.
type Tenant struct {
	// LogicalCluster is the logical cluster on kcp, "" on Kubernetes.
	LogicalCluster string
	// Namespace is the namespace on Kubernetes, "" on kcp and for cluster-scoped objects.
	Namespace string
}

// TenantOf returns the tenant of an object. Its logical cluster is "" on Kubernetes. On kcp, the owner of a logical cluster can create any
// number of namespaces, so they are not distinguished.
func TenantOf(logicalCluster, namespace string) Tenant {
	if logicalCluster != "" {
		return Tenant{LogicalCluster: logicalCluster}
	}
	return Tenant{Namespace: namespace}
}

type tenantKey struct{}

// WithTenant returns a context for work that is done for a tenant.
func WithTenant(ctx context.Context, tenant Tenant) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// FromContext returns the tenant that the work of ctx is done for. It is the zero Tenant for work that no request caused.
func FromContext(ctx context.Context) Tenant {
	tenant, _ := ctx.Value(tenantKey{}).(Tenant)
	return tenant
}

// ErrExceeded means that a tenant already uses its share. Gates answer 429.
var ErrExceeded = errors.New("the tenant already uses its share")

// Limit is a limit of one resource, in units such as requests or bytes. T identifies a tenant. The zero value of T is not a tenant: it
// may use all that is free. Create a Limit with New.
type Limit[T comparable] struct {
	size int64

	mu      sync.Mutex
	used    int64
	by      map[T]int64
	waiters []*waiter[T] // in the order in which they came
}

// waiter waits for n units of a tenant. got is closed when it has them.
type waiter[T comparable] struct {
	tenant T
	n      int64
	got    chan struct{}
}

// New returns a limit of a resource with so many units.
func New[T comparable](size int64) *Limit[T] {
	return &Limit[T]{size: size, by: map[T]int64{}}
}

// Take takes n units for a tenant, which the caller has to release. The error is ErrExceeded, at once, if the tenant would then use more than
// its share. A tenant that uses nothing waits until enough is free, or returns the error of ctx.
func (l *Limit[T]) Take(ctx context.Context, tenant T, n int64) (release func(), err error) {
	return l.take(ctx, tenant, n, false)
}

// Wait is Take that waits, too, until the tenant itself uses less.
func (l *Limit[T]) Wait(ctx context.Context, tenant T, n int64) (release func(), err error) {
	return l.take(ctx, tenant, n, true)
}

// Try takes n units for a tenant, if it may use them now.
func (l *Limit[T]) Try(tenant T, n int64) (release func(), taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if taken, _ = l.try(tenant, n); !taken {
		return nil, false
	}
	return l.releaser(tenant, n), true
}

// Used returns the number of used units.
func (l *Limit[T]) Used() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

func (l *Limit[T]) take(ctx context.Context, tenant T, n int64, patient bool) (release func(), err error) {
	w := &waiter[T]{tenant: tenant, n: n, got: make(chan struct{})}
	l.mu.Lock()
	taken, exceeded := l.try(tenant, n)
	if !taken && (patient || !exceeded) {
		l.waiters = append(l.waiters, w)
	}
	l.mu.Unlock()
	switch {
	case taken:
		return l.releaser(tenant, n), nil
	case exceeded && !patient:
		return nil, ErrExceeded
	}
	select {
	case <-w.got:
	case <-ctx.Done():
		if l.leave(w) {
			return nil, ctx.Err()
		}
	}
	return l.releaser(tenant, n), nil
}

// try takes n units if the tenant may use them now. Otherwise exceeded reports whether the reason is what the tenant itself uses.
func (l *Limit[T]) try(tenant T, n int64) (taken, exceeded bool) {
	var system T
	free, of := l.size-l.used, l.by[tenant]
	if tenant != system && of > 0 && of+n > free {
		return false, true
	}
	if n > free {
		return false, false
	}
	l.add(tenant, n)
	return true, false
}

// leave removes a waiter whose context has ended. It returns false if the waiter got its units at the same time.
func (l *Limit[T]) leave(w *waiter[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiters, w)
	if i < 0 {
		return false
	}
	l.waiters = slices.Delete(l.waiters, i, i+1)
	return true
}

// releaser returns the function that releases n units, and serves the waiters that may have them.
func (l *Limit[T]) releaser(tenant T, n int64) func() {
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.add(tenant, -n)
		l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter[T]) bool {
			taken, _ := l.try(w.tenant, w.n)
			if taken {
				close(w.got)
			}
			return taken
		})
	})
}

func (l *Limit[T]) add(tenant T, n int64) {
	l.used += n
	if l.by[tenant] += n; l.by[tenant] == 0 {
		delete(l.by, tenant)
	}
}
