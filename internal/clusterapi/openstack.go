package clusterapi

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

// OpenStackClusters is the resource of OpenStackCluster.
var OpenStackClusters = schema.GroupVersionResource{
	Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "openstackclusters",
}

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
	// Type is the kind of the object with the credentials, Name its name.
	Type, Name string
	// CloudName is the entry of clouds.yaml. Region is the region, "" for the region of the entry.
	CloudName, Region string
}

// identityFields returns the fields of a reference at a path, in the order of identityOf.
func identityFields(path string) []field {
	return []field{{path: path + ".type"}, {path: path + ".name"}, {path: path + ".cloudName"}, {path: path + ".region"}}
}

func identityOf(fields []field) IdentityRef {
	return IdentityRef{Type: fields[0].value, Name: fields[1].value, CloudName: fields[2].value, Region: fields[3].value}
}

// IdentityPaths returns the paths of all fields of a reference, or none if path is empty.
func IdentityPaths(path string) []string {
	if path == "" {
		return nil
	}
	var paths []string
	for _, field := range identityFields(path) {
		paths = append(paths, field.path)
	}
	return paths
}

// readIdentityRef reads the reference at a path of an object. It returns the zero value if path is empty. The error is for users.
func readIdentityRef(object *unstructured.Unstructured, path string) (IdentityRef, error) {
	if path == "" {
		return IdentityRef{}, nil
	}
	fields := identityFields(path)
	for i := range fields {
		var err error
		if fields[i].value, err = stringAt(object, fields[i].path); err != nil {
			return IdentityRef{}, err
		}
	}
	return identityOf(fields), nil
}

// decodeIdentityRef is readIdentityRef for the JSON of an object.
func decodeIdentityRef(raw []byte, path string) (IdentityRef, error) {
	if path == "" {
		return IdentityRef{}, nil
	}
	fields := identityFields(path)
	if err := decodeFields(raw, fields); err != nil {
		return IdentityRef{}, err
	}
	return identityOf(fields), nil
}

// ReadIdentity returns the account of an OpenStackCluster or OpenStackMachine: credentials and region. The error is an
// *AccountError.
func ReadIdentity(object *unstructured.Unstructured) (ownership.Account, error) {
	return ReadIdentityAt(object, identityRefPath)
}

// ReadIdentityAt is ReadIdentity for a reference at another path.
func ReadIdentityAt(object *unstructured.Unstructured, path string) (ownership.Account, error) {
	who := fmt.Sprintf("%s %q", object.GetKind(), object.GetName())
	ref, err := readIdentityRef(object, path)
	if err != nil {
		return ownership.Account{}, accountErrorf(ClusterUnreadable, "%s: %v", who, err)
	}
	return ref.account(object.GetNamespace(), who)
}

// account returns the account of a reference in an object of the namespace.
func (r IdentityRef) account(namespace, who string) (ownership.Account, error) {
	switch {
	case r.Type != "" && r.Type != secretType:
		return ownership.Account{}, accountErrorf(IdentityUnsupported, "%s: %s.type is %.100q, which warrantgate does not support; refer to a Secret",
			who, identityRefPath, r.Type)
	case r.Name == "" || r.CloudName == "":
		return ownership.Account{}, accountErrorf(IdentityMissing, "%s refers to no credentials: %s.name and %s.cloudName have to be set",
			who, identityRefPath, identityRefPath)
	case max(len(r.Name), len(r.CloudName), len(r.Region)) > maxIdentityBytes:
		return ownership.Account{}, accountErrorf(IdentityUnsupported, "%s: a field of %s has more than %d bytes, which warrantgate does not support; "+
			"use shorter names", who, identityRefPath, maxIdentityBytes)
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
	return ReadIdentity(cluster)
}
