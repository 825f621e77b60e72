package owner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/kcp-dev/sdk/apis/tenancy/initialization"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

// bindingsLabel is the label by which system:apibindings selects.
var bindingsLabel, _ = initialization.InitializerToLabel("system:apibindings")

// theCluster is the logical cluster of most tests.
const theCluster = "1dz6n4ubraua7pul"

// unstructuredLogicalCluster returns a LogicalCluster as kcp returns it, with a field that this program does not know.
func unstructuredLogicalCluster(t *testing.T, modify func(*corev1alpha1.LogicalCluster)) *unstructured.Unstructured {
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

func readLogicalCluster(t *testing.T, modify func(*corev1alpha1.LogicalCluster)) *logicalCluster {
	t.Helper()
	lc, err := newLogicalCluster(theCluster, unstructuredLogicalCluster(t, modify))
	if err != nil {
		t.Fatal(err)
	}
	return lc
}

func TestSetOwner(t *testing.T) {
	const before, after = `{"username":"alice"}`, `{"username":"bob","groups":["team"],"extra":{"k":["v"]}}`
	owner := identity.Owner{Username: "bob", Groups: []string{"team"}, Extra: map[string][]string{"k": {"v"}}}
	now := time.Date(2026, 8, 1, 12, 0, 0, 5e8, time.FixedZone("", 2*60*60))
	createdBy := map[string]any{"username": "bob", "groups": []any{"team"}, "extra": map[string]any{"k": []any{"v"}}}
	for name, tc := range map[string]struct {
		modify          func(*corev1alpha1.LogicalCluster)
		wantAnnotations map[string]string
		wantCreatedBy   map[string]any
	}{
		"in the annotation, before v0.32": {
			modify:          func(lc *corev1alpha1.LogicalCluster) { lc.Annotations = map[string]string{kcp.OwnerAnnotation: before} },
			wantAnnotations: map[string]string{kcp.OwnerAnnotation: after, rewrittenAtAnnotation: "2026-08-01T10:00:00.5Z"},
		},
		"in createdBy and the annotation": {
			modify: func(lc *corev1alpha1.LogicalCluster) {
				lc.Annotations = map[string]string{kcp.OwnerAnnotation: before}
				lc.Spec.CreatedBy = &corev1alpha1.OwnerUserInfo{Username: "alice", UID: "1"}
			},
			wantAnnotations: map[string]string{kcp.OwnerAnnotation: after, rewrittenAtAnnotation: "2026-08-01T10:00:00.5Z"},
			wantCreatedBy:   createdBy,
		},
		"in createdBy alone": {
			modify: func(lc *corev1alpha1.LogicalCluster) {
				lc.Spec.CreatedBy = &corev1alpha1.OwnerUserInfo{Username: "alice"}
			},
			wantAnnotations: map[string]string{rewrittenAtAnnotation: "2026-08-01T10:00:00.5Z"},
			wantCreatedBy:   createdBy,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lc := readLogicalCluster(t, tc.modify)
			if got := kcp.RecordedOwner(&lc.typed); got != before && got != `{"username":"alice","uid":"1"}` {
				t.Errorf("RecordedOwner() = %s", got)
			}
			if err := lc.setOwner(owner, now); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantAnnotations, lc.object.GetAnnotations()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			got, _, err := unstructured.NestedMap(lc.object.Object, "spec", "createdBy")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantCreatedBy, got); diff != "" {
				t.Errorf("createdBy (-want +got):\n%s", diff)
			}
			if kept, _, _ := unstructured.NestedString(lc.object.Object, "spec", "ofANewerKCP"); kept != "kept" {
				t.Error("an unknown field was lost")
			}
		})
	}
}

func TestRetriggerRemovesOneLabelAndNoInitializer(t *testing.T) {
	for name, tc := range map[string]struct {
		phase corev1alpha1.LogicalClusterPhaseType
		want  map[string]string
	}{
		"initializing": {corev1alpha1.LogicalClusterPhaseInitializing, map[string]string{"other": "y"}},
		"ready":        {corev1alpha1.LogicalClusterPhaseReady, map[string]string{bindingsLabel: "x", "other": "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			lc := readLogicalCluster(t, func(lc *corev1alpha1.LogicalCluster) {
				lc.Status.Phase, lc.Annotations = tc.phase, map[string]string{rewrittenAtAnnotation: "2026-08-01T10:00:00.5Z", "a": "b"}
			})
			lc.retrigger()
			if diff := cmp.Diff(tc.want, lc.object.GetLabels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"a": "b"}, lc.object.GetAnnotations()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			initializers, _, err := unstructured.NestedStringSlice(lc.object.Object, "status", "initializers")
			if diff := cmp.Diff([]string{"root:org:policies", "system:apibindings"}, initializers); err != nil || diff != "" {
				t.Errorf("initializers (-want +got):\n%s (%v)", diff, err)
			}
		})
	}
}

func TestMayBeRewritten(t *testing.T) {
	for name, tc := range map[string]struct {
		phase        corev1alpha1.LogicalClusterPhaseType
		initializers []corev1alpha1.LogicalClusterInitializer
		want         bool
	}{
		"system:apibindings is pending":            {"Initializing", []corev1alpha1.LogicalClusterInitializer{"a:b", "system:apibindings"}, true},
		"only an initializer of others is pending": {"Initializing", []corev1alpha1.LogicalClusterInitializer{"a:b"}, true},
		"it is Ready":                       {"Ready", nil, true},
		"it is being scheduled":             {"Scheduling", []corev1alpha1.LogicalClusterInitializer{"system:apibindings"}, false},
		"it is being deleted":               {"Terminating", nil, false},
		"it was Ready and is not available": {"Unavailable", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			lc := readLogicalCluster(t, func(lc *corev1alpha1.LogicalCluster) {
				lc.Status.Phase, lc.Status.Initializers = tc.phase, tc.initializers
			})
			if got := lc.mayBeRewritten(); got != tc.want {
				t.Errorf("mayBeRewritten() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRewrittenAt(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		wantAt      time.Time
		wantPending bool
	}{
		"it was not rewritten":                  {},
		"it was rewritten":                      {map[string]string{rewrittenAtAnnotation: "2026-08-01T10:00:00.5Z"}, time.Date(2026, 8, 1, 10, 0, 0, 5e8, time.UTC), true},
		"another client wrote an invalid value": {map[string]string{rewrittenAtAnnotation: "x"}, time.Time{}, true},
		"another client wrote an empty value":   {map[string]string{rewrittenAtAnnotation: ""}, time.Time{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			lc := readLogicalCluster(t, func(lc *corev1alpha1.LogicalCluster) { lc.Annotations = tc.annotations })
			at, pending := lc.rewrittenAt()
			if !at.Equal(tc.wantAt) || pending != tc.wantPending {
				t.Errorf("rewrittenAt() = %v, %t, want %v, %t", at, pending, tc.wantAt, tc.wantPending)
			}
		})
	}
}
