package charttest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubeconfig is the kind Kubeconfig of kcp-operator, operator.kcp.io/v1alpha1, reduced to the fields that the examples use. Not every Go
// module proxy has the operator's module, so the names are copied from its v0.9.0 (sdk/apis/operator/v1alpha1/kubeconfig_types.go).
type Kubeconfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Username  string                      `json:"username"`
		Groups    []string                    `json:"groups,omitempty"`
		Validity  metav1.Duration             `json:"validity"`
		SecretRef corev1.LocalObjectReference `json:"secretRef"`
		Target    struct {
			FrontProxyRef *corev1.LocalObjectReference `json:"frontProxyRef,omitempty"`
			RootShardRef  *corev1.LocalObjectReference `json:"rootShardRef,omitempty"`
			ShardRef      *corev1.LocalObjectReference `json:"shardRef,omitempty"`
		} `json:"target"`
	} `json:"spec"`
}

// DecodeKubeconfig decodes a Kubeconfig. An unknown or missing field is an error.
func DecodeKubeconfig(object *unstructured.Unstructured) (Kubeconfig, error) {
	var k Kubeconfig
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &k, true); err != nil {
		return k, err
	}
	spec, targets := k.Spec, 0
	for _, ref := range []*corev1.LocalObjectReference{spec.Target.FrontProxyRef, spec.Target.RootShardRef, spec.Target.ShardRef} {
		if ref != nil {
			targets++
		}
	}
	switch {
	case k.APIVersion != "operator.kcp.io/v1alpha1" || k.Kind != "Kubeconfig":
		return k, fmt.Errorf("%s %s is no Kubeconfig of operator.kcp.io/v1alpha1", k.APIVersion, k.Kind)
	case spec.Username == "" || spec.Validity.Duration == 0 || spec.SecretRef.Name == "":
		return k, fmt.Errorf("%s %s lacks username, validity or secretRef", k.Kind, k.Name)
	case targets != 1:
		return k, fmt.Errorf("%s %s has not exactly one target", k.Kind, k.Name)
	}
	return k, nil
}
