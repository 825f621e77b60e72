package keystone

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/json"

	"warrantgate.dev/internal/message"
	"warrantgate.dev/webhooks"
)

// Resources that hold policies.
const (
	configMaps = "configmaps"
	secrets    = "secrets"
)

// object is a ConfigMap or a Secret.
type object struct {
	metav1.ObjectMeta
	kind string
	// secret is true for a Secret. Messages must not repeat content of it that is no policy.
	secret bool
	// named is false if the API server has not generated the name yet.
	named bool
	// exists is false if the request creates the object.
	exists bool
	// held is the content of all keys.
	held []policy
}

// policy is one key that holds a policy.
type policy struct {
	key string
	// field is the path of the key.
	field   string
	content []byte
}

// decode reads an object of the request. The error is for the requester. It leaves out the error of the decoder, which may quote a secret.
func decode(request admission.Request, raw runtime.RawExtension) (object, error) {
	o := object{exists: request.Operation != admissionv1.Create}
	switch {
	case request.Resource.Group != corev1.GroupName:
		return object{}, unknownKind(request)
	case request.Resource.Resource == configMaps:
		var configMap corev1.ConfigMap
		if json.UnmarshalCaseSensitivePreserveInts(raw.Raw, &configMap) != nil {
			return object{}, errors.New("the ConfigMap cannot be decoded")
		}
		o.ObjectMeta, o.kind = configMap.ObjectMeta, "ConfigMap"
		for key, text := range configMap.Data {
			o.held = append(o.held, newPolicy("data", key, []byte(text)))
		}
		o.hold("binaryData", configMap.BinaryData)
	case request.Resource.Resource == secrets:
		var secret corev1.Secret
		if json.UnmarshalCaseSensitivePreserveInts(raw.Raw, &secret) != nil {
			return object{}, errors.New("the Secret cannot be decoded")
		}
		o.ObjectMeta, o.kind, o.secret = secret.ObjectMeta, "Secret", true
		o.hold("data", secret.Data) // the API server has added stringData to it
	default:
		return object{}, unknownKind(request)
	}
	// The object may omit the namespace and name of the request. It has no name before the API server generates one.
	o.Namespace = cmp.Or(o.Namespace, request.Namespace)
	o.Name = cmp.Or(o.Name, request.Name)
	o.named = o.Name != ""
	o.Name = cmp.Or(o.Name, o.GenerateName)
	slices.SortFunc(o.held, func(a, b policy) int { return cmp.Compare(a.key, b.key) })
	return o, nil
}

func unknownKind(request admission.Request) error {
	return fmt.Errorf("%.100q of group %.100q are neither ConfigMaps nor Secrets", request.Resource.Resource, request.Resource.Group)
}

func (o *object) hold(at string, data map[string][]byte) {
	for key, content := range data {
		o.held = append(o.held, newPolicy(at, key, content))
	}
}

func newPolicy(at, key string, content []byte) policy {
	return policy{key: key, field: field.NewPath(at).Key(message.Value(key)).String(), content: content}
}

// policies returns the policies under the keys, sorted; under all keys if none are given.
func (o object) policies(keys []string) []policy {
	if len(keys) == 0 {
		return o.held
	}
	return slices.DeleteFunc(slices.Clone(o.held), func(p policy) bool { return !slices.Contains(keys, p.key) })
}

// changed returns the policies that are new or differ.
func changed(before, after []policy) []policy {
	was := map[string][]byte{}
	for _, p := range before {
		was[p.key] = p.content
	}
	return slices.DeleteFunc(slices.Clone(after), func(p policy) bool {
		content, found := was[p.key]
		return found && bytes.Equal(content, p.content)
	})
}

// String returns the kind, name and namespace for messages.
func (o object) String() string {
	return fmt.Sprintf("%s %q of namespace %q", o.kind, message.Value(o.Name), message.Value(o.Namespace))
}

// subject returns the subject of answers.
func (o object) subject() webhooks.Subject {
	return webhooks.NewSubject(o.String(), &o, corev1.ObjectReference{
		APIVersion: corev1.SchemeGroupVersion.String(), Kind: o.kind,
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}, o.exists)
}
