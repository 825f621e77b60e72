package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	casesensitive "sigs.k8s.io/json"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

var (
	kdcClusters = clusterapi.KdcClusters
	secrets     = corev1.SchemeGroupVersion.WithResource("secrets")
)

const (
	// userEmailField is the field of a CloudSigmaCluster that names a user.
	userEmailField = "spec.userEmail"
	// userRefField is the field of a CloudSigmaCluster that refers to a Secret.
	userRefField = "spec.userRef"
	// userEmailKey is the key of a Secret that names a user, and the name of the field.
	userEmailKey = "userEmail"
	// cloudsKey is the key of a Secret that holds credentials.
	cloudsKey = "clouds.yaml"
	// namespaceExempt is the reason if the Secrets of a namespace are not checked.
	namespaceExempt = string(clusterapi.NamespaceExempt)
)

// ownerAnnotations are the annotations by which a KdcCluster names its user. The first one takes precedence, and has replaced the second.
var ownerAnnotations = []string{"cloudsigma.com/owner-email", "kube-dc.com/owner-email"}

// kind is a kind of objects that name users.
type kind struct {
	resource schema.GroupVersionResource
	name     string
	// condition returns the CEL expression that is true for requests that name another user. It may select too many requests, but
	// never too few.
	condition func() string
	// identityRefPath is the path of the field that refers to credentials, "" if the kind has none.
	identityRefPath string
	// configured is true for kinds of the configuration.
	configured bool
	// provider is the provider of a kind of clusters, "" for other kinds.
	provider v1beta1.Provider
	// names returns the users that a request sets, none if it leaves them unchanged or clears them. The error is for the requester; it is
	// a *clusterapi.AccountError if it is about a field.
	names func(o object, request admission.Request) ([]naming, error)
}

// kindsOf returns the kinds of objects that name users: the built-in and the configured ones.
func kindsOf(config v1beta1.ClusterImpersonation) []kind {
	kinds := []kind{
		{
			resource: clusterapi.CloudSigmaClusters, name: "CloudSigmaCluster", provider: v1beta1.ProviderCloudSigma,
			condition: celCluster, names: namedByCluster,
		},
		{resource: kdcClusters, name: "KdcCluster", condition: celOwner, names: namedByOwner},
		{resource: secrets, name: "Secret", condition: func() string { return webhooks.CELChanged("data", userEmailKey) }, names: namedBySecret},
	}
	for _, k := range config.Kinds {
		resource := schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
		kinds = append(kinds, kind{
			resource: resource, name: k.Kind, configured: true, condition: func() string { return celNaming(k) }, names: namedBy(k),
		})
	}
	return kinds
}

// delegationKindsOf returns the kinds of objects that refer to credentials or hold them. A machine may refer to its own.
func delegationKindsOf(config v1beta1.ClusterDelegation) []kind {
	machines := clusterapi.OpenStackClusters.GroupVersion().WithResource("openstackmachines")
	kinds := []kind{
		{
			resource: clusterapi.OpenStackClusters, name: "OpenStackCluster", provider: v1beta1.ProviderOpenStack,
			condition: celCredentialsOfCluster, identityRefPath: identityRefField,
		},
		referring(machines, "OpenStackMachine", identityRefField),
		{resource: secrets, name: "Secret", condition: func() string { return webhooks.CELSet("data", cloudsKey) }},
	}
	for _, k := range config.Kinds {
		resource := schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
		configured := referring(resource, k.Kind, k.IdentityRefPath)
		configured.configured = true
		kinds = append(kinds, configured)
	}
	return kinds
}

// referring returns a kind of objects that refer to credentials.
func referring(resource schema.GroupVersionResource, name, path string) kind {
	return kind{
		resource: resource, name: name, identityRefPath: path,
		condition: func() string { return webhooks.CELSet(strings.Split(path, ".")...) },
	}
}

func kindOf(kinds []kind, request admission.Request) (kind, bool) {
	for _, k := range kinds {
		if k.resource.Group == request.Resource.Group && k.resource.Resource == request.Resource.Resource {
			return k, true
		}
	}
	return kind{}, false
}

// object is the metadata of an object of one of the kinds.
type object struct {
	metav1.ObjectMeta
	kind kind
	// exists is false if the request creates the object.
	exists bool
	// oldVersion is the resource version that the request replaces.
	oldVersion string
}

// readObject reads the object of a request. The error is for the requester.
func readObject(k kind, request admission.Request) (object, error) {
	meta, err := metadataIn(request.Object.Raw)
	if err != nil {
		return object{}, undecodable(k)
	}
	o := object{ObjectMeta: meta.ObjectMeta, kind: k, exists: request.Operation != admissionv1.Create}
	if o.exists {
		if old, err := metadataIn(request.OldObject.Raw); err == nil { // otherwise the API server rejects the write as well
			o.oldVersion = old.ResourceVersion
		}
	}
	// The object may omit the namespace and name of the request.
	o.Namespace, o.Name = cmp.Or(o.Namespace, request.Namespace), cmp.Or(o.Name, request.Name)
	return o, nil
}

// metadataIn decodes the metadata of an object. Names of fields are case-sensitive, as in the API server: encoding/json would also read a field
// such as Metadata, which the requester controls where the schema preserves unknown fields.
func metadataIn(raw []byte) (meta metav1.PartialObjectMetadata, err error) {
	err = casesensitive.UnmarshalCaseSensitivePreserveInts(raw, &meta)
	return meta, err
}

// undecodable leaves out the error of the decoder, which may quote a secret.
func undecodable(k kind) error { return fmt.Errorf("the %s cannot be decoded", k.name) }

// String returns the kind, name and namespace for messages.
func (o object) String() string {
	return fmt.Sprintf("%s %q of namespace %q", o.kind.name, message.Value(cmp.Or(o.Name, o.GenerateName)), o.Namespace)
}

// subject is the subject of answers about a field of the object.
func (o object) subject(field string) webhooks.Subject {
	return webhooks.NewSubject(field+" of "+o.String(), &o, corev1.ObjectReference{
		APIVersion: o.kind.resource.GroupVersion().String(), Kind: o.kind.name,
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}, o.exists)
}

// naming is one field by which a request names another user.
type naming struct {
	// field is the path of the field that was set or changed.
	field string
	// email is the value of the field, "" if a Secret names the user.
	email string
	// ref is the Secret with the email, if it is in one.
	ref clusterapi.UserRef
}

// namedByCluster compares the user that results: an email takes precedence over a Secret, so the Secret counts when the email is
// removed.
func namedByCluster(o object, request admission.Request) ([]naming, error) {
	after, err := userRef(o, request.Object.Raw)
	if err != nil {
		return nil, err
	}
	before, err := userRef(o, request.OldObject.Raw)
	if err != nil || !o.exists {
		before = clusterapi.UserRef{} // a malformed object counts as one that named no user
	}
	switch {
	case after.Email == "" && after.SecretName == "", canonical(after) == canonical(before):
		return nil, nil
	case after.Email != "":
		return []naming{{field: userEmailField, email: after.Email}}, nil
	}
	return []naming{{field: userRefField, ref: after}}, nil
}

func userRef(o object, raw []byte) (clusterapi.UserRef, error) {
	cluster := &unstructured.Unstructured{}
	if json.Unmarshal(raw, &cluster.Object) != nil {
		return clusterapi.UserRef{}, undecodable(o.kind)
	}
	cluster.SetNamespace(o.Namespace)
	return clusterapi.ReadUserRef(cluster)
}

// canonical returns a reference that is equal for equal users.
func canonical(ref clusterapi.UserRef) clusterapi.UserRef {
	if ref.Email != "" {
		return clusterapi.UserRef{Email: ownership.LowerEmail(ref.Email)}
	}
	return ref
}

// namedByOwner also returns the user of the older annotation of a KdcCluster if it counts because the request removes the newer one.
func namedByOwner(o object, request admission.Request) ([]naming, error) {
	names, err := namedByAnnotations(ownerAnnotations)(o, request)
	at, email := annotatedOwner(o.Annotations)
	_, before := annotatedOwner(oldAnnotations(o, request))
	if another(email, before) && !slices.ContainsFunc(names, func(n naming) bool { return n.field == at }) {
		names = append(names, naming{field: at, email: email})
	}
	return names, err
}

// oldAnnotations returns the annotations before the request. An object that cannot be decoded counts as one that named no user.
func oldAnnotations(o object, request admission.Request) map[string]string {
	old, err := metadataIn(request.OldObject.Raw)
	if err != nil || !o.exists {
		return nil
	}
	return old.Annotations
}

func namedByAnnotations(keys []string) func(o object, request admission.Request) ([]naming, error) {
	return func(o object, request admission.Request) ([]naming, error) {
		old := oldAnnotations(o, request)
		var names []naming
		for _, key := range keys {
			if email := o.Annotations[key]; another(email, old[key]) {
				names = append(names, naming{field: field.NewPath("metadata", "annotations").Key(key).String(), email: email})
			}
		}
		return names, nil
	}
}

// namedBy reads the users in a configured kind.
func namedBy(k v1beta1.UserKind) func(o object, request admission.Request) ([]naming, error) {
	byAnnotations := namedByAnnotations(k.Annotations)
	if k.EmailPath == "" {
		return byAnnotations
	}
	byField := namedAt(k.EmailPath, strings.Split(k.EmailPath, "."))
	return func(o object, request admission.Request) ([]naming, error) {
		names, err := byField(o, request)
		if err != nil {
			return nil, err
		}
		annotated, err := byAnnotations(o, request)
		return append(names, annotated...), err
	}
}

// another reports whether an email names a user that differs from the one before.
func another(email, before string) bool {
	return email != "" && canonical(clusterapi.UserRef{Email: email}) != canonical(clusterapi.UserRef{Email: before})
}

// namedAt reads the email at a path of fields.
func namedAt(at string, path []string) func(o object, request admission.Request) ([]naming, error) {
	emailIn := func(raw []byte) (string, error) {
		var content map[string]any
		if json.Unmarshal(raw, &content) != nil {
			return "", errors.New("it cannot be decoded")
		}
		email, _, err := unstructured.NestedString(content, path...)
		return email, err
	}
	return func(o object, request admission.Request) ([]naming, error) {
		email, err := emailIn(request.Object.Raw)
		if err != nil {
			return nil, &clusterapi.AccountError{Reason: clusterapi.ClusterUnreadable, Message: fmt.Sprintf("%s %q: %s is not a string", o.kind.name, message.Value(o.Name), at)}
		}
		before, err := emailIn(request.OldObject.Raw)
		if err != nil || !o.exists {
			before = "" // as if it had named no user
		}
		if !another(email, before) {
			return nil, nil
		}
		return []naming{{field: at, email: email}}, nil
	}
}

func namedBySecret(o object, request admission.Request) ([]naming, error) {
	named, before, err := secretNaming(o, request)
	if err != nil || !another(named.email, before) {
		return nil, err
	}
	return []naming{named}, nil
}

// secretNaming returns the user in a Secret after a request, and the email before it. Both may be "".
func secretNaming(o object, request admission.Request) (named naming, before string, err error) {
	var secret, old corev1.Secret
	if json.Unmarshal(request.Object.Raw, &secret) != nil {
		return naming{}, "", undecodable(o.kind)
	}
	if o.exists && json.Unmarshal(request.OldObject.Raw, &old) != nil {
		old = corev1.Secret{} // as if it had named no user
	}
	return naming{
		field: "data." + userEmailKey, email: string(secret.Data[userEmailKey]),
		ref: clusterapi.UserRef{SecretNamespace: o.Namespace, SecretName: o.Name},
	}, string(old.Data[userEmailKey]), nil
}
