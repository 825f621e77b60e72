package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

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
	// read returns what an object says about users, with an error as much of it as can be read. The error is for the requester; it is a
	// *clusterapi.AccountError if it is about a field.
	read func(o object, raw []byte) (said, error)
}

// kindsOf returns the kinds of objects that name users: the built-in and the configured ones.
func kindsOf(config v1beta1.ClusterImpersonation) []kind {
	kinds := []kind{
		{
			resource: clusterapi.CloudSigmaClusters, name: "CloudSigmaCluster", provider: v1beta1.ProviderCloudSigma,
			condition: celCluster, read: readCluster,
		},
		{resource: kdcClusters, name: "KdcCluster", condition: celOwner, read: readAnnotations(ownerAnnotations)},
		{resource: secrets, name: "Secret", condition: func() string { return webhooks.CELChanged("data", userEmailKey) }, read: readSecret},
	}
	for _, k := range config.Kinds {
		resource := schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
		kinds = append(kinds, kind{
			resource: resource, name: k.Kind, configured: true, condition: func() string { return celNaming(k) }, read: readConfigured(k),
		})
	}
	return kinds
}

// delegationKindsOf returns the kinds of objects that refer to credentials or hold them. A machine may refer to its own.
func delegationKindsOf(config v1beta1.ClusterDelegation) []kind {
	clusters := referring(clusterapi.OpenStackClusters, "OpenStackCluster", identityRefField)
	clusters.provider = v1beta1.ProviderOpenStack
	kinds := []kind{
		clusters,
		referring(clusterapi.OpenStackMachines, "OpenStackMachine", identityRefField),
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
}

// readObject reads the object of a request. The error is for the requester.
func readObject(k kind, request admission.Request) (object, error) {
	meta, err := clusterapi.DecodeMetadata(request.Object.Raw)
	if err != nil {
		return object{}, undecodable(k)
	}
	o := object{ObjectMeta: meta, kind: k, exists: request.Operation != admissionv1.Create}
	// The object may omit the namespace and name of the request.
	o.Namespace, o.Name = cmp.Or(o.Namespace, request.Namespace), cmp.Or(o.Name, request.Name)
	return o, nil
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

// naming is one field that names a user.
type naming struct {
	// field is the path of the field.
	field string
	// email is the value of the field, "" if a Secret names the user.
	email string
	// ref is the Secret with the email, if it is in one.
	ref clusterapi.UserRef
}

// names reports whether both name the same user.
func (n naming) names(user naming) bool {
	if n.email != "" || user.email != "" {
		return sameEmail(n.email, user.email)
	}
	return n.ref == user.ref
}

func sameEmail(a, b string) bool { return ownership.LowerEmail(a) == ownership.LowerEmail(b) }

// bySecret refers to a user without the email.
func (n naming) bySecret() string {
	return fmt.Sprintf("the user that Secret %q of namespace %q names", message.Value(n.ref.SecretName), message.Value(n.ref.SecretNamespace))
}

// said is what an object says about users.
type said struct {
	// names are the fields that name a user.
	names []naming
	// cluster is the object if it is a CloudSigmaCluster, and region its region.
	cluster *unstructured.Unstructured
	region  string
}

// readCluster reads the user that results: an email takes precedence over a Secret, so the Secret counts when the email is removed.
func readCluster(o object, raw []byte) (said, error) {
	cluster := &unstructured.Unstructured{}
	if err := decodeInto(cluster, o.kind, raw, userEmailField, userRefField+".name", userRefField+".namespace", regionField); err != nil {
		return said{}, err
	}
	cluster.SetNamespace(o.Namespace)
	cluster.SetName(o.Name)
	ref, err := clusterapi.ReadUserRef(cluster)
	if err != nil {
		return said{}, err
	}
	s := said{cluster: cluster}
	switch {
	case ref.Email != "":
		s.names = []naming{{field: userEmailField, email: ref.Email}}
	case ref.SecretName != "":
		s.names = []naming{{field: userRefField, ref: ref}}
	}
	if s.region, _, err = unstructured.NestedString(cluster.Object, "spec", "region"); err != nil {
		return s, notString(o, regionField)
	}
	return s, nil
}

func readSecret(o object, raw []byte) (said, error) {
	var secret corev1.Secret
	if json.Unmarshal(raw, &secret) != nil {
		return said{}, undecodable(o.kind)
	}
	email := string(secret.Data[userEmailKey])
	if email == "" {
		return said{}, nil
	}
	ref := clusterapi.UserRef{SecretNamespace: o.Namespace, SecretName: o.Name}
	return said{names: []naming{{field: "data." + userEmailKey, email: email, ref: ref}}}, nil
}

func readAnnotations(keys []string) func(o object, raw []byte) (said, error) {
	return func(o object, raw []byte) (said, error) {
		meta, err := clusterapi.DecodeMetadata(raw)
		if err != nil {
			return said{}, undecodable(o.kind)
		}
		var s said
		for _, key := range keys {
			if email := meta.Annotations[key]; email != "" {
				s.names = append(s.names, naming{field: field.NewPath("metadata", "annotations").Key(key).String(), email: email})
			}
		}
		return s, nil
	}
}

// readConfigured reads the users in a configured kind.
func readConfigured(k v1beta1.UserKind) func(o object, raw []byte) (said, error) {
	byAnnotations := readAnnotations(k.Annotations)
	if k.EmailPath == "" {
		return byAnnotations
	}
	return func(o object, raw []byte) (said, error) {
		s, err := byAnnotations(o, raw)
		if err != nil {
			return s, err
		}
		content, err := clusterapi.Pick(raw, k.EmailPath)
		if err != nil {
			return s, undecodable(o.kind)
		}
		email, _, err := unstructured.NestedString(content, strings.Split(k.EmailPath, ".")...)
		if err != nil {
			return s, notString(o, k.EmailPath)
		}
		if email != "" {
			s.names = append([]naming{{field: k.EmailPath, email: email}}, s.names...)
		}
		return s, nil
	}
}

func notString(o object, at string) error {
	return &clusterapi.AccountError{Reason: clusterapi.ClusterUnreadable, Message: fmt.Sprintf("%s %q: %s is not a string", o.kind.name, message.Value(o.Name), at)}
}
