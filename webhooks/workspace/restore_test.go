package workspace_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/webhookstest"
)

// backedUp are the annotations of a stored Workspace whose owner was rewritten.
func backedUp(more ...string) map[string]any {
	return annotations(append([]string{
		ownerKey, rawAdmin, groupsKey, "team-a", "kcp.io/path", "root:old", "example.com/team", "red",
		clusterKey, newCluster, "core.kcp.io/shard", "old", "internal.tenancy.kcp.io/shard", "3vyb0vdt",
		createdBy, "1dz6n4ubraua7pul:default:bot", "warrantgate.dev/rewritten-by", "policy", "repaired.warrantgate.dev/at", "2026-01-01T00:00:00Z",
	}, more...)...)
}

// ofSpec is a Workspace with annotations and fields of spec.
func ofSpec(annotations any, spec map[string]any) *unstructured.Unstructured {
	made := object(annotations)
	made.Object["spec"] = spec
	return made
}

func TestRestorePolicy(t *testing.T) {
	m := newMutator(t)
	placed := map[string]any{"cluster": newCluster, "URL": "https://kcp/clusters/root:old:child", "type": map[string]any{"name": "universal"}}
	ofType := map[string]any{"type": map[string]any{"name": "universal"}}
	for name, tc := range map[string]struct {
		by                 user.Info
		old, written, want *unstructured.Unstructured // want nil: as it was written
	}{
		"a backup without what kcp and warrantgate set; the owner is kcp's to overwrite": {
			by: alice, written: ofSpec(backedUp(), placed),
			want: ofSpec(annotations(ownerKey, rawAdmin, groupsKey, "team-a", "kcp.io/path", "root:old", "example.com/team", "red"), ofType),
		},
		"by a user without groups":                {by: noGroups, written: ofSpec(annotations(clusterKey, "x"), placed), want: ofSpec(annotations(), ofType)},
		"one without annotations":                 {by: alice, written: ofSpec(nil, placed), want: ofSpec(nil, ofType)},
		"one without a spec":                      {by: alice, written: ofSpec(annotations(createdBy, ""), nil), want: ofSpec(annotations(), nil)},
		"a new Workspace":                         {by: alice, written: ofSpec(annotations(ownerKey, rawUser), ofType)},
		"a forgery of another annotation":         {by: alice, written: object(annotations("warrantgate.dev/anything", ""))},
		"a canary of the integrity policy":        {by: alice, written: object(annotations("warrantgate.dev/canary", "true"))},
		"a backup that the system creates":        {by: apiServer, written: ofSpec(backedUp(), placed)},
		"one with as many annotations as allowed": {by: alice, written: object(many(256, createdBy, "x")), want: object(many(255))},
		"one with more, which is denied":          {by: alice, written: ofSpec(many(257, createdBy, "x"), placed)},

		"an update that leaves all out":    {by: alice, old: object(backedUp()), written: object(nil), want: object(guardedOf(backedUp()))},
		"an update with null":              {by: alice, old: object(backedUp()), written: object(map[string]any(nil)), want: object(guardedOf(backedUp()))},
		"an update with no annotations":    {by: alice, old: object(backedUp()), written: object(map[string]any{}), want: object(guardedOf(backedUp()))},
		"an update that leaves some out":   {by: alice, old: object(backedUp()), written: object(annotations(ownerKey, rawAdmin)), want: object(with(annotations(), guardedOf(backedUp())))},
		"an update that changes the owner": {by: alice, old: object(backedUp()), written: object(backedUp(ownerKey, rawUser))},
		"an update that changes the owner and leaves others out": {
			by: alice, old: object(backedUp()), written: object(annotations(ownerKey, rawUser)), want: object(with(annotations(), guardedOf(backedUp(ownerKey, rawUser)))),
		},
		"an update of another annotation": {by: alice, old: object(backedUp()), written: object(backedUp("example.com/team", "blue"))},
		"an update by the system":         {by: apiServer, old: object(backedUp()), written: object(nil)},
		"an update of many":               {by: alice, old: object(many(257, ownerKey, rawUser)), written: object(nil)},
		"an update to many":               {by: alice, old: object(annotations(ownerKey, rawUser)), written: object(many(257))},
		"keys with characters that JSON pointers escape": {
			by: alice, old: object(annotations("warrantgate.dev/a~1b/c", "x", `warrantgate.dev/'"\`, "y")), written: object(annotations()),
			want: object(annotations("warrantgate.dev/a~1b/c", "x", `warrantgate.dev/'"\`, "y")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			if want == nil {
				want = tc.written.DeepCopy()
			}
			if err := m.write(t, tc.old, tc.written, tc.by); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(encode(t, want)), string(encode(t, tc.written))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// guardedOf are the annotations that an update cannot leave out.
func guardedOf(annotations map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range annotations {
		if slices.Contains([]string{ownerKey, clusterKey, groupsKey, "core.kcp.io/shard", "internal.tenancy.kcp.io/shard"}, key) || strings.HasPrefix(key, "warrantgate.dev/") {
			kept[key] = value
		}
	}
	return kept
}

func with(one, other map[string]any) map[string]any {
	maps.Copy(one, other)
	return one
}

func TestDenialNoticeReportsWhatIsNotRestored(t *testing.T) {
	const message = `workspace "child" with core.kcp.io/shard, internal.tenancy.kcp.io/cluster, internal.tenancy.kcp.io/shard, repaired.warrantgate.dev/at, ` +
		`spec.URL, spec.cluster, warrantgate.dev/created-by, warrantgate.dev/rewritten-by: only kcp and warrantgate set them, so they are not stored. ` +
		`The workspace gets a logical cluster of its own, and its creator as owner`
	placed := map[string]any{"cluster": newCluster, "URL": "https://kcp/clusters/root:old:child"}
	long := ofSpec(nil, placed)
	long.SetName("")
	long.SetGenerateName(strings.Repeat("x", 1000))
	for name, tc := range map[string]struct {
		by        user.Info
		mode      v1beta1.Mode
		written   *unstructured.Unstructured
		want      string // "": nothing is reported
		wantEvent string
	}{
		"a backup":                      {by: alice, written: ofSpec(backedUp(), placed), want: message, wantEvent: `User "alice" sent ` + message},
		"by the system":                 {by: apiServer, written: ofSpec(backedUp(), placed)},
		"a new Workspace":               {by: alice, written: object(annotations(ownerKey, rawUser))},
		"one that is denied":            {by: alice, written: ofSpec(backedUp("warrantgate.dev/anything", ""), placed)},
		"one with too many annotations": {by: alice, written: ofSpec(many(257), placed)},
		"a name of any length": {
			by: &user.DefaultInfo{Name: strings.Repeat("y", 1000)}, written: long,
			want: strings.Repeat("x", 30), wantEvent: `User "` + strings.Repeat("y", 60),
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newDenialNotice(v1beta1.Enforce).Review(t.Context(), request(t, nil, tc.written, tc.by))
			if len(answer.Patches) > 0 {
				t.Errorf("the webhook changes it: %v", answer.Patches)
			}
			if tc.want == "" {
				if answer.Decision != webhooks.Allowed || len(answer.Events) > 0 {
					t.Errorf("answer %+v, want allowed without an Event", answer)
				}
				return
			}
			if answer.Decision != webhooks.Warned || answer.Reason != "NotRestored" || !strings.Contains(answer.Message, tc.want) || len(answer.Message) > 600 {
				t.Errorf("answer %+v, want a warning %q", answer, tc.want)
			}
			if len(answer.Events) != 1 || !strings.HasPrefix(answer.Events[0].Message, tc.wantEvent) || len(answer.Events[0].Message) > 800 {
				t.Fatalf("Events %+v, want one that begins with %q", answer.Events, tc.wantEvent)
			}
			want := events.Event{
				Cluster: "parent", Object: corev1.ObjectReference{APIVersion: "core.kcp.io/v1alpha1", Kind: "LogicalCluster", Name: "cluster"},
				Type: corev1.EventTypeWarning, Reason: "NotRestored", Message: answer.Events[0].Message, By: tc.by.GetName(),
			}
			if tc.written.GetAnnotations() == nil {
				want.Cluster = "" // kcp sets it
			}
			if diff := cmp.Diff(want, answer.Events[0]); diff != "" {
				t.Errorf("Event (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestorePolicyAgreesWithTheOthers: for every write, the policy changes a Workspace as DenialNotice does or reports, and the policy of owner
// integrity admits what it has made of a write that changes no guarded annotation. No expression fails to evaluate.
func TestRestorePolicyAgreesWithTheOthers(t *testing.T) {
	count := 20_000
	if testing.Short() {
		count = 1_000
	}
	m, integrity := newMutator(t), newIntegrityPolicy(t)
	counts := webhookstest.Tally(t, count, func(seed uint64, count int) iter.Seq[string] {
		return func(yield func(string) bool) {
			r := rand.New(rand.NewPCG(31, seed))
			for range count {
				if !yield(m.checkWrite(t, r, integrity)) {
					return
				}
			}
		}
	})
	t.Logf("writes: %v", counts)
	for _, outcome := range []string{"removed", "put back", "denied", "unchanged"} {
		if counts[outcome] < count/20 {
			t.Errorf("%d writes were %s, want at least %d: the generator has to be corrected", counts[outcome], outcome, count/20)
		}
	}
}

// checkWrite compares the policy with the gates for a random write, and returns its outcome.
func (m *mutator) checkWrite(t *testing.T, r *rand.Rand, integrity validating.Validator) string {
	t.Helper()
	by := []user.Info{alice, alice, alice, noGroups, apiServer}[r.IntN(5)]
	written := ofSpec(someAnnotations(r), someSpec(r))
	var old *unstructured.Unstructured
	operation := admission.Create
	if r.IntN(3) > 0 {
		operation, old = admission.Update, object(someAnnotations(r))
		if r.IntN(2) > 0 { // most updates keep most annotations
			changed := old.GetAnnotations()
			maps.DeleteFunc(changed, func(string, string) bool { return r.IntN(4) == 0 })
			written.SetAnnotations(changed)
		}
	}
	sent := written.DeepCopy()
	matches := m.denial.GetCompiledMatcher(m.compiler).Match(t.Context(), versioned(sent, oldOf(old), operation, by), nil, nil)
	if err := m.write(t, old, written, by); err != nil || matches.Error != nil {
		t.Errorf("%v, %v: %v by %s", err, matches.Error, sent.Object, by.GetName())
	}
	notice := newDenialNotice(v1beta1.Enforce).Review(t.Context(), request(t, old, sent, by))
	stored := written.DeepCopy()
	if len(stored.GetAnnotations()) == 0 { // kcp decodes null as no annotations
		unstructured.RemoveNestedField(stored.Object, "metadata", "annotations")
	}
	verdict := denial(t, integrity, versioned(stored, oldOf(old), operation, by))
	denied := verdict != ""
	changed := !bytes.Equal(encode(t, sent), encode(t, written))
	switch {
	case old == nil && !denied:
		want := sent.DeepCopy()
		if notice.Decision == webhooks.Warned {
			list, _, _ := strings.Cut(strings.TrimPrefix(notice.Message, `workspace "child" with `), ": ")
			for _, field := range strings.Split(list, ", ") {
				if name, ok := strings.CutPrefix(field, "spec."); ok {
					unstructured.RemoveNestedField(want.Object, "spec", name)
				} else {
					unstructured.RemoveNestedField(want.Object, "metadata", "annotations", field)
				}
			}
		}
		if diff := cmp.Diff(string(encode(t, want)), string(encode(t, written))); diff != "" || changed != (notice.Decision == webhooks.Warned) {
			t.Errorf("removed by the policy and not as reported %q (-reported +policy):\n%s", notice.Message, diff)
		}
	case old == nil && notice.Decision != webhooks.Allowed:
		t.Errorf("a creation that is denied is reported as changed: %s, %v", verdict, sent.Object)
	case old != nil:
		if diff := cmp.Diff(string(encode(t, apply(t, sent, notice))), string(encode(t, written))); diff != "" {
			t.Errorf("put back by the webhook and by the policy (-webhook +policy):\n%s", diff)
		}
		if denied != (notice.Reason == events.OwnerChangeDenied) {
			t.Errorf("denied %t (%s), but reported as %s", denied, verdict, notice.Reason)
		}
	}
	// What is put back can make too many annotations. Then the update is denied, and the notice is not called.
	const most = 256
	exceeded := len(sent.GetAnnotations()) <= most && len(written.GetAnnotations()) > most
	if reported := len(notice.Events) > 0; reported != matches.Matches && (reported || !denied) && !exceeded {
		t.Errorf("the notice is called %t, but reports %t: %v by %s", matches.Matches, reported, sent.Object, by.GetName())
	}
	switch {
	case denied:
		return "denied"
	case changed && old == nil:
		return "removed"
	case changed:
		return "put back"
	}
	return "unchanged"
}

// oldOf is the stored object, nil if there is none.
func oldOf(old *unstructured.Unstructured) runtime.Object {
	if old == nil {
		return nil
	}
	return old
}

func someAnnotations(r *rand.Rand) any {
	if r.IntN(10) == 0 {
		return []any{nil, map[string]any(nil), map[string]any{}}[r.IntN(3)]
	}
	made := map[string]any{}
	for range r.IntN(5) {
		made[pick(r, ownerKey, groupsKey, clusterKey, "core.kcp.io/shard", "internal.tenancy.kcp.io/shard", createdBy, "warrantgate.dev/rewritten-by",
			"repaired.warrantgate.dev/at", "kcp.io/cluster", "kcp.io/path", "example.com/team")] = pick(r, "a", "a", "a", "b", "", rawUser)
	}
	switch r.IntN(20) {
	case 0:
		made[pick(r, "warrantgate.dev/x", "warrantgate.dev/a~1b/c", `warrantgate.dev/'"`, "warrantgate.dev/", "warrantgate.dev", "")] = "a"
	case 1:
		for i := range pickInt(r, 250, 256, 257) {
			made[fmt.Sprint(i)] = ""
		}
	}
	return made
}

func someSpec(r *rand.Rand) map[string]any {
	spec := map[string]any{"type": map[string]any{"name": "universal"}}
	if r.IntN(4) == 0 {
		spec["cluster"] = pick(r, newCluster, "")
	}
	if r.IntN(4) == 0 {
		spec["URL"] = "https://kcp"
	}
	return spec
}
