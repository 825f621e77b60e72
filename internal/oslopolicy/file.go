package oslopolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

const (
	// maxFileBytes bounds a policy file. Keystone's own sample has about 100 KiB.
	maxFileBytes = 256 << 10
	// maxNodes bounds what a file holds once its aliases are followed.
	maxNodes = 100_000
	// maxNesting bounds lists within lists. Three levels mean something.
	maxNesting = 32
)

// FileError says why oslo.policy cannot load a file. Keystone then goes on with the rules that it had, or fails at every request.
type FileError struct {
	// File is the name that was given, Line counts from 1 and is 0 where the place is not known.
	File string
	Line int
	// Err says what is wrong.
	Err error
}

// Error implements error.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// rule is one entry of a file.
type rule struct {
	name string
	// line is where its name stands, from 1.
	line int
	// value is what was written.
	value any
	// check is what it means.
	check check
	// bareBang tells that the value is an exclamation mark without quotes, which YAML takes for a tag.
	bareBang bool
}

// File is a policy file that oslo.policy loads.
type File struct {
	name string
	// rules are in the order of the file. Of those with the same name the last counts.
	rules []rule
	// unnamed are those whose name YAML does not read as a text, such as off without quotes.
	unnamed []rule
}

// Read reads a policy file in YAML or JSON. The name is for messages. The error is a *FileError.
func Read(name string, data []byte) (*File, error) {
	if len(data) > maxFileBytes {
		return nil, &FileError{File: name, Err: fmt.Errorf("it has %d bytes, more than the %d that are read", len(data), maxFileBytes)}
	}
	r := reader{file: &File{name: name}, data: data}
	if json.Valid(data) {
		return r.file, r.readJSON()
	}
	if err := r.readYAML(); err != nil {
		return nil, err
	}
	return r.file, nil
}

type reader struct {
	file  *File
	data  []byte
	nodes int
	// lines are those of data, once they have been needed.
	lines [][]byte
}

func (r *reader) fail(line int, format string, args ...any) error {
	return &FileError{File: r.file.name, Line: line, Err: fmt.Errorf(format, args...)}
}

// add takes a rule in. One whose name is no text is loaded, but nobody can ask for it.
func (r *reader) add(line int, key, value any, bareBang bool) error {
	name, named := key.(string)
	if !named {
		name = describe(key)
	}
	c, err := parseRule(value)
	if err != nil {
		return r.fail(line, "rule %q cannot be loaded, and with it the whole file: %w", name, err)
	}
	taken := rule{name: name, line: line, value: value, check: c, bareBang: bareBang}
	if named {
		r.file.rules = append(r.file.rules, taken)
	} else {
		r.file.unnamed = append(r.file.unnamed, taken)
	}
	return nil
}

// readYAML reads YAML 1.1 as PyYAML does: yes, no, on and off are not texts, and an exclamation mark alone is nothing at all.
func (r *reader) readYAML() error {
	decoder := yaml.NewDecoder(bytes.NewReader(r.data))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return r.syntaxError(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return r.fail(0, "it holds more than one document; only one is read")
	}
	if line := tabAfterColon(r.data); line > 0 {
		return r.fail(line, "a tab stands where YAML wants a space")
	}
	top := resolve(document.Content[0])
	if top.Kind != yaml.MappingNode {
		value, err := r.value(top, 0)
		if err == nil && !falsy(value) {
			err = r.fail(top.Line, "it holds %s, not rules with their names", describe(value))
		}
		return err
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, err := r.value(top.Content[i], 0)
		if err != nil {
			return err
		}
		node := top.Content[i+1]
		value, err := r.value(node, 0)
		if err != nil {
			return err
		}
		if err := r.add(top.Content[i].Line, key, value, r.isBareBang(node)); err != nil {
			return err
		}
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line ([0-9]+): )?`)

func (r *reader) syntaxError(err error) error {
	line := 0
	if match := yamlLine.FindStringSubmatch(err.Error()); match != nil {
		line, _ = strconv.Atoi(match[1]) // none is 0
	}
	text := yamlLine.ReplaceAllString(err.Error(), "")
	return r.fail(line, "it is no YAML: %s", text)
}

var tabbed = regexp.MustCompile(`^[^#"']*:\t`)

// tabAfterColon finds what this package's YAML library takes and PyYAML does not.
func tabAfterColon(data []byte) int {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if tabbed.Match(text) {
			return line
		}
	}
	return 0
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// isBareBang tells whether a scalar is nothing but the tag of YAML that says nothing.
func (r *reader) isBareBang(node *yaml.Node) bool {
	if node.Kind != yaml.ScalarNode || node.Value != "" || node.Tag != "!!null" {
		return false
	}
	if r.lines == nil {
		r.lines = bytes.Split(r.data, []byte("\n"))
	}
	if node.Line < 1 || node.Line > len(r.lines) || node.Column < 1 {
		return false
	}
	line := r.lines[node.Line-1]
	return node.Column <= len(line) && line[node.Column-1] == '!'
}

// value reads a node as PyYAML's safe loader does.
func (r *reader) value(node *yaml.Node, depth int) (any, error) {
	node = resolve(node)
	r.nodes++
	if depth > maxNesting || r.nodes > maxNodes {
		return nil, r.fail(node.Line, "it is nested too deeply or too large")
	}
	switch node.Kind {
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for _, element := range node.Content {
			value, err := r.value(element, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.MappingNode:
		keys := mapping{}
		for i := 0; i < len(node.Content); i += 2 {
			key, err := r.value(node.Content[i], depth+1)
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
		return keys, nil
	}
	return r.scalar(node)
}

// What PyYAML makes of a scalar without quotes, by YAML 1.1 (https://yaml.org/type/).
var (
	yamlNull      = regexp.MustCompile(`^(~|null|Null|NULL|)$`)
	yamlTrue      = regexp.MustCompile(`^(yes|Yes|YES|true|True|TRUE|on|On|ON)$`)
	yamlFalse     = regexp.MustCompile(`^(no|No|NO|false|False|FALSE|off|Off|OFF)$`)
	yamlZero      = regexp.MustCompile(`^[-+]?(0b[0_]+|0x[0_]+|0[0_]*|0[0_]*\.[0_]*([eE][-+][0-9]+)?|\.0[0_]*)$`)
	yamlNumber    = regexp.MustCompile(`^[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?|\.(inf|Inf|INF|nan|NaN|NAN))$`)
	yamlTimestamp = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?$`)
)

func (r *reader) scalar(node *yaml.Node) (any, error) {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	text := node.Value
	tagged := node.Style&yaml.TaggedStyle != 0
	switch {
	case tagged && node.Tag != "!!str":
		return nil, r.fail(node.Line, "the tag %s is not read; write the value in quotes", node.Tag)
	case tagged || node.Style&quoted != 0:
		return text, nil
	case yamlNull.MatchString(text):
		return nil, nil
	case yamlTrue.MatchString(text):
		return true, nil
	case yamlFalse.MatchString(text):
		return false, nil
	case yamlZero.MatchString(text):
		return 0.0, nil
	case yamlNumber.MatchString(text), yamlTimestamp.MatchString(text):
		return opaque(text), nil
	case text == "<<", text == "=":
		return nil, r.fail(node.Line, "%q has a meaning of its own in YAML, which is not read here; write it in quotes", text)
	}
	return text, nil
}

// readJSON reads JSON, which oslo.policy tries first.
func (r *reader) readJSON() error {
	decoder := json.NewDecoder(bytes.NewReader(r.data))
	first, err := decoder.Token()
	if err != nil {
		return r.fail(0, "it is no JSON: %w", err)
	}
	if first != json.Delim('{') {
		value, err := r.jsonValue(decoder, first, 0)
		if err == nil && !falsy(value) {
			err = r.fail(1, "it holds %s, not rules with their names", describe(value))
		}
		return err
	}
	lines := lineCounter{data: r.data, line: 1}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return r.fail(0, "it is no JSON: %w", err)
		}
		line := lines.at(decoder.InputOffset())
		value, err := r.jsonNext(decoder, 0)
		if err != nil {
			return err
		}
		if err := r.add(line, key, value, false); err != nil {
			return err
		}
	}
	return nil
}

// lineCounter finds the lines of offsets that only grow.
type lineCounter struct {
	data       []byte
	from, line int
}

func (l *lineCounter) at(offset int64) int {
	to := int(offset)
	l.line += bytes.Count(l.data[l.from:to], []byte("\n"))
	l.from = to
	return l.line
}

func (r *reader) jsonNext(decoder *json.Decoder, depth int) (any, error) {
	next, err := decoder.Token()
	if err != nil {
		return nil, r.fail(0, "it is no JSON: %w", err)
	}
	return r.jsonValue(decoder, next, depth)
}

func (r *reader) jsonValue(decoder *json.Decoder, first json.Token, depth int) (any, error) {
	r.nodes++
	if depth > maxNesting || r.nodes > maxNodes {
		return nil, r.fail(0, "it is nested too deeply or too large")
	}
	switch first := first.(type) {
	case json.Delim:
		list, keys := []any{}, mapping{}
		for decoder.More() {
			value, err := r.jsonNext(decoder, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
			if first != '{' {
				continue
			}
			keys = append(keys, value)
			if _, err := r.jsonNext(decoder, depth+1); err != nil {
				return nil, err
			}
		}
		if _, err := decoder.Token(); err != nil { // the bracket that closes
			return nil, r.fail(0, "it is no JSON: %w", err)
		}
		if first == '{' {
			return keys, nil
		}
		return list, nil
	case float64:
		if first != 0 {
			return opaque(pythonFloat(first)), nil
		}
	}
	return first, nil
}
