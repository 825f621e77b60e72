package webhooks

import (
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Subject is the object or field that an answer is about.
type Subject struct {
	// Name starts messages, such as `spec.userEmail of CloudSigmaCluster "prod" of namespace "team-a"`. "" if the message is a
	// complete sentence.
	Name string
	// Cluster is the logical cluster of the object, "" on Kubernetes.
	Cluster logicalcluster.Name
	// Object is the object of the request. The zero value has no Events.
	Object corev1.ObjectReference
	// Exists is false if the request creates the object.
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

// eventObject returns the object for the Events. admitted is true if an object that does not exist yet is created in spite of the
// answer. It is then the object itself, if it has its UID already, as in validating admission.
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
