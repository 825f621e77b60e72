package controllermanager

import (
	"cmp"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"warrantgate.dev/internal/controllermanager"
	"warrantgate.dev/webhooks"
)

// workload is a Deployment, DaemonSet or StatefulSet, as it is going to be.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
	// exists is false where the request is to create it.
	exists bool
	// before is what it was, nil where the request is to create it.
	before *metav1.ObjectMeta
}

func decode(request admission.Request) (workload, error) {
	w := workload{exists: request.Operation != admissionv1.Create}
	kind := cmp.Or(request.Kind.Kind, "Deployment")
	// Names are read as the API server reads them, which takes "Env" for something else than "env".
	if err := json.UnmarshalCaseSensitivePreserveInts(request.Object.Raw, &w); err != nil {
		return workload{}, fmt.Errorf("decode the %s: %w", kind, err)
	}
	w.Kind = kind
	// An object need not repeat what the request says, and has no name yet where the API server is to make one up.
	w.Namespace = cmp.Or(w.Namespace, request.Namespace)
	w.Name = cmp.Or(w.Name, request.Name, w.GenerateName)
	if w.exists && len(request.OldObject.Raw) > 0 {
		var old metav1.PartialObjectMetadata
		if err := json.UnmarshalCaseSensitivePreserveInts(request.OldObject.Raw, &old); err != nil {
			return workload{}, fmt.Errorf("decode the %s as it was: %w", kind, err)
		}
		w.before = &old.ObjectMeta
	}
	return w, nil
}

// beingDeleted is true of what is on its way out. Its controller makes no pods for it any more.
func (w workload) beingDeleted() bool { return w.before != nil && w.before.DeletionTimestamp != nil }

// String names the object as a person would.
func (w workload) String() string {
	return fmt.Sprintf("%s %q of namespace %q", w.Kind, w.Name, w.Namespace)
}

// container returns the index of the container of the configured name, or of the only one if none is configured.
func (w workload) container(name string) (int, *controllermanager.Finding) {
	const at = "spec.template.spec.containers"
	var names []string
	found := -1
	for i, c := range w.Spec.Template.Spec.Containers {
		names = append(names, fmt.Sprintf("%.100q", c.Name))
		if c.Name != "" && (name == "" || c.Name == name) {
			found = i
		}
	}
	switch {
	case found < 0 && name != "":
		return 0, &controllermanager.Finding{Reason: reasonContainerMissing, Field: at, Message: fmt.Sprintf(
			"it has no container %q, which is the one that warrantgate is configured to give the identity to; "+
				"name the container so, or have controllerManager.container changed", name)}
	case found < 0:
		return 0, &controllermanager.Finding{Reason: reasonContainerMissing, Field: at, Message: "it has no container that could be given the identity"}
	case name == "" && len(names) > 1:
		return 0, &controllermanager.Finding{Reason: reasonContainerAmbiguous, Field: at, Message: fmt.Sprintf(
			"it has several containers (%s), and it is not configured which one is the controller manager; "+
				"have controllerManager.container of warrantgate's configuration set to its name", strings.Join(names, ", "))}
	}
	return found, nil
}

// subject is what answers are about.
func (w workload) subject() webhooks.Subject {
	return webhooks.NewSubject(w.String(), &w, corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: w.Kind,
		Namespace: w.Namespace, Name: w.Name, UID: w.UID, ResourceVersion: w.ResourceVersion,
	}, w.exists)
}
