// Package controllermanager decides whether the pods of a cloud controller manager act as the user of its cluster only.
//
// The identity is in the environment of the controller manager's container. It reads that as the kubelet does: env takes precedence over envFrom, and
// $(NAME) in a value is replaced. It denies values that it cannot evaluate, and all flags and commands that are not known. It does not check the image,
// and files in a container.
package controllermanager

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/ownership"
)

// Pod is a pod template of a controller manager.
type Pod struct {
	corev1.PodSpec
	// Manager is the index of the controller manager's container.
	Manager int
	// Secret is the name of the Secret with the credentials for impersonation.
	Secret string
	// AllowCSIToken is true if it may write a token of the user into the tenant cluster.
	AllowCSIToken bool
}

func (p Pod) manager() corev1.Container { return p.Containers[p.Manager] }

// Identity is the identity that a controller manager has to use.
type Identity struct {
	// Cluster is the name of its CloudSigmaCluster, Account the account of this cluster.
	Cluster string
	Account ownership.Account
}

// Problem is one reason why a controller manager does not act as the user of its cluster.
type Problem struct {
	// Reason is a stable word. Message is for the requester. Field is the path of the field.
	Reason, Message, Field string
	// Fix corrects the problem. It is nil if only the requester can correct it.
	Fix *Fix
}

// Fix is a change of the container's environment.
type Fix struct {
	// Index is the index of the variable to replace, or -1 to add one.
	Index    int
	Variable corev1.EnvVar
	// Replaces is true if the requester set another value.
	Replaces bool
}

// Confined finds problems that do not depend on the user: other credentials, other containers with the credentials, another program, flags that
// are not allowed, and a token that leaves the management cluster. commands and flags are allowed besides.
func (p Pod) Confined(commands, flags []string) []Problem {
	var problems []Problem
	if found := p.globalCredentials(); found != nil {
		problems = append(problems, *found)
	}
	problems = append(problems, p.otherContainers()...)
	problems = append(problems, p.programs(commands, flags)...)
	return append(problems, p.csiToken()...)
}

// Joined returns the messages of problems as one text.
func Joined(problems []Problem) string {
	messages := make([]string, 0, len(problems))
	for _, f := range problems {
		messages = append(messages, f.Message)
	}
	return strings.Join(messages, "; ")
}

func podField() *field.Path { return field.NewPath("spec", "template", "spec") }

func (p Pod) managerField() *field.Path { return podField().Child("containers").Index(p.Manager) }
