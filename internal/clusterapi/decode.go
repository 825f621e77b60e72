package clusterapi

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// metadata contains the fields of an object's metadata in use.
type metadata struct {
	Name              string            `json:"name"`
	GenerateName      string            `json:"generateName"`
	Namespace         string            `json:"namespace"`
	UID               types.UID         `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	OwnerReferences   ownerReferences   `json:"ownerReferences"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
}

// ownerReferences leaves out references without a kind: no API server accepts them, and each would take up to 140 times its size in memory.
type ownerReferences []metav1.OwnerReference

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (r *ownerReferences) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '[' {
		return json.UnmarshalDecode(decoder, (*[]metav1.OwnerReference)(r))
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	*r = nil
	var ref metav1.OwnerReference
	for decoder.PeekKind() != ']' {
		ref = metav1.OwnerReference{}
		if err := json.UnmarshalDecode(decoder, &ref); err != nil {
			return err
		}
		if ref.Kind != "" {
			*r = append(*r, ref)
		}
	}
	_, err := decoder.ReadToken()
	return err
}

// asInEncodingJSON accepts the same input as encoding/json, because every other reader of the object uses it.
var asInEncodingJSON = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Decode is Read for the JSON of a machine.
func (k Kind) Decode(raw []byte) (Machine, error) {
	content, err := Pick(raw, append(IdentityPaths(k.IdentityRefPath), k.InstanceIDPath, k.ProviderIDPath)...)
	if err != nil {
		return Machine{}, err
	}
	meta, err := DecodeMetadata(raw)
	if err != nil {
		return Machine{}, err
	}
	machine, err := k.Read(&unstructured.Unstructured{Object: content})
	machine.ObjectMeta = meta
	return machine, err
}

// DecodeMetadata returns the metadata fields in use, from the JSON of an object. Names of fields are case-sensitive, as in the API server.
func DecodeMetadata(raw []byte) (metav1.ObjectMeta, error) {
	var object struct {
		Metadata metadata `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &object, asInEncodingJSON); err != nil {
		return metav1.ObjectMeta{}, err
	}
	m := object.Metadata
	return metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences, DeletionTimestamp: m.DeletionTimestamp,
	}, nil
}

// Pick decodes the strings at these paths of an object. null counts as an empty object. It decodes nothing else, because a tenant chooses the rest:
// many small values take up to 59 times their size in memory. A value of a wrong type stays one of a wrong type.
func Pick(raw []byte, at ...string) (map[string]any, error) {
	var paths [][]string
	for _, path := range at {
		if path != "" {
			paths = append(paths, strings.Split(path, "."))
		}
	}
	picked, err := pick(jsontext.NewDecoder(bytes.NewBuffer(raw), asInEncodingJSON), paths)
	if err != nil {
		return nil, err
	}
	content, isObject := picked.(map[string]any)
	if picked != nil && !isObject {
		return nil, errors.New("it is not an object")
	}
	if content == nil {
		content = map[string]any{}
	}
	return content, nil
}

// pick decodes the next value, of an object only what is at these paths. Of members with the same name, the last one counts. A list, and a value
// that is not an object although a path continues there, becomes an empty list, and an object at the end of a path an empty object.
func pick(decoder *jsontext.Decoder, paths [][]string) (any, error) {
	ends := slices.ContainsFunc(paths, func(path []string) bool { return len(path) == 0 })
	switch kind := decoder.PeekKind(); {
	case kind == 'n':
		return nil, decoder.SkipValue()
	case kind == '{' && ends:
		return map[string]any{}, decoder.SkipValue()
	case kind == '{':
	case kind == '[' || !ends:
		return []any{}, decoder.SkipValue()
	default:
		var value any
		err := json.UnmarshalDecode(decoder, &value)
		return value, err
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	picked := map[string]any{}
	var name []byte
	for decoder.PeekKind() != '}' {
		quoted, err := decoder.ReadValue()
		if err != nil {
			return nil, err
		}
		name, _ = jsontext.AppendUnquote(name[:0], quoted) // the decoder has validated it
		var below [][]string
		for _, path := range paths {
			if path[0] == string(name) {
				below = append(below, path[1:])
			}
		}
		if len(below) == 0 {
			err = decoder.SkipValue()
		} else {
			picked[string(name)], err = pick(decoder, below)
		}
		if err != nil {
			return nil, err
		}
	}
	_, err := decoder.ReadToken()
	return picked, err
}
