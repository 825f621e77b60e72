package clusterapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/json"
)

// Decode is Read for the JSON of a machine. As in the API server, names of fields are case-sensitive, and of repeated ones the last counts.
func (k Kind) Decode(raw []byte) (Machine, error) {
	object := &unstructured.Unstructured{}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &object.Object); err != nil {
		return Machine{}, err
	}
	return k.Read(object)
}

// DecodeMetadata returns the metadata in the JSON of an object.
func DecodeMetadata(raw []byte) (metav1.ObjectMeta, error) {
	var object metav1.PartialObjectMetadata
	err := json.UnmarshalCaseSensitivePreserveInts(raw, &object)
	return object.ObjectMeta, err
}
