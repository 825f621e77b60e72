package controllermanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// Reasons of problems of the whole object.
const (
	reasonWithoutCluster     = "ControllerManagerWithoutCluster"
	reasonContainerMissing   = "ContainerMissing"
	reasonContainerAmbiguous = "ContainerAmbiguous"
	// reasonDeselected: later changes of the object would not be checked.
	reasonDeselected = "ControllerManagerDeselected"
	reasonSecret     = "SecretMissing"
)

// Objects reads the objects that a check needs from the API server.
type Objects interface {
	// Account returns the account of a cluster's provider, by the current state in the API server. It must not use a cache,
	// because the result is written into an object permanently. The error is a *clusterapi.AccountError if the objects specify no
	// account.
	Account(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error)
	// SecretKeysNow returns the keys with a value in the current Secret. found is false if the Secret does not exist.
	SecretKeysNow(ctx context.Context, namespace, name string) (keys []string, found bool, err error)
}

// Workload is the Deployment, DaemonSet or StatefulSet of a controller manager.
type Workload struct {
	Namespace, Name string
	// Labels are the labels in the request, LabelsBefore those of the stored object.
	Labels, LabelsBefore map[string]string
	// Exists is false if the request creates the object.
	Exists bool
	// Pod is the pod template.
	Pod corev1.PodSpec
}

// Result is the result of a check.
type Result struct {
	// Cluster is the name of the CloudSigmaCluster. Account contains the user and region of its provider. They are empty if unknown.
	Cluster string
	Account ownership.Account
	// Manager is the index of the container for problems with a Fix.
	Manager int
	// Problems is empty if the controller manager acts as the user of its cluster only, or as nobody.
	Problems []Problem
	// Nobody is true if the controller manager has no cluster and nothing that could give it an identity.
	Nobody bool
}

// Check returns all problems of a workload. The error means that the objects it depends on cannot be read now.
func Check(ctx context.Context, config v1beta1.ControllerManager, objects Objects, w Workload) (Result, error) {
	result := Result{Cluster: w.Labels[config.ClusterNameLabel]}
	if found := deselected(config, w); found != nil {
		result.Problems = append(result.Problems, *found)
		return result, nil
	}
	if len(validation.IsValidLabelValue(result.Cluster)) > 0 { // a mutating webhook is called before the API server validates the object
		result.Problems = append(result.Problems, Problem{
			Reason: reasonWithoutCluster, Field: labelField(config.ClusterNameLabel),
			Message: fmt.Sprintf("its label %q has no valid value; set the label to the name of its CloudSigmaCluster", config.ClusterNameLabel),
		})
		result.Cluster = ""
		return result, nil
	}
	if found := tooLarge(w.Pod); found != nil {
		result.Problems = append(result.Problems, *found)
		return result, nil
	}
	manager, found := managerOf(w.Pod.Containers, config.Container)
	if found != nil {
		result.Problems = append(result.Problems, *found)
		return result, nil
	}
	result.Manager = manager
	pod := Pod{PodSpec: w.Pod, Manager: manager, Secret: config.SecretName, AllowCSIToken: config.AllowCSIToken}
	result.Problems = pod.Confined(config.Commands, config.Flags)
	if result.Nobody = result.Cluster == "" && len(result.Problems) == 0 && pod.isNobody(); result.Nobody {
		return result, nil
	}
	if result.Cluster == "" {
		result.Problems = append(result.Problems, Problem{
			Reason: reasonWithoutCluster, Field: labelField(config.ClusterNameLabel),
			Message: fmt.Sprintf("it has no label %q, so the user of its cluster is unknown; "+
				"set the label to the name of its CloudSigmaCluster", config.ClusterNameLabel),
		})
		return result, nil
	}
	account, err := objects.Account(ctx, clusterapi.Cluster{
		Provider: v1beta1.ProviderCloudSigma, Namespace: w.Namespace, Name: result.Cluster,
	})
	result.Account = account
	if err == nil && account.User == "" { // one account for all clusters (legacy credentials)
		err = &clusterapi.AccountError{
			Reason: clusterapi.UserMissing, Message: fmt.Sprintf("CloudSigmaCluster %q names no user", result.Cluster),
		}
	}
	var unsaid *clusterapi.AccountError
	switch {
	case errors.As(err, &unsaid):
		result.Problems = append(result.Problems, Problem{
			Reason: string(unsaid.Reason), Field: labelField(config.ClusterNameLabel),
			Message: fmt.Sprintf("the user or the region of its cluster is unknown: %v", unsaid),
		})
		return result, nil
	case err != nil:
		return result, fmt.Errorf("read the cluster: %w", err)
	}
	result.Problems = append(result.Problems, pod.ActsAs(Identity{Cluster: result.Cluster, Account: account})...)
	missing, err := pod.secret(ctx, objects, w.Namespace)
	if missing != nil {
		result.Problems = append(result.Problems, *missing)
	}
	return result, err
}

// deselected returns a problem if the write removes the labels that select the object. Its next change would not be checked.
func deselected(config v1beta1.ControllerManager, w Workload) *Problem {
	if !w.Exists || config.Selector == nil || slices.Contains(config.Objects, v1beta1.NamedObject{Namespace: w.Namespace, Name: w.Name}) {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(config.Selector)
	if err != nil || !selector.Matches(labels.Set(w.LabelsBefore)) || selector.Matches(labels.Set(w.Labels)) {
		return nil // serve rejects a configuration with an invalid selector
	}
	return &Problem{
		Reason: reasonDeselected, Field: "metadata.labels", Message: fmt.Sprintf("its labels make it a controller manager (%s), and without them "+
			"its next change would not be checked; leave them, or delete the object and make another one", selector),
	}
}

// managerOf returns the index of the container with the configured name, or of the only container if no name is configured.
func managerOf(containers []corev1.Container, name string) (int, *Problem) {
	const at = "spec.template.spec.containers"
	var names []string
	found := -1
	for i, c := range containers {
		names = append(names, fmt.Sprintf("%.100q", c.Name))
		if c.Name != "" && (name == "" || c.Name == name) {
			found = i
		}
	}
	switch {
	case found < 0 && name != "":
		return 0, &Problem{Reason: reasonContainerMissing, Field: at, Message: fmt.Sprintf(
			"it has no container %q, which is the one that warrantgate is configured to give the identity to; "+
				"use this name, or change controllerManager.container of warrantgate's configuration", name)}
	case found < 0:
		return 0, &Problem{Reason: reasonContainerMissing, Field: at, Message: "it has no container that could be given the identity"}
	case name == "" && len(names) > 1:
		return 0, &Problem{Reason: reasonContainerAmbiguous, Field: at, Message: fmt.Sprintf(
			"it has several containers (%s), and it is not configured which one is the controller manager; "+
				"set controllerManager.container of warrantgate's configuration to its name", strings.Join(names, ", "))}
	}
	return found, nil
}

// secret returns a problem if the Secret with the credentials is missing or incomplete.
func (p Pod) secret(ctx context.Context, objects Objects, namespace string) (*Problem, error) {
	keys, found, err := objects.SecretKeysNow(ctx, namespace, p.Secret)
	if err != nil {
		return nil, fmt.Errorf("read the Secret: %w", err)
	}
	missing := slices.DeleteFunc([]string{keyOAuthURL, keyClientID, keyClientSecret}, func(key string) bool { return slices.Contains(keys, key) })
	if len(missing) == 0 {
		return nil, nil
	}
	problem := &Problem{Reason: reasonSecret, Field: p.managerField().Child("env").String()}
	if found {
		problem.Message = fmt.Sprintf("Secret %q of its namespace has no values for %s, which its pods need to start; add them first",
			p.Secret, strings.Join(missing, ", "))
		return problem, nil
	}
	problem.Message = fmt.Sprintf("there is no Secret %q in its namespace, which its pods need to start; create it first, with the keys %s",
		p.Secret, strings.Join(missing, ", "))
	return problem, nil
}

func labelField(label string) string { return field.NewPath("metadata", "labels").Key(label).String() }
