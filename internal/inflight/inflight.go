// Package inflight remembers admitted writes that may not be stored yet.
//
// A webhook decides before the API server stores a write. Two requests at the same time do not see each other. Example: one machine
// claims an instance of user A, while the cluster's user changes to B. Each write alone is valid, but together they give a machine
// of B an instance of A. A Registry admits the first write and delays the second: Begin returns a *PendingError until the first is
// stored, or can no longer be stored.
//
// Begin reads from the API server whether a write is stored. A write replaces one resource version of its object, so it can be
// stored only while the object has this version. An API server calls webhooks for a creation before it finds that the name is taken. The
// object of that name can be deleted while another webhook delays the creation, which is then stored. So a creation is stored only once the
// object has its UID. Begin rejects a creation whose name is taken, because it would delay other writes for Lifetime.
//
// A key delays the writes of others. Before a caller uses a key of another tenant's object, it must have checked that the requester
// may use that object.
//
// If an object is created and deleted between two reads, Begin cannot determine whether it is still to be stored. Writes that depend on it
// wait for Lifetime.
//
// A Registry belongs to one process. A replica does not know the writes that another replica admits, until they are stored and a
// watch delivers them, which takes milliseconds. A webhook cannot prevent that; the audit finds the result.
package inflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Lifetime is the time that an admitted write is remembered. An API server stores it within milliseconds, unless another webhook
	// is slow: the default timeout of a webhook is 10 seconds.
	Lifetime = 12 * time.Second
	// maxPerNamespace limits the remembered writes of one namespace, so that a tenant cannot exhaust the memory.
	maxPerNamespace = 2_000
	// maxPending limits how many other writes Begin looks up.
	maxPending = 16
)

// Key identifies state that writes depend on, such as the identity of a cluster. It is comparable.
type Key struct {
	// Subject is the kind of the state, such as "Secret".
	Subject string
	// Namespace and Name are those of the object with the state, in the logical cluster of the write.
	Namespace, Name string
}

// scopedKey is a key in a logical cluster.
type scopedKey struct {
	logicalCluster string
	Key
}

// Object is an object of an API server. It is comparable.
type Object struct {
	// LogicalCluster is the logical cluster of kcp, "" on Kubernetes.
	LogicalCluster  string
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// Write is one write of an object.
type Write struct {
	Object
	// ResourceVersion is the version that the write replaces, "" for the creation of the object.
	ResourceVersion string
	// UID is that of the object that is created, "" for other writes. The API server chooses it before it calls validating webhooks.
	UID types.UID
	// Uses are the keys that the write depends on, Changes the keys that it changes. Two writes conflict if one changes a key that
	// the other uses or changes.
	Uses, Changes []Key
}

// excludes reports whether two writes of different objects conflict.
func (w Write) excludes(other Write) bool {
	if w.LogicalCluster != other.LogicalCluster {
		return false
	}
	if w.Object == other.Object { // only one of them is stored at a time, because both replace the same version or create the object
		return false
	}
	among := func(keys []Key) func(Key) bool { return func(key Key) bool { return slices.Contains(keys, key) } }
	return slices.ContainsFunc(w.Changes, among(other.Changes)) || slices.ContainsFunc(w.Changes, among(other.Uses)) ||
		slices.ContainsFunc(w.Uses, among(other.Changes))
}

// space is a namespace in a logical cluster.
type space struct{ logicalCluster, namespace string }

func (o Object) space() space { return space{o.LogicalCluster, o.Namespace} }

func (w Write) scoped(keys []Key) []scopedKey {
	scoped := make([]scopedKey, 0, len(keys))
	for _, key := range keys {
		scoped = append(scoped, scopedKey{w.LogicalCluster, key})
	}
	return scoped
}

// VersionFunc returns the current resource version of an object, "" if the object does not exist. If uid is not "", an object with another
// UID counts as one that does not exist.
type VersionFunc func(ctx context.Context, object Object, uid types.UID) (string, error)

// ErrExists means that an object cannot be created, because its name is taken.
var ErrExists = errors.New("an object of this name exists")

// PendingError means that another write must be stored first.
type PendingError struct {
	// Other is the object of the pending write. It can belong to another tenant.
	Other Object
}

// Error implements error.
func (e *PendingError) Error() string {
	return fmt.Sprintf("a write of %s %s/%s may not be stored yet", e.Other.Resource.Resource, e.Other.Namespace, e.Other.Name)
}

// Registry remembers writes. It is safe for concurrent use. The zero value is ready for use.
type Registry struct {
	mu sync.Mutex
	// entries contains all remembered writes, by logical cluster and namespace of the object.
	entries map[space]map[*Entry]struct{}
	// users and changers contain the same writes, by the keys that they use and change. The two maps are separate because many
	// claims use one cluster, and few writes change it.
	users, changers map[scopedKey]map[*Entry]struct{}
}

// Entry is a remembered write. The caller has to call either Admitted or End.
type Entry struct {
	registry *Registry
	write    Write
	overlaps []Object
	// settled is true once a read returned another version than the write replaces. The write is then stored, or can no longer be
	// stored.
	settled atomic.Bool
}

// Begin remembers a write during its review. Call it before all reads that the decision depends on. It calls version for pending writes
// and for the object of a creation. The error is ErrExists if the object of a creation exists, a *PendingError if a conflicting write is
// pending, and any other error if Begin cannot find out.
func (r *Registry) Begin(ctx context.Context, write Write, version VersionFunc) (*Entry, error) {
	entry, others, err := r.add(write)
	if err != nil {
		return nil, err
	}
	if err = write.checkName(ctx, version); err == nil {
		err = entry.settle(ctx, others, version)
	}
	if err != nil {
		entry.End()
		return nil, err
	}
	return entry, nil
}

// checkName returns ErrExists if the write is a creation and its name is taken.
func (w Write) checkName(ctx context.Context, version VersionFunc) error {
	if w.ResourceVersion != "" {
		return nil
	}
	now, err := version(ctx, w.Object, "")
	if err == nil && now != "" {
		return ErrExists
	}
	return err
}

// settle checks that conflicting writes are stored, or can no longer be stored.
func (e *Entry) settle(ctx context.Context, others []overlap, version VersionFunc) error {
	lookups := 0
	for _, other := range others {
		object := other.write.Object
		e.overlaps = append(e.overlaps, object)
		if other.settled.Load() {
			continue
		}
		if lookups++; lookups > maxPending {
			return &PendingError{Other: object}
		}
		now, err := version(ctx, object, other.write.UID)
		if err != nil {
			return err
		}
		if now == other.write.ResourceVersion {
			return &PendingError{Other: object}
		}
		other.settled.Store(true)
	}
	return nil
}

// overlap is an entry and its write at one point in time, because Extend may change the write.
type overlap struct {
	*Entry
	write Write
}

// add remembers a write and returns the conflicting writes.
func (r *Registry) add(write Write) (*Entry, []overlap, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries[write.space()]) >= maxPerNamespace {
		return nil, nil, fmt.Errorf("%d writes of namespace %q are already pending", maxPerNamespace, write.Namespace)
	}
	entry := &Entry{registry: r, write: write}
	var others []overlap
	seen := map[*Entry]bool{}
	exclude := func(entries map[*Entry]struct{}) {
		for other := range entries {
			if !seen[other] && write.excludes(other.write) {
				others = append(others, overlap{Entry: other, write: other.write})
			}
			seen[other] = true
		}
	}
	for _, key := range write.scoped(write.Uses) {
		exclude(r.changers[key])
	}
	for _, key := range write.scoped(write.Changes) {
		exclude(r.changers[key])
		exclude(r.users[key])
	}
	r.put(entry)
	return entry, others, nil
}

func (r *Registry) put(entry *Entry) {
	if r.entries == nil {
		r.entries = map[space]map[*Entry]struct{}{}
		r.users, r.changers = map[scopedKey]map[*Entry]struct{}{}, map[scopedKey]map[*Entry]struct{}{}
	}
	insert(r.entries, entry.write.space(), entry)
	for _, key := range entry.write.scoped(entry.write.Uses) {
		insert(r.users, key, entry)
	}
	for _, key := range entry.write.scoped(entry.write.Changes) {
		insert(r.changers, key, entry)
	}
}

func insert[K comparable](sets map[K]map[*Entry]struct{}, key K, entry *Entry) {
	if sets[key] == nil {
		sets[key] = map[*Entry]struct{}{}
	}
	sets[key][entry] = struct{}{}
}

func remove[K comparable](sets map[K]map[*Entry]struct{}, key K, entry *Entry) {
	delete(sets[key], entry)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}

// Overlaps returns the objects of conflicting writes that came shortly before this one and are settled. A watch may still show an
// older version of them.
func (e *Entry) Overlaps() []Object { return e.overlaps }

// Extend adds keys to the changes of the write. The errors are those of Begin, without ErrExists.
func (e *Entry) Extend(ctx context.Context, changes []Key, version VersionFunc) error {
	write := e.write // only the caller changes it
	write.Changes = slices.Concat(write.Changes, changes)
	extended, others, err := e.registry.add(write)
	if err != nil {
		return err
	}
	if err := extended.settle(ctx, others, version); err != nil {
		extended.End()
		return err
	}
	e.End()
	e.overlaps = append(e.overlaps, extended.overlaps...)
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	e.write = extended.write
	e.registry.put(e)
	extended.forget()
	return nil
}

// Admitted means that the gate admits the write. The registry remembers it for Lifetime.
func (e *Entry) Admitted() { time.AfterFunc(Lifetime, e.End) }

// End means that the gate does not admit the write. The registry forgets it.
func (e *Entry) End() {
	e.registry.mu.Lock()
	defer e.registry.mu.Unlock()
	e.forget()
}

func (e *Entry) forget() {
	remove(e.registry.entries, e.write.space(), e)
	for _, key := range e.write.scoped(e.write.Uses) {
		remove(e.registry.users, key, e)
	}
	for _, key := range e.write.scoped(e.write.Changes) {
		remove(e.registry.changers, key, e)
	}
}
