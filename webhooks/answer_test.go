package webhooks_test

import (
	"encoding/json"
	"testing"

	applypatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

func TestEventsOfAnswers(t *testing.T) {
	self := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "team-a", Name: "credentials", UID: "s1"}
	parent := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "team-a", Name: "pods", UID: "r1"}
	stored := webhooks.Subject{Name: `Secret "credentials"`, Cluster: "root", Object: self, Exists: true, Parent: parent}
	created := webhooks.Subject{Name: `Secret "credentials"`, Cluster: "root", Object: self, Parent: parent}
	unnamed := created
	unnamed.Object.UID = ""
	orphan := created
	orphan.Parent = corev1.ObjectReference{}
	on := func(object corev1.ObjectReference, eventType, reason, message string) []events.Event {
		return []events.Event{{Cluster: "root", Object: object, Type: eventType, Reason: reason, Message: message}}
	}
	const (
		denied = `Denied: Secret "credentials": it is broken`
		warned = `Admitted with a warning: Secret "credentials": it is broken`
	)
	changed := []webhooks.Notice{{Type: corev1.EventTypeNormal, Reason: "Given", Message: "Changed"}}
	unchanged := []webhooks.Notice{{Type: corev1.EventTypeWarning, Reason: "NotGiven", Message: "Not changed"}}

	for name, tc := range map[string]struct {
		answer               webhooks.Answer
		want, wantInModeWarn []events.Event
	}{
		"an allowed request": {answer: webhooks.Answer{Decision: webhooks.Allowed, Reason: "Broken", Message: "it is broken", Subject: stored}},
		"a denied request": {
			answer:         webhooks.Answer{Decision: webhooks.Denied, Reason: "Broken", Message: "it is broken", Subject: stored},
			want:           on(self, "Warning", "Broken", denied),
			wantInModeWarn: on(self, "Warning", "Broken", warned),
		},
		"an undecided request": {
			answer:         webhooks.Answer{Decision: webhooks.Undecided, Reason: "Broken", Message: "it is broken", Subject: stored},
			want:           on(self, "Warning", "Broken", denied),
			wantInModeWarn: on(self, "Warning", "Broken", warned),
		},
		"a request with a warning": {
			answer:         webhooks.Answer{Decision: webhooks.Warned, Reason: "Broken", Message: "it is broken", Subject: stored},
			want:           on(self, "Warning", "Broken", warned),
			wantInModeWarn: on(self, "Warning", "Broken", warned),
		},
		"an unknown decision": {
			answer:         webhooks.Answer{Decision: "perhaps", Reason: "Broken", Message: "it is broken", Subject: stored},
			want:           on(self, "Warning", "Broken", denied),
			wantInModeWarn: on(self, "Warning", "Broken", warned),
		},
		"an Event contains only the stable part of the message": {
			answer: webhooks.Answer{
				Decision: webhooks.Denied, Reason: "Broken", Message: "it is broken; request id r1", Lasting: "it is broken", Subject: stored,
			},
			want:           on(self, "Warning", "Broken", denied),
			wantInModeWarn: on(self, "Warning", "Broken", warned),
		},
		"notices, in place of the default": {
			answer:         webhooks.Answer{Decision: webhooks.Denied, Reason: "Broken", Message: "it is broken", Subject: stored, Notices: changed},
			want:           on(self, "Normal", "Given", "Changed"),
			wantInModeWarn: on(self, "Normal", "Given", "Changed"),
		},
		"notices about a change, which the mode Warn does not make": {
			answer:         webhooks.Answer{Decision: webhooks.Allowed, Reason: "Given", Subject: stored, Notices: changed, NoticesUnchanged: unchanged},
			want:           on(self, "Normal", "Given", "Changed"),
			wantInModeWarn: on(self, "Warning", "NotGiven", "Not changed"),
		},
		"a new object, which is created only in the mode Warn": {
			answer:         webhooks.Answer{Decision: webhooks.Denied, Reason: "Broken", Message: "it is broken", Subject: created},
			want:           on(parent, "Warning", "Broken", denied),
			wantInModeWarn: on(self, "Warning", "Broken", warned),
		},
		"a new object that is created with a warning": {
			answer:         webhooks.Answer{Decision: webhooks.Warned, Reason: "Broken", Message: "it is broken", Subject: created},
			want:           on(self, "Warning", "Broken", warned),
			wantInModeWarn: on(self, "Warning", "Broken", warned),
		},
		"a new object without a UID, as in mutating admission": {
			answer:         webhooks.Answer{Decision: webhooks.Warned, Reason: "Broken", Message: "it is broken", Subject: unnamed},
			want:           on(parent, "Warning", "Broken", warned),
			wantInModeWarn: on(parent, "Warning", "Broken", warned),
		},
		"a new object without an owner": {
			answer:         webhooks.Answer{Decision: webhooks.Denied, Reason: "Broken", Message: "it is broken", Subject: orphan},
			wantInModeWarn: on(self, "Warning", "Broken", warned),
		},
		"no object": {answer: webhooks.Answer{Decision: webhooks.Denied, Reason: "Undecodable", Message: "not JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.answer.Events(v1beta1.Enforce)); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantInModeWarn, tc.answer.Events(v1beta1.Warn)); diff != "" {
				t.Errorf("Events in mode Warn (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSubjectOfAnObject(t *testing.T) {
	self := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "team-a", Name: "credentials", UID: "s1"}
	first := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "first", UID: "c1"}
	controller := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "pods", UID: "r1", Controller: ptr.To(true)}
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   corev1.ObjectReference // empty: none
	}{
		"without owners": {},
		"with a controller, which is not the first": {
			owners: []metav1.OwnerReference{first, controller},
			want:   corev1.ObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "team-a", Name: "pods", UID: "r1"},
		},
		"with owners of which none controls it": {
			owners: []metav1.OwnerReference{first, {APIVersion: "v1", Kind: "ConfigMap", Name: "second", UID: "c2"}},
			want:   corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "team-a", Name: "first", UID: "c1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, exists := range []bool{false, true} {
				got := webhooks.NewSubject("it", &metav1.ObjectMeta{OwnerReferences: tc.owners}, self, exists)
				want := webhooks.Subject{Name: "it", Object: self, Exists: exists, Parent: tc.want}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("NewSubject() (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestTextsOfAnswers(t *testing.T) {
	subject := webhooks.Subject{Name: "spec.userEmail"}
	for want, answer := range map[string]webhooks.Answer{
		"spec.userEmail: it is broken": {Subject: subject, Message: "it is broken"},
		"it is broken":                 {Message: "it is broken"},
		"":                             {Subject: subject},
	} {
		if got := answer.Text(); got != want {
			t.Errorf("Text() = %q, want %q", got, want)
		}
	}
}

func TestDetailsOfAnswers(t *testing.T) {
	none := webhooks.Answer{Reason: "R"}
	one := none.WithDetails("a", 1)
	two := one.WithDetails("b", 2)
	if diff := cmp.Diff([]any{"a", 1}, one.Details()); diff != "" {
		t.Errorf("Details() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"a", 1, "b", 2}, two.Details()); diff != "" {
		t.Errorf("Details() (-want +got):\n%s", diff)
	}
	if none.Details != nil {
		t.Errorf("details %v, want none", none.Details())
	}
}

// TestPatchesOfAnnotations applies the patches, as the API server does.
func TestPatchesOfAnnotations(t *testing.T) {
	const key = "example.com/a~b"
	for name, tc := range map[string]struct {
		object, want string
		patch        jsonpatch.JsonPatchOperation
	}{
		"no annotations":    {`{"metadata":{}}`, `{"metadata":{"annotations":{"example.com/a~b":"v"}}}`, webhooks.SetAnnotation(nil, key, "v")},
		"null":              {`{"metadata":{"annotations":null}}`, `{"metadata":{"annotations":{"example.com/a~b":"v"}}}`, webhooks.SetAnnotation(nil, key, "v")},
		"other annotations": {`{"metadata":{"annotations":{"x":"y"}}}`, `{"metadata":{"annotations":{"x":"y","example.com/a~b":"v"}}}`, webhooks.SetAnnotation(map[string]string{"x": "y"}, key, "v")},
		"the annotation":    {`{"metadata":{"annotations":{"example.com/a~b":"u"}}}`, `{"metadata":{"annotations":{"example.com/a~b":"v"}}}`, webhooks.SetAnnotation(map[string]string{key: "u"}, key, "v")},
		"its removal":       {`{"metadata":{"annotations":{"example.com/a~b":"u","x":"y"}}}`, `{"metadata":{"annotations":{"x":"y"}}}`, webhooks.RemoveAnnotation(key)},
	} {
		t.Run(name, func(t *testing.T) {
			operations, err := json.Marshal([]jsonpatch.JsonPatchOperation{tc.patch})
			if err != nil {
				t.Fatal(err)
			}
			patch, err := applypatch.DecodePatch(operations)
			if err != nil {
				t.Fatal(err)
			}
			got, err := patch.Apply([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("the patched object (-want +got):\n%s", diff)
			}
		})
	}
}
