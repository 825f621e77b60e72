package clusterapi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// OpenStackClusters is the resource of OpenStackCluster, OpenStackMachines that of OpenStackMachine.
var (
	OpenStackClusters = schema.GroupVersionResource{
		Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "openstackclusters",
	}
	OpenStackMachines = OpenStackClusters.GroupVersion().WithResource("openstackmachines")
)

// identityRefPath is the path of the credentials reference in an OpenStackCluster.
const identityRefPath = "spec.identityRef"

// secretType is the type of credentials in a Secret. It is also the default.
const secretType = "Secret"

// maxIdentityBytes limits each field of a reference. Claims and verdicts that are remembered contain the reference, and a tenant can write names
// of almost 64 KiB into a clouds.yaml. Names of Secrets and regions have at most 255 bytes.
const maxIdentityBytes = 255

// IdentityRef is spec.identityRef of an OpenStackCluster or an OpenStackMachine: the credentials of the provider. It is comparable.
// The zero value refers to no credentials.
type IdentityRef struct {
	// Path is the path of the reference in its object, such as spec.identityRef. It is for messages.
	Path string
	// Type is the kind of the object with the credentials, Name its name.
	Type, Name string
	// CloudName is the entry of clouds.yaml. Region is the region, "" for the region of the entry.
	CloudName, Region string
}

// identityFields are the fields of a reference, in the order of readIdentityRef.
var identityFields = [...]string{"type", "name", "cloudName", "region"}

// IdentityPaths returns the paths of all fields of a reference, or none if path is empty.
func IdentityPaths(path string) []string {
	if path == "" {
		return nil
	}
	var paths []string
	for _, field := range identityFields {
		paths = append(paths, path+"."+field)
	}
	return paths
}

// readIdentityRef reads the reference at a path of an object. It returns the zero value if path is empty. The error is for users.
func readIdentityRef(object *unstructured.Unstructured, path string) (ref IdentityRef, err error) {
	values := [...]*string{&ref.Type, &ref.Name, &ref.CloudName, &ref.Region}
	for i, path := range IdentityPaths(path) {
		if *values[i], err = stringAt(object, path); err != nil {
			return IdentityRef{}, err
		}
	}
	if ref != (IdentityRef{}) {
		ref.Path = path
	}
	return ref, nil
}

// ReadIdentity returns the account of the reference at a path of an object: credentials and region. The error is an *AccountError.
func ReadIdentity(object *unstructured.Unstructured, path string) (ownership.Account, error) {
	who := fmt.Sprintf("%s %q", object.GetKind(), object.GetName())
	ref, err := readIdentityRef(object, path)
	if err != nil {
		return ownership.Account{}, accountErrorf(ClusterUnreadable, "%s: %v", who, err)
	}
	ref.Path = path // also if it refers to nothing
	return ref.account(object.GetNamespace(), who)
}

// account returns the account of a reference in an object of the namespace.
func (r IdentityRef) account(namespace, who string) (ownership.Account, error) {
	switch {
	case r.Type != "" && r.Type != secretType:
		return ownership.Account{}, accountErrorf(IdentityUnsupported, "%s: %s.type is %.100q, which warrantgate does not support; refer to a Secret",
			who, r.Path, r.Type)
	case r.Name == "" || r.CloudName == "":
		return ownership.Account{}, accountErrorf(IdentityMissing, "%s refers to no credentials: %s.name and %s.cloudName have to be set",
			who, r.Path, r.Path)
	case max(len(r.Name), len(r.CloudName), len(r.Region)) > maxIdentityBytes:
		return ownership.Account{}, accountErrorf(IdentityUnsupported, "%s: a field of %s has more than %d bytes, which warrantgate does not support; "+
			"use shorter names", who, r.Path, maxIdentityBytes)
	}
	return ownership.Account{
		Cloud:    string(v1beta1.ProviderOpenStack),
		Identity: ownership.Identity{Namespace: namespace, Secret: r.Name, Entry: r.CloudName},
		Region:   r.Region,
	}, nil
}

func (r *reader) openStackAccount(_ context.Context, cluster *unstructured.Unstructured) (ownership.Account, error) {
	if err := r.guarded(cluster.GetNamespace()); err != nil {
		return ownership.Account{}, err
	}
	return ReadIdentity(cluster, identityRefPath)
}
