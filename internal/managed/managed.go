// Package managed marks objects that warrantgate creates, so that uninstall removes only them.
package managed

const (
	// Label is the label of Kubernetes that names the tool by which an object is managed.
	Label = "app.kubernetes.io/managed-by"
	// By is its value on objects that warrantgate creates.
	By = "warrantgate"
)

// Labels returns the labels of objects that warrantgate creates.
func Labels() map[string]string { return map[string]string{Label: By} }
