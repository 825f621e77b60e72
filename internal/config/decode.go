package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/message"
)

// Mistakes are all mistakes in a file, by their lines.
type Mistakes []error

// Error implements error. It returns a line for each mistake.
func (m Mistakes) Error() string {
	if len(m) == 1 {
		return m[0].Error()
	}
	text := fmt.Sprintf("%d mistakes", len(m))
	for _, mistake := range m {
		text += "\n  " + mistake.Error()
	}
	return text
}

// decoder decodes a YAML document into the types of the configuration. Unlike other decoders it does not stop at the first mistake, and knows the
// lines.
type decoder struct {
	// lines are the lines of the fields that are set, by their paths.
	lines map[string]int
	found []mistake
}

type mistake struct {
	line int
	path string
	text string
}

// add adds a mistake at a path that may be missing in the file. Its line is then that of the field which should contain it.
func (d *decoder) add(path, text string) {
	line, in := d.lines[path], path
	for line == 0 && in != "" {
		in = in[:max(0, strings.LastIndexAny(in, ".["))]
		line = d.lines[in]
	}
	d.found = append(d.found, mistake{line: line, path: path, text: text})
}

// validate adds the mistakes that validation finds, except in fields that could not be decoded.
func (d *decoder) validate(errs field.ErrorList) {
	undecoded := map[string]bool{}
	for _, m := range d.found {
		undecoded[m.path] = true
	}
	for _, err := range errs {
		if !undecoded[err.Field] {
			d.add(err.Field, err.Error())
		}
	}
}

// mistakes returns what was found, by lines, or nil.
func (d *decoder) mistakes() error {
	if len(d.found) == 0 {
		return nil
	}
	slices.SortStableFunc(d.found, func(a, b mistake) int { return cmp.Compare(a.line, b.line) })
	var all Mistakes
	for _, m := range d.found {
		all = append(all, fmt.Errorf("line %d: %s", max(m.line, 1), m.text))
	}
	return all
}

// decode sets a value to a node. A value that is null or has another type is not set.
func (d *decoder) decode(node *yaml.Node, into reflect.Value, at *field.Path) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.ShortTag() == "!!null" {
		return
	}
	switch into.Interface().(type) {
	case metav1.Duration:
		duration, err := time.ParseDuration(node.Value)
		if err != nil || duration < time.Second {
			d.invalid(at, node, "must be a duration of at least 1s, such as 90s or 10m")
		}
		into.Set(reflect.ValueOf(metav1.Duration{Duration: duration}))
		return
	case v1beta1.Mode:
		if node.ShortTag() == "!!bool" && node.Value == "false" { // Off without quotes, as Helm writes it
			into.SetString(string(v1beta1.Off))
			return
		}
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.decode(node, into.Elem(), at)
	case reflect.Struct, reflect.Map:
		d.fields(node, into, at)
	case reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			d.invalid(at, node, "must be a list")
			return
		}
		into.Set(reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content)))
		for i, element := range node.Content {
			d.lines[at.Index(i).String()] = element.Line
			d.decode(element, into.Index(i), at.Index(i))
		}
	case reflect.String:
		if node.Kind != yaml.ScalarNode {
			d.invalid(at, node, "must be text")
		} else if node.ShortTag() != "!!str" && into.Type() == reflect.TypeFor[string]() { // of others, validation says which there are
			d.invalid(at, node, fmt.Sprintf("must be text: write it in quotes, as %q", node.Value))
		}
		into.SetString(node.Value)
	case reflect.Bool:
		if node.Decode(into.Addr().Interface()) != nil {
			d.invalid(at, node, "must be true or false")
		}
	default: // a limit
		if node.Decode(into.Addr().Interface()) != nil || into.Int() < 1 {
			d.invalid(at, node, "must be a whole number, at least 1")
		}
	}
}

func (d *decoder) invalid(at *field.Path, node *yaml.Node, text string) {
	switch path := at.String(); {
	case at == nil:
		d.add("", "the file "+text)
	case node.Kind == yaml.ScalarNode:
		d.add(path, field.Invalid(at, node.Value, text).Error())
	default:
		d.add(path, path+": "+text)
	}
}

// fields decodes the fields of a struct, or the entries of a map of texts.
func (d *decoder) fields(node *yaml.Node, into reflect.Value, at *field.Path) {
	if node.Kind != yaml.MappingNode {
		d.invalid(at, node, "must be a mapping of fields")
		return
	}
	known := map[string]reflect.Value{}
	if into.Kind() == reflect.Map {
		into.Set(reflect.MakeMap(into.Type()))
	} else {
		fieldsOf(into, known)
	}
	for i := 0; i < len(node.Content); i += 2 {
		name, line, value := node.Content[i].Value, node.Content[i].Line, node.Content[i+1]
		path := at.Child(name)
		if first, twice := d.lines[path.String()]; twice {
			d.found = append(d.found, mistake{line, path.String(), fmt.Sprintf("%s: is set twice, first in line %d", path, first)})
			continue
		}
		d.lines[path.String()] = line
		target, ok := known[name]
		switch {
		case into.Kind() == reflect.Map:
			text := reflect.New(into.Type().Elem()).Elem()
			d.decode(value, text, path)
			into.SetMapIndex(reflect.ValueOf(name), text)
		case ok:
			d.decode(value, target, path)
		default:
			names := slices.Sorted(maps.Keys(known))
			text := fmt.Sprintf("%s: unknown field; allowed: %s", path, strings.Join(names, ", "))
			if near := message.Nearest(name, names); near != "" {
				text = fmt.Sprintf("%s: unknown field; did you mean %s?", path, near)
			}
			d.add(path.String(), text)
		}
	}
}

// fieldsOf adds the fields of a struct by their names in JSON.
func fieldsOf(value reflect.Value, to map[string]reflect.Value) {
	for i := range value.NumField() {
		of := value.Type().Field(i)
		if of.Anonymous {
			fieldsOf(value.Field(i), to)
			continue
		}
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		to[name] = value.Field(i)
	}
}
