//go:build e2e

package chart_test

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Policies for Keystone.
const (
	sound  = "identity:create_user: rule:admin_required\n"
	broken = "identity:list_users: !\n"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	// selected are the labels of gated policies, ofManagers those of controller managers.
	selected   = map[string]string{"holds": "keystone-policy"}
	ofManagers = map[string]string{"app": "ccm"}
)

func policy(namespace, name, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: selected}, Data: map[string]string{"policy.yaml": content},
	}
}

// cluster is a cluster with a spec.
func cluster(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := ofProvider("CloudSigmaCluster", spec)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// manager is the Deployment of a controller manager. It has no namespace yet.
func manager(clusterName string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "ccm", Labels: map[string]string{"app": "ccm", "cluster.x-k8s.io/cluster-name": clusterName}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: ofManagers},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: ofManagers},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "ccm"}}},
			},
		},
	}
}

// ofProvider is an object of a provider of Cluster API. It has no namespace yet.
func ofProvider(kind string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(infrastructure.WithKind(kind))
	object.SetName("metal")
	return object
}

// withoutCluster is a machine of a cluster that does not exist.
func withoutCluster(kind, scheme string) *unstructured.Unstructured {
	machine := ofProvider(kind, map[string]any{"providerID": scheme + "7d0e1e6a-3c1f-4f3e-9d55-0c5c37ad6a01"})
	machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "no-cluster"})
	return machine
}

// deniedByGate returns an error unless err is a denial of the gate on policies.
func deniedByGate(err error) error {
	if err == nil || !strings.Contains(err.Error(), `admission webhook "policies.keystone.warrantgate.dev" denied the request`) {
		return fmt.Errorf("not denied by the gate: %w", err)
	}
	return nil
}
