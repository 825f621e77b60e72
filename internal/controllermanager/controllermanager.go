// Package controllermanager decides whether the pods of a cloud controller manager act as the user of its cluster, and as
// nobody else.
//
// It reads a pod as the kubelet and the controller manager do: flags win over the environment, the variables of env win over
// those of envFrom, and $(NAME) in a value or an argument is replaced. What it cannot read it refuses. It does not see the
// image, and files that a container finds or is given.
package controllermanager

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/ownership"
)

// Pod is what is judged: the pods of a controller manager.
type Pod struct {
	corev1.PodSpec
	// Manager is the index of the container that is the controller manager.
	Manager int
	// Secret is the name of the Secret with the credentials of impersonation.
	Secret string
}

func (p Pod) manager() corev1.Container { return p.Containers[p.Manager] }

// Identity is as whom a controller manager has to act.
type Identity struct {
	// Cluster is the name of its CloudSigmaCluster, Account as whom that acts.
	Cluster string
	Account ownership.Account
}

// Problem is one thing that keeps a controller manager from acting as its cluster's user.
type Problem struct {
	// Reason is a stable word, Message is for the person who sent the request, Field is the path of what it is about.
	Reason, Message, Field string
	// Fix puts it right. Nil where only a person can.
	Fix *Fix
}

// Fix changes the environment of the container.
type Fix struct {
	// Index is the place of the variable that is replaced, -1 where one is added.
	Index    int
	Variable corev1.EnvVar
	// Replaces is true where somebody had set it to something else.
	Replaces bool
}

// Confined finds what is wrong whoever the user is: other credentials, others who have these, and another program.
func (p Pod) Confined(commands []string) []Problem {
	var problems []Problem
	if found := p.globalCredentials(); found != nil {
		problems = append(problems, *found)
	}
	problems = append(problems, p.otherContainers()...)
	if found := p.command(commands); found != nil {
		problems = append(problems, *found)
	}
	return problems
}

// ActsAs finds what in the environment and in the arguments says something else than the identity.
func (p Pod) ActsAs(identity Identity) []Problem {
	return append(p.environment(identity), p.arguments(identity)...)
}

// Joined is what problems say, as one text.
func Joined(problems []Problem) string {
	messages := make([]string, 0, len(problems))
	for _, f := range problems {
		messages = append(messages, f.Message)
	}
	return strings.Join(messages, "; ")
}

func podField() *field.Path { return field.NewPath("spec", "template", "spec") }

func (p Pod) managerField() *field.Path { return podField().Child("containers").Index(p.Manager) }
