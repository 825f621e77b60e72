package inflight_test

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/inflight"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func object(resource, name string) inflight.Object {
	return inflight.Object{Resource: schema.GroupVersionResource{Resource: resource}, Namespace: "team-a", Name: name}
}

func key(subject, name string) inflight.Key {
	return inflight.Key{Subject: subject, Namespace: "team-a", Name: name}
}

var (
	pool   = key("Cluster", "pool")
	secret = key("Secret", "user")
	// claim is a write of a machine. change is a write of the identity of its cluster.
	claim  = inflight.Write{Object: object("machines", "m1"), ResourceVersion: "5", Uses: []inflight.Key{pool}}
	change = inflight.Write{Object: object("clusters", "pool"), ResourceVersion: "7", Changes: []inflight.Key{pool}, Uses: []inflight.Key{secret}}
)

// at returns the same version for every object.
func at(version string) inflight.VersionFunc {
	return func(context.Context, inflight.Object, types.UID) (string, error) { return version, nil }
}

func failing(err error) inflight.VersionFunc {
	return func(context.Context, inflight.Object, types.UID) (string, error) { return "", err }
}

func unasked(t *testing.T) inflight.VersionFunc {
	t.Helper()
	return func(_ context.Context, o inflight.Object, _ types.UID) (string, error) {
		t.Errorf("%v is looked up", o)
		return "", nil
	}
}

func TestConflictingWrites(t *testing.T) {
	otherClaim, create := claim, inflight.Write{Object: object("machines", "m3"), Uses: []inflight.Key{pool}}
	otherClaim.Object = object("machines", "m2")
	sameObject := change
	sameObject.ResourceVersion = "8"
	elsewhere := change
	elsewhere.LogicalCluster = "abc"
	secretChange := inflight.Write{Object: object("secrets", "user"), ResourceVersion: "9", Changes: []inflight.Key{secret}}
	relabeled := inflight.Write{Object: object("clusters", "other"), ResourceVersion: "1", Changes: []inflight.Key{pool}}
	away := errors.New("the API server is not reachable")

	for name, tc := range map[string]struct {
		first, second inflight.Write
		version       inflight.VersionFunc
		wantErr       error
	}{
		"a change while a claim is pending":                   {first: claim, second: change, version: at("5"), wantErr: &inflight.PendingError{Other: claim.Object}},
		"a claim while a change is pending":                   {first: change, second: claim, version: at("7"), wantErr: &inflight.PendingError{Other: change.Object}},
		"a claim after the change is stored":                  {first: change, second: claim, version: at("8")},
		"a claim after the cluster is deleted":                {first: change, second: claim, version: at("")},
		"a change while the creation of a machine is pending": {first: create, second: change, version: at(""), wantErr: &inflight.PendingError{Other: create.Object}},
		"a change after the machine is created":               {first: create, second: change, version: at("1")},
		"a change while the API server does not respond": {
			first: claim, second: change, version: failing(away), wantErr: away,
		},
		"a change of a Secret while a cluster's reference to it is pending": {first: change, second: secretChange, version: at("7"), wantErr: &inflight.PendingError{Other: change.Object}},
		"two objects that become the same cluster":                          {first: change, second: relabeled, version: at("7"), wantErr: &inflight.PendingError{Other: change.Object}},
		"two claims":                           {first: claim, second: otherClaim},
		"two writes of one object":             {first: change, second: sameObject},
		"a cluster of another logical cluster": {first: elsewhere, second: claim},
		"a Secret that only the cluster uses":  {first: secretChange, second: claim},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.version == nil {
				tc.version = unasked(t)
			}
			var registry inflight.Registry
			first, err := registry.Begin(t.Context(), tc.first, at(""))
			if err != nil {
				t.Fatal(err)
			}
			second, err := registry.Begin(t.Context(), tc.second, tc.version)
			if fmt.Sprint(err) != fmt.Sprint(tc.wantErr) {
				t.Errorf("Begin() error = %v, want %v", err, tc.wantErr)
			}
			if err == nil {
				second.End()
			}
			first.End()
			if _, err := registry.Begin(t.Context(), tc.second, unasked(t)); err != nil {
				t.Errorf("after the end of the first: %v", err)
			}
		})
	}
}

// stored is the version function of an API server with one object.
func stored(object inflight.Object, uid types.UID) inflight.VersionFunc {
	return func(_ context.Context, o inflight.Object, of types.UID) (string, error) {
		if o != object || of != "" && of != uid {
			return "", nil
		}
		return "1", nil
	}
}

// TestCreation begins the creation of a machine, and then a change of its cluster.
func TestCreation(t *testing.T) {
	create := inflight.Write{Object: object("machines", "m1"), UID: "mine", Uses: []inflight.Key{pool}}
	away := errors.New("the API server is not reachable")
	pending := &inflight.PendingError{Other: create.Object}
	for name, tc := range map[string]struct {
		before, after       inflight.VersionFunc
		wantErr, wantChange error
	}{
		"that may not be stored yet":                     {before: at(""), after: at(""), wantChange: pending},
		"that is stored":                                 {before: at(""), after: stored(create.Object, "mine")},
		"that may be stored after another is deleted":    {before: at(""), after: stored(create.Object, "other"), wantChange: pending},
		"whose name is taken":                            {before: stored(create.Object, "other"), after: unasked(t), wantErr: inflight.ErrExists},
		"after which the API server does not respond":    {before: at(""), after: failing(away), wantChange: away},
		"for which the API server does not respond":      {before: failing(away), after: unasked(t), wantErr: away},
		"of another name than the object that is stored": {before: stored(object("machines", "m2"), "other"), after: at(""), wantChange: pending},
		"of another kind than the object that is stored": {before: stored(object("clusters", "m1"), "other"), after: at(""), wantChange: pending},
	} {
		t.Run(name, func(t *testing.T) {
			var registry inflight.Registry
			if _, err := registry.Begin(t.Context(), create, tc.before); !errors.Is(err, tc.wantErr) {
				t.Errorf("Begin() error = %v, want %v", err, tc.wantErr)
			}
			if _, err := registry.Begin(t.Context(), change, tc.after); fmt.Sprint(err) != fmt.Sprint(tc.wantChange) {
				t.Errorf("Begin() of the change: error = %v, want %v", err, tc.wantChange)
			}
		})
	}
}

// TestCreationIsRememberedBeforeItsNameIsRead has a change of the cluster while Begin reads whether the name is taken.
func TestCreationIsRememberedBeforeItsNameIsRead(t *testing.T) {
	var registry inflight.Registry
	create := inflight.Write{Object: object("machines", "m1"), UID: "mine", Uses: []inflight.Key{pool}}
	_, err := registry.Begin(t.Context(), create, func(ctx context.Context, _ inflight.Object, _ types.UID) (string, error) {
		_, err := registry.Begin(ctx, change, at(""))
		if pending := (*inflight.PendingError)(nil); !errors.As(err, &pending) {
			t.Errorf("Begin() of the change: error = %v, want a *PendingError", err)
		}
		return "", nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestExtendOfACreation does not read again whether the name is taken: the creation may be stored meanwhile.
func TestExtendOfACreation(t *testing.T) {
	var registry inflight.Registry
	entry, err := registry.Begin(t.Context(), inflight.Write{Object: object("clusters", "pool"), UID: "mine", Changes: []inflight.Key{secret}}, at(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := entry.Extend(t.Context(), []inflight.Key{pool}, unasked(t)); err != nil {
		t.Error(err)
	}
	if _, err := registry.Begin(t.Context(), claim, stored(object("clusters", "pool"), "other")); err == nil {
		t.Error("a claim is not delayed after Extend")
	}
}

func TestAdmittedWriteIsRememberedForLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry inflight.Registry
		first, err := registry.Begin(t.Context(), claim, unasked(t))
		if err != nil {
			t.Fatal(err)
		}
		first.Admitted()
		if inflight.Lifetime <= 10*time.Second {
			t.Error("a write is forgotten before the default timeout of another webhook")
		}
		time.Sleep(inflight.Lifetime - time.Millisecond) //nolint:forbidigo // the clock of the bubble
		if _, err := registry.Begin(t.Context(), change, at("5")); err == nil {
			t.Error("a change is not delayed")
		}
		second, err := registry.Begin(t.Context(), change, at("6"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]inflight.Object{claim.Object}, second.Overlaps()); diff != "" {
			t.Errorf("overlaps (-want +got):\n%s", diff)
		}
		second.End()
		// A settled write is not looked up again, although the object may be deleted now.
		third, err := registry.Begin(t.Context(), change, unasked(t))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]inflight.Object{claim.Object}, third.Overlaps()); diff != "" {
			t.Errorf("overlaps (-want +got):\n%s", diff)
		}
		third.End()
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // the clock of the bubble
		synctest.Wait()
		if _, err := registry.Begin(t.Context(), change, unasked(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestPendingWriteAmongSettledWrites(t *testing.T) {
	var registry inflight.Registry
	begin := func(name string) {
		write := claim
		write.Object = object("machines", name)
		if _, err := registry.Begin(t.Context(), write, unasked(t)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		begin(fmt.Sprint("settled-", i))
	}
	settling, err := registry.Begin(t.Context(), change, at("6"))
	if err != nil {
		t.Fatal(err)
	}
	settling.End()
	begin("pending")
	for range 10 { // the order is random
		_, err := registry.Begin(t.Context(), change, at("5"))
		if pending := (*inflight.PendingError)(nil); !errors.As(err, &pending) || pending.Other != object("machines", "pending") {
			t.Errorf("error = %v, want a *PendingError for the pending machine", err)
		}
	}
}

func TestExtend(t *testing.T) {
	var registry inflight.Registry
	pending, err := registry.Begin(t.Context(), claim, unasked(t))
	if err != nil {
		t.Fatal(err)
	}
	entry, err := registry.Begin(t.Context(), inflight.Write{Object: object("secrets", "user"), ResourceVersion: "9", Changes: []inflight.Key{secret}}, unasked(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := entry.Extend(t.Context(), []inflight.Key{pool}, at("5")); err == nil {
		t.Error("a cluster with a pending claim is changed")
	}
	if err := entry.Extend(t.Context(), []inflight.Key{pool}, at("6")); err != nil {
		t.Error(err)
	}
	pending.End()
	if _, err := registry.Begin(t.Context(), claim, at("9")); err == nil {
		t.Error("a claim is not delayed by the keys of Extend")
	}
	entry.End()
	if _, err := registry.Begin(t.Context(), claim, unasked(t)); err != nil {
		t.Error(err)
	}
}

func TestWritesOfANamespaceAreLimited(t *testing.T) {
	var registry inflight.Registry
	var err error
	pending := -1 // the last write is not pending
	for ; err == nil && pending < 5_000; pending++ {
		_, err = registry.Begin(t.Context(), inflight.Write{Object: object("machines", fmt.Sprint(pending)), ResourceVersion: "1", Uses: []inflight.Key{pool}}, unasked(t))
	}
	if want := `2000 writes of namespace "team-a" are already pending`; err == nil || err.Error() != want || pending != 2000 {
		t.Errorf("error after %d writes = %v, want %s", pending, err, want)
	}
	other := claim
	other.Namespace = "team-b"
	if _, err := registry.Begin(t.Context(), other, unasked(t)); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	// Begin looks up only some of many pending claims.
	var lookups int
	_, err = registry.Begin(t.Context(), inflight.Write{Object: inflight.Object{Namespace: "team-c"}, ResourceVersion: "1", Changes: []inflight.Key{pool}},
		func(context.Context, inflight.Object, types.UID) (string, error) { lookups++; return "stored", nil })
	if pending := (*inflight.PendingError)(nil); !errors.As(err, &pending) || lookups != 16 {
		t.Errorf("error = %v after %d lookups, want a *PendingError after 16", err, lookups)
	}
}

// TestOneOfTwoConcurrentWritesIsAdmitted checks that exactly one of a concurrent claim and change is admitted.
func TestOneOfTwoConcurrentWritesIsAdmitted(t *testing.T) {
	var registry inflight.Registry
	unchanged := func(_ context.Context, o inflight.Object, _ types.UID) (string, error) {
		if o == claim.Object {
			return claim.ResourceVersion, nil
		}
		return change.ResourceVersion, nil
	}
	for range 2_000 {
		entries := make(chan *inflight.Entry, 2)
		var group sync.WaitGroup
		for _, write := range []inflight.Write{claim, change} {
			group.Go(func() {
				if entry, err := registry.Begin(t.Context(), write, unchanged); err == nil {
					entries <- entry
				}
			})
		}
		group.Wait()
		if len(entries) != 1 {
			t.Fatalf("%d of two writes are admitted, want 1", len(entries))
		}
		(<-entries).End()
	}
}

// TestConcurrentExtend is for the race detector.
func TestConcurrentExtend(t *testing.T) {
	var registry inflight.Registry
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			write := inflight.Write{Object: object("secrets", fmt.Sprint(i)), ResourceVersion: "1", Changes: []inflight.Key{key("Secret", fmt.Sprint(i%5))}}
			entry, err := registry.Begin(t.Context(), write, at("2"))
			if err != nil {
				t.Error(err)
				return
			}
			if err := entry.Extend(t.Context(), []inflight.Key{pool}, at("2")); err != nil {
				t.Error(err)
			}
			entry.End()
		})
	}
	group.Wait()
	if _, err := registry.Begin(t.Context(), change, unasked(t)); err != nil {
		t.Error(err)
	}
}
