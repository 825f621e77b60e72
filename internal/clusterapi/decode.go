package clusterapi

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// metadata contains the fields of a machine's metadata in use.
type metadata struct {
	Name              string                  `json:"name"`
	Namespace         string                  `json:"namespace"`
	UID               types.UID               `json:"uid"`
	ResourceVersion   string                  `json:"resourceVersion"`
	Labels            map[string]string       `json:"labels"`
	OwnerReferences   []metav1.OwnerReference `json:"ownerReferences"`
	DeletionTimestamp *metav1.Time            `json:"deletionTimestamp"`
}

// asInEncodingJSON accepts the same input as encoding/json, because every other reader of the object uses it.
var asInEncodingJSON = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Decode is Read for the JSON of a machine. It decodes only the fields in use, because most of a machine is other data.
func (k Kind) Decode(raw []byte) (Machine, error) {
	machine, err := k.DecodeIDs(raw)
	if err != nil {
		return Machine{}, err
	}
	if machine.Identity, err = decodeIdentityRef(raw, k.IdentityRefPath); err != nil {
		return Machine{}, err
	}
	if machine.ObjectMeta, err = DecodeMetadata(raw); err != nil {
		return Machine{}, err
	}
	return machine, nil
}

// DecodeMetadata returns the metadata fields in use, from the JSON of an object.
func DecodeMetadata(raw []byte) (metav1.ObjectMeta, error) {
	var object struct {
		Metadata metadata `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &object, asInEncodingJSON); err != nil {
		return metav1.ObjectMeta{}, err
	}
	m := object.Metadata
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels: m.Labels, OwnerReferences: m.OwnerReferences, DeletionTimestamp: m.DeletionTimestamp,
	}, nil
}

// DecodeIDs is Decode without the metadata.
func (k Kind) DecodeIDs(raw []byte) (Machine, error) {
	if jsontext.Value(raw).Kind() != '{' { // the error of the Kubernetes decoder
		var object map[string]any
		return Machine{Kind: k}, stdjson.Unmarshal(raw, &object)
	}
	fields := [...]field{{path: k.InstanceIDPath}, {path: k.ProviderIDPath}}
	if err := decodeFields(raw, fields[:]); err != nil {
		return Machine{}, err
	}
	return Machine{Kind: k, InstanceID: fields[0].value, ProviderID: fields[1].value}, nil
}

// decodeFields reads fields from the JSON of an object, except those without a path. It sets an error for users on a field that is not a string.
func decodeFields(raw []byte, fields []field) error {
	var object places
	for i := range fields {
		if fields[i].path != "" {
			object = append(object, place{rest: fields[i].path, field: &fields[i]})
		}
	}
	if err := json.Unmarshal(raw, &object, asInEncodingJSON); err != nil {
		return err
	}
	for i := range fields {
		if fields[i].err != nil {
			return fields[i].err
		}
	}
	return nil
}

// field is a string field of an object, with a path such as status.instanceID.
type field struct {
	path, value string
	// err explains why the value is not a string, for users.
	err error
}

func (f *field) clear() { f.value, f.err = "", nil }

// misplace sets the error that the parent field is not an object.
func (f *field) misplace() {
	f.value, f.err = "", fmt.Errorf("%s cannot be read: the field above it is not an object", f.path)
}

func (f *field) set(value any) {
	f.clear()
	switch value := value.(type) {
	case nil:
	case string:
		f.value = value
	default:
		f.err = fmt.Errorf("%s is %T where a string belongs", f.path, value)
	}
}

// place is the path of a field, relative to an object.
type place struct {
	rest  string
	field *field
}

// places reads the fields at these places from an object, and skips all others.
type places []place

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *places) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	switch decoder.PeekKind() {
	case '{':
	case 'n':
		p.each((*field).clear)
		return decoder.SkipValue()
	default:
		p.each((*field).misplace)
		return decoder.SkipValue()
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	p.each((*field).clear) // of members with the same name, the last one counts
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		if err := p.below(name).read(decoder); err != nil {
			return err
		}
	}
	_, err := decoder.ReadToken()
	return err
}

func (p *places) each(do func(*field)) {
	for _, at := range *p {
		do(at.field)
	}
}

// below returns the places below a member. quoted is the name of the member in JSON.
func (p *places) below(quoted jsontext.Value) places {
	var found places
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, quoted) // the decoder has validated it
	}
	for _, at := range *p {
		if first, rest, _ := strings.Cut(at.rest, "."); first == string(name) {
			found = append(found, place{rest: rest, field: at.field})
		}
	}
	return found
}

// read decodes the next value.
func (p places) read(decoder *jsontext.Decoder) error {
	switch {
	case len(p) == 0:
		return decoder.SkipValue()
	case !slices.ContainsFunc(p, func(at place) bool { return at.rest == "" }):
		return p.UnmarshalJSONFrom(decoder)
	}
	var value any
	if err := json.UnmarshalDecode(decoder, &value); err != nil {
		return err
	}
	for _, at := range p {
		if at.rest != "" && value != nil { // a field below a string field
			at.field.misplace()
			continue
		}
		at.field.set(value)
	}
	return nil
}
