package webhooks

import (
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Subject is what an answer is about: an object, or a field of it.
type Subject struct {
	// Name starts messages, such as `spec.userEmail of CloudSigmaCluster "prod" of namespace "team-a"`. "" where the message
	// is a sentence of its own.
	Name string
	// Cluster is the logical cluster of the object, "" on Kubernetes.
	Cluster logicalcluster.Name
	// Object is the object of the request. The zero value has no Events.
	Object corev1.ObjectReference
	// Exists is false where the request is to create the object.
	Exists bool
	// Parent has the Events about an object that is not created. The zero value has none.
	Parent corev1.ObjectReference
}

// NewSubject returns the subject of an answer about an object, which reference refers to. Its parent is the object that controls
// it, otherwise its first owner.
func NewSubject(name string, object metav1.Object, reference corev1.ObjectReference, exists bool) Subject {
	s := Subject{Name: name, Object: reference, Exists: exists}
	owner := metav1.GetControllerOfNoCopy(object)
	if owners := object.GetOwnerReferences(); owner == nil && len(owners) > 0 {
		owner = &owners[0]
	}
	if owner != nil {
		s.Parent = corev1.ObjectReference{
			APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: reference.Namespace, Name: owner.Name, UID: owner.UID,
		}
	}
	return s
}

// eventObject returns the object that has the Events. admitted is true where an object that does not exist yet is created in spite
// of the answer; it is the object then, if it has its UID already, as in validating admission.
func (s Subject) eventObject(admitted bool) (corev1.ObjectReference, bool) {
	object := s.Parent
	if s.Exists || admitted && s.Object.UID != "" {
		object = s.Object
	}
	return object, object != corev1.ObjectReference{}
}

func (s Subject) text(message string) string {
	if s.Name == "" || message == "" {
		return message
	}
	return s.Name + ": " + message
}
