package controllermanager

import (
	"cmp"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// deployment is a Deployment under review, as it is going to be.
type deployment struct {
	appsv1.Deployment
	// exists is false where the request is to create it.
	exists bool
}

func decode(request admission.Request) (deployment, error) {
	d := deployment{exists: request.Operation != admissionv1.Create}
	// Names are read as the API server reads them, which takes "Env" for something else than "env".
	if err := json.UnmarshalCaseSensitivePreserveInts(request.Object.Raw, &d.Deployment); err != nil {
		return deployment{}, fmt.Errorf("decode the Deployment: %w", err)
	}
	// An object need not repeat what the request says, and has no name yet where the API server is to make one up.
	d.Namespace = cmp.Or(d.Namespace, request.Namespace)
	d.Name = cmp.Or(d.Name, request.Name, d.GenerateName)
	return d, nil
}

// String names the object as a person would.
func (d deployment) String() string {
	return fmt.Sprintf("Deployment %q of namespace %q", d.Name, d.Namespace)
}

// container returns the index of the container of the configured name, or of the only one if none is configured.
func (d deployment) container(name string) (int, *finding) {
	const at = "spec.template.spec.containers"
	var names []string
	found := -1
	for i, c := range d.Spec.Template.Spec.Containers {
		names = append(names, fmt.Sprintf("%.100q", c.Name))
		if c.Name != "" && (name == "" || c.Name == name) {
			found = i
		}
	}
	switch {
	case found < 0 && name != "":
		return 0, &finding{reason: reasonContainerMissing, field: at, message: fmt.Sprintf(
			"it has no container %q, which is the one that warrantgate is configured to give the identity to; "+
				"name the container so, or have controllerManager.container changed", name)}
	case found < 0:
		return 0, &finding{reason: reasonContainerMissing, field: at, message: "it has no container that could be given the identity"}
	case name == "" && len(names) > 1:
		return 0, &finding{reason: reasonContainerAmbiguous, field: at, message: fmt.Sprintf(
			"it has several containers (%s), and it is not configured which one is the controller manager; "+
				"have controllerManager.container of warrantgate's configuration set to its name", strings.Join(names, ", "))}
	}
	return found, nil
}

// events is one Event about the Deployment or, where it is only about to be made, about the object that owns it. There is
// none where neither is there: the answer to the request has to do.
func (d deployment) events(eventType, reason, message string) []events.Event {
	object := corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment",
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion,
	}
	object, found := webhooks.EventObject(&d, object, d.exists)
	if !found {
		return nil
	}
	return []events.Event{{Object: object, Type: eventType, Reason: reason, Message: message}}
}
