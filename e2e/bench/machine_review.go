package main

import (
	_ "embed"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Names of the objects of all callers, each in its own namespace.
	pool       = "pool"
	machineOne = "pool-worker-hl9tl-qbrcf"
	// reviewedID is the instance in the template of a review. Each review replaces its digits.
	reviewedID = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
)

var (
	infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	machineKind    = infrastructure.WithKind("CloudSigmaMachine")
)

// machineTemplate is a machine without a server, with the size and the fields that providers give it.
//
//go:embed machine.json
var machineTemplate []byte

func newMachine(namespace, name string) (*unstructured.Unstructured, error) {
	machine := &unstructured.Unstructured{}
	if err := json.Unmarshal(machineTemplate, &machine.Object); err != nil {
		return nil, fmt.Errorf("read the template of machines: %w", err)
	}
	machine.SetNamespace(namespace)
	machine.SetName(name)
	return machine, nil
}

// nameInstance names an instance as a provider does.
func nameInstance(machine *unstructured.Unstructured, id string) error {
	return unstructured.SetNestedField(machine.Object, id, "status", "instanceID")
}

// instanceID is the instance of a number.
func instanceID(number int64) string { return reviewedID[:len(reviewedID)-idDigits] + digitsOf(number) }

// machineReviews returns reviews that an API server sends when a provider writes the instance of its machine into the status, for
// one instance after the other.
func machineReviews(of schema.GroupVersionKind, plural, namespace string, caller int) (*reviews, error) {
	old, err := newMachine(namespace, machineOne)
	if err != nil {
		return nil, err
	}
	old.SetGroupVersionKind(of)
	changed := old.DeepCopy()
	if err := nameInstance(changed, reviewedID); err != nil {
		return nil, err
	}
	oldRaw, err := old.MarshalJSON()
	if err != nil {
		return nil, err
	}
	raw, err := changed.MarshalJSON()
	if err != nil {
		return nil, err
	}
	kind, resource := metav1.GroupVersionKind(of), metav1.GroupVersionResource(of.GroupVersion().WithResource(plural))
	wire, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "16e3ec3f-c1a0-49ed-9151-5b4b4cd743b5", Kind: kind, RequestKind: &kind, Resource: resource, RequestResource: &resource,
			SubResource: "status", RequestSubResource: "status", Namespace: namespace, Name: machineOne, Operation: admissionv1.Update,
			UserInfo: authenticationv1.UserInfo{
				Username: "system:serviceaccount:capcs-system:capcs-controller-manager", UID: "da25d5b4-8038-42d5-8a40-b0357cd28842",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:capcs-system", "system:authenticated"},
			},
			Object: runtime.RawExtension{Raw: raw}, OldObject: runtime.RawExtension{Raw: oldRaw}, DryRun: new(bool),
			Options: runtime.RawExtension{Raw: []byte(`{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1"}`)},
		},
	})
	if err != nil {
		return nil, err
	}
	return newReviews(wire, reviewedID, caller)
}
