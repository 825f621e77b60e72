package webhooks_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/webhooks"
)

func TestEventObject(t *testing.T) {
	self := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "team-a", Name: "credentials", UID: "s1"}
	first := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "first", UID: "c1"}
	controller := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "pods", UID: "r1", Controller: ptr.To(true)}
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		exists bool
		want   corev1.ObjectReference // empty: none
	}{
		"an object that exists":              {owners: []metav1.OwnerReference{controller}, exists: true, want: self},
		"an object that does not come to be": {},
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
			got, found := webhooks.EventObject(&metav1.ObjectMeta{OwnerReferences: tc.owners}, self, tc.exists)
			if wantFound := tc.want != (corev1.ObjectReference{}); found != wantFound {
				t.Errorf("found = %t, want %t", found, wantFound)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("EventObject() (-want +got):\n%s", diff)
			}
		})
	}
}
