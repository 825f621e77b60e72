package controllermanager

import (
	"cmp"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/webhooks"
)

// workload is a Deployment, DaemonSet or StatefulSet after the request.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	// exists is false if the request creates the object.
	exists bool
	// before is the metadata of the stored object, nil if the request creates the object.
	before *metav1.ObjectMeta
}

func decode(request admission.Request) (workload, error) {
	w := workload{exists: request.Operation != admissionv1.Create}
	kind := cmp.Or(request.Kind.Kind, "Deployment")
	// Field names are case-sensitive, as in the API server.
	if err := json.UnmarshalCaseSensitivePreserveInts(request.Object.Raw, &w); err != nil {
		return workload{}, fmt.Errorf("decode the %s: %w", kind, err)
	}
	w.Kind = kind
	// The object may omit the namespace and name of the request. It has no name before the API server generates one.
	w.Namespace = cmp.Or(w.Namespace, request.Namespace)
	w.Name = cmp.Or(w.Name, request.Name, w.GenerateName)
	if w.exists && len(request.OldObject.Raw) > 0 {
		var old metav1.PartialObjectMetadata
		if err := json.UnmarshalCaseSensitivePreserveInts(request.OldObject.Raw, &old); err != nil {
			return workload{}, fmt.Errorf("decode the stored %s: %w", kind, err)
		}
		w.before = &old.ObjectMeta
		w.UID = old.UID // a PUT may omit it, and mutating webhooks then get the object without it
	}
	return w, nil
}

// beingDeleted is true if the stored object has a deletion timestamp. Its controller creates no more pods.
func (w workload) beingDeleted() bool { return w.before != nil && w.before.DeletionTimestamp != nil }

// String returns the kind, name and namespace for messages.
func (w workload) String() string {
	return fmt.Sprintf("%s %q of namespace %q", w.Kind, w.Name, w.Namespace)
}

// domain returns the input of the check.
func (w workload) domain() controllermanager.Workload {
	d := controllermanager.Workload{Namespace: w.Namespace, Name: w.Name, Labels: w.Labels, Pod: w.Spec.Template.Spec}
	if w.before != nil {
		d.LabelsBefore, d.Exists = w.before.Labels, true
	}
	return d
}

// subject returns the subject of answers.
func (w workload) subject() webhooks.Subject {
	return webhooks.NewSubject(w.String(), &w, corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: w.Kind,
		Namespace: w.Namespace, Name: w.Name, UID: w.UID, ResourceVersion: w.ResourceVersion,
	}, w.exists)
}
