package webhooks

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventObject is what an Event about a request belongs to: the object itself, which self refers to, or, where it does not
// come to be, the object that controls it, else the first that owns it. Without either there is nothing to have an Event.
func EventObject(object metav1.Object, self corev1.ObjectReference, exists bool) (corev1.ObjectReference, bool) {
	if exists {
		return self, true
	}
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		owners := object.GetOwnerReferences()
		if len(owners) == 0 {
			return corev1.ObjectReference{}, false
		}
		owner = &owners[0]
	}
	return corev1.ObjectReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: self.Namespace, Name: owner.Name, UID: owner.UID,
	}, true
}
