package owner

import (
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"warrantgate.dev/internal/kcp"
)

// bindingsLabel is the one by which kcp selects what waits for its API bindings.
var bindingsLabel, _ = initialization.InitializerToLabel("system:apibindings")

// logicalCluster returns a LogicalCluster as kcp would answer it, with a field that this program does not know.
func logicalCluster(t *testing.T, modify func(*corev1alpha1.LogicalCluster)) *unstructured.Unstructured {
	t.Helper()
	lc := &corev1alpha1.LogicalCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster", Labels: map[string]string{bindingsLabel: "x", "other": "y"}},
		Status: corev1alpha1.LogicalClusterStatus{
			Phase:        corev1alpha1.LogicalClusterPhaseInitializing,
			Initializers: []corev1alpha1.LogicalClusterInitializer{"root:org:policies", "system:apibindings"},
		},
	}
	modify(lc)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(lc)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: content}
	if err := unstructured.SetNestedField(object.Object, "kept", "spec", "ofANewerKCP"); err != nil {
		t.Fatal(err)
	}
	return object
}

func examined(t *testing.T, modify func(*corev1alpha1.LogicalCluster)) patient {
	t.Helper()
	p, err := examine("1dz6n4ubraua7pul", logicalCluster(t, modify))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheOwnerIsWrittenWhereKCPHasItRecorded(t *testing.T) {
	const before, after = `{"username":"alice"}`, `{"username":"bob","groups":["team"],"extra":{"k":["v"]}}`
	createdBy := map[string]any{"username": "bob", "groups": []any{"team"}, "extra": map[string]any{"k": []any{"v"}}}
	for name, tc := range map[string]struct {
		modify          func(*corev1alpha1.LogicalCluster)
		wantAnnotations map[string]string
		wantCreatedBy   map[string]any
	}{
		"in the annotation, before v0.32": {
			modify:          func(lc *corev1alpha1.LogicalCluster) { lc.Annotations = map[string]string{kcp.OwnerAnnotation: before} },
			wantAnnotations: map[string]string{kcp.OwnerAnnotation: after, healingAnnotation: "owner-rewritten"},
		},
		"in createdBy and the annotation": {
			modify: func(lc *corev1alpha1.LogicalCluster) {
				lc.Annotations = map[string]string{kcp.OwnerAnnotation: before}
				lc.Spec.CreatedBy = &corev1alpha1.OwnerUserInfo{Username: "alice", UID: "1"}
			},
			wantAnnotations: map[string]string{kcp.OwnerAnnotation: after, healingAnnotation: "owner-rewritten"},
			wantCreatedBy:   createdBy,
		},
		"in createdBy alone": {
			modify: func(lc *corev1alpha1.LogicalCluster) {
				lc.Spec.CreatedBy = &corev1alpha1.OwnerUserInfo{Username: "alice"}
			},
			wantAnnotations: map[string]string{healingAnnotation: "owner-rewritten"},
			wantCreatedBy:   createdBy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := examined(t, tc.modify)
			if got := kcp.RecordedOwner(&p.typed); got != before && got != `{"username":"alice","uid":"1"}` {
				t.Errorf("RecordedOwner() = %s", got)
			}
			if err := p.setOwner(after); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantAnnotations, p.object.GetAnnotations()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			got, _, err := unstructured.NestedMap(p.object.Object, "spec", "createdBy")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantCreatedBy, got); diff != "" {
				t.Errorf("createdBy (-want +got):\n%s", diff)
			}
			if kept, _, _ := unstructured.NestedString(p.object.Object, "spec", "ofANewerKCP"); kept != "kept" {
				t.Error("a field that is not known was lost")
			}
		})
	}
}

func TestRetryTakesAwayOneLabelAndNoInitializer(t *testing.T) {
	for name, tc := range map[string]struct {
		phase corev1alpha1.LogicalClusterPhaseType
		want  map[string]string
	}{
		"initializing": {corev1alpha1.LogicalClusterPhaseInitializing, map[string]string{"other": "y"}},
		"ready":        {corev1alpha1.LogicalClusterPhaseReady, map[string]string{bindingsLabel: "x", "other": "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := examined(t, func(lc *corev1alpha1.LogicalCluster) {
				lc.Status.Phase, lc.Annotations = tc.phase, map[string]string{healingAnnotation: "owner-rewritten", "a": "b"}
			})
			p.retry()
			if diff := cmp.Diff(tc.want, p.object.GetLabels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"a": "b"}, p.object.GetAnnotations()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			initializers, _, err := unstructured.NestedStringSlice(p.object.Object, "status", "initializers")
			if diff := cmp.Diff([]string{"root:org:policies", "system:apibindings"}, initializers); err != nil || diff != "" {
				t.Errorf("initializers (-want +got):\n%s (%v)", diff, err)
			}
		})
	}
}

func TestWhoseTurnItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		phase        corev1alpha1.LogicalClusterPhaseType
		initializers []corev1alpha1.LogicalClusterInitializer
		want         bool
	}{
		"the bindings are waited for":               {"Initializing", []corev1alpha1.LogicalClusterInitializer{"a:b", "system:apibindings"}, true},
		"only somebody else's initializer is":       {"Initializing", []corev1alpha1.LogicalClusterInitializer{"a:b"}, false},
		"it is Ready":                               {"Ready", nil, true},
		"it is being scheduled":                     {"Scheduling", []corev1alpha1.LogicalClusterInitializer{"system:apibindings"}, false},
		"it is on its way out":                      {"Terminating", nil, false},
		"it is not available, which was Ready once": {"Unavailable", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := examined(t, func(lc *corev1alpha1.LogicalCluster) {
				lc.Status.Phase, lc.Status.Initializers = tc.phase, tc.initializers
			})
			if got := p.treatable(); got != tc.want {
				t.Errorf("treatable() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		path, subtree string
		want          bool
	}{
		{"root:orgs:a", "", true},
		{"root:orgs:a", "root:orgs", true},
		{"root:orgs", "root:orgs", true},
		{"root:orgs2:a", "root:orgs", false},
		{"root", "root:orgs", false},
	} {
		if got := within(tc.path, tc.subtree); got != tc.want {
			t.Errorf("within(%q, %q) = %t, want %t", tc.path, tc.subtree, got, tc.want)
		}
	}
}

// A pass over many takes long, and healing each of them a while: the metric is right from the beginning, and meanwhile.
func TestWhatHangsIsCountedWhileItIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hanging atomic.Int64
		hanging.Store(3)
		end := count(t.Context(), func() iter.Seq2[*tenancyv1alpha1.Workspace, error] {
			return func(yield func(*tenancyv1alpha1.Workspace, error) bool) {
				if !yield(nil, errors.New("a shard does not answer")) {
					return
				}
				for range hanging.Load() {
					if !yield(&tenancyv1alpha1.Workspace{}, nil) {
						return
					}
				}
			}
		})
		if got := counted(t); got != 3 {
			t.Errorf("at first %v hang, want 3", got)
		}
		hanging.Store(1)
		<-time.After(countInterval)
		synctest.Wait()
		if got := counted(t); got != 1 {
			t.Errorf("then %v hang, want 1", got)
		}
		end()
		hanging.Store(2)
		<-time.After(2 * countInterval)
		if got := counted(t); got != 1 {
			t.Errorf("after the end %v hang, want 1 still", got)
		}
	})
}

// counted is how many hang by the metric.
func counted(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatalf("gather metrics: %v", err)
	}
	for _, family := range families {
		if family.GetName() == "warrantgate_stuck_workspaces" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no metric of what hangs")
	return 0
}
