// Package managed marks objects that warrantgate creates, so that uninstall removes only them.
package managed

const (
	// Label is the Kubernetes label with the name of the tool that manages an object.
	Label = "app.kubernetes.io/managed-by"
	// By is the value of Label on objects that warrantgate creates.
	By = "warrantgate"
)

// Labels returns the labels of objects that warrantgate creates.
func Labels() map[string]string { return map[string]string{Label: By} }
