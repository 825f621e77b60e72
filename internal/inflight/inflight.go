// Package inflight remembers writes that were admitted and may not be stored yet.
//
// A webhook judges a write before it is stored. Two writes that are judged at the same time do not see each other: a machine
// claims an instance of user A while the cluster's user changes to B. Each is fine alone, and together they have a machine of
// B hold an instance of A. A Registry lets the first of them pass and makes the second wait: Begin returns a *PendingError
// until the first is stored, or cannot be stored any more.
//
// Whether it is stored is read from the API server. A write replaces one resource version of its object, so it can only be
// stored while the object has this version.
//
// A key that is registered holds up the writes of others. Whoever registers one of another tenant has to have found first that the
// requester may use what it is about.
//
// Of an object that is created, and deleted before anybody looked, it cannot be told whether it is still to be stored. Who
// depends on it waits for Lifetime.
//
// A Registry is the memory of one process. A replica does not know of the writes that another one judges. It sees them once they are
// stored and a watch shows them, which takes milliseconds. No webhook can prevent that; the audit finds what came of it.
package inflight

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Lifetime is how long an admitted write is remembered. An API server stores it within milliseconds, unless another
	// webhook is slow: the default timeout of a webhook is 10 seconds.
	Lifetime = 12 * time.Second
	// maxPerNamespace bounds the writes that are remembered of one namespace, so that a tenant cannot fill the memory.
	maxPerNamespace = 2_000
	// maxPending bounds how many writes are looked up for one.
	maxPending = 16
)

// Key is something that writes depend on, such as the identity of a cluster. It is comparable.
type Key struct {
	// Subject is what it is about, such as "Secret".
	Subject string
	// Namespace and Name are those of the subject, which is in the logical cluster of the write.
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
	// ResourceVersion is the version that the write replaces, "" where it creates the object.
	ResourceVersion string
	// Uses are what the write relies on, Changes what it changes. Two writes exclude each other if one changes what the other
	// uses or changes.
	Uses, Changes []Key
}

// excludes tells whether only one of two writes of different objects may be on its way.
func (w Write) excludes(other Write) bool {
	if w.LogicalCluster != other.LogicalCluster {
		return false
	}
	if w.Object == other.Object { // only one of them can be stored, because both replace one version
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

// PendingError says that another write has to be stored first.
type PendingError struct {
	// Other is the write that may be on its way. It can be another tenant's.
	Other Object
}

// Error implements error.
func (e *PendingError) Error() string {
	return fmt.Sprintf("a write of %s %s/%s may be on its way", e.Other.Resource.Resource, e.Other.Namespace, e.Other.Name)
}

// Registry remembers writes. Its methods may be called at the same time. The zero value is ready to be used.
type Registry struct {
	mu sync.Mutex
	// entries are all that are remembered, by namespace of the object, in its logical cluster.
	entries map[space]map[*Entry]struct{}
	// users are the same, by what they use, and changers by what they change. They are apart because many claims use one cluster,
	// which few writes change.
	users, changers map[scopedKey]map[*Entry]struct{}
}

// Entry is a write that is remembered. Either Admitted or End has to be called.
type Entry struct {
	registry *Registry
	write    Write
	overlaps []Object
	// settled is true once the object was seen in another version than the write replaces, so that it is stored or never will be.
	settled atomic.Bool
}

// Begin remembers a write that is being judged. It has to be called before anything is read that the verdict rests on.
// version returns the resource version that an object has now, "" where there is none; it is called only where another write
// may be on its way. The error is a *PendingError where one is, and any other where that cannot be told.
func (r *Registry) Begin(
	ctx context.Context, write Write, version func(ctx context.Context, object Object) (string, error),
) (*Entry, error) {
	entry, others, err := r.add(write)
	if err != nil {
		return nil, err
	}
	lookups := 0
	for _, other := range others {
		object := other.write.Object
		entry.overlaps = append(entry.overlaps, object)
		if other.settled.Load() {
			continue
		}
		if lookups++; lookups > maxPending {
			entry.End()
			return nil, &PendingError{Other: object}
		}
		now, err := version(ctx, object)
		if err == nil && now == other.write.ResourceVersion {
			err = &PendingError{Other: object}
		}
		if err != nil {
			entry.End()
			return nil, err
		}
		other.settled.Store(true)
	}
	return entry, nil
}

// overlap is an entry and its write at one moment, as Extend may change it.
type overlap struct {
	*Entry
	write Write
}

// add remembers a write and returns those that it excludes.
func (r *Registry) add(write Write) (*Entry, []overlap, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries[write.space()]) >= maxPerNamespace {
		return nil, nil, fmt.Errorf("%d writes of namespace %q are on their way already", maxPerNamespace, write.Namespace)
	}
	entry := &Entry{registry: r, write: write}
	var others []overlap
	for _, key := range write.scoped(write.Uses) {
		others = write.excluded(others, r.changers[key])
	}
	for _, key := range write.scoped(write.Changes) {
		others = write.excluded(write.excluded(others, r.changers[key]), r.users[key])
	}
	r.put(entry)
	return entry, others, nil
}

// excluded appends those of the entries to others that the write excludes, each once.
func (w Write) excluded(others []overlap, entries map[*Entry]struct{}) []overlap {
	for other := range entries {
		if w.excludes(other.write) && !slices.ContainsFunc(others, func(o overlap) bool { return o.Entry == other }) {
			others = append(others, overlap{Entry: other, write: other.write})
		}
	}
	return others
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

// Overlaps returns the objects whose writes came shortly before this one and are stored, or never will be. What a watch
// has shown of them may be older.
func (e *Entry) Overlaps() []Object { return e.overlaps }

// Extend has the write change more keys than Begin knew. The error is that of Begin.
func (e *Entry) Extend(ctx context.Context, changes []Key, version func(context.Context, Object) (string, error)) error {
	write := e.write // which only the caller changes
	write.Changes = slices.Concat(write.Changes, changes)
	extended, err := e.registry.Begin(ctx, write, version)
	if err != nil {
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

// Admitted says that the write is admitted. It is remembered for Lifetime.
func (e *Entry) Admitted() { time.AfterFunc(Lifetime, e.End) }

// End forgets the write, which is not admitted.
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
