package oslopolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxFileBytes is the maximum size of a policy file. Keystone's own sample has about 100 KiB.
	MaxFileBytes = 256 << 10
	// maxNodes is the maximum number of values in a file.
	maxNodes = 100_000
	// maxNesting is the maximum depth of nested lists. oslo.policy uses three levels.
	maxNesting = 32
)

// ErrLimit means that a file exceeds a limit of this package. oslo.policy may load it.
var ErrLimit = errors.New("a limit of warrantgate, not of oslo.policy")

// errTooNested means that a file exceeds maxNesting or maxNodes.
var errTooNested = fmt.Errorf("it is nested too deeply or has too many values: %w", ErrLimit)

// byteOrderMark is ignored at the beginning of a file, as in Python's YAML.
const byteOrderMark = "\ufeff"

// FileError means that oslo.policy cannot load a file, or may parse it in another way than this package. If Keystone cannot load a file, it
// keeps the former rules, or fails for every request.
type FileError struct {
	// File is the name of the file. Line counts from 1. It is 0 if the position is unknown.
	File string
	Line int
	// Err is the error.
	Err error
}

// Error implements error.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// rule is one entry of a file.
type rule struct {
	name string
	// file is the name of its file, line the line of its name, from 1.
	file string
	line int
	// value is the value in the file.
	value any
	// check is the parsed rule.
	check check
	// bareBang is true if the value is an exclamation mark without quotes, which is a tag in YAML.
	bareBang bool
}

// File is a parsed policy file.
type File struct {
	name string
	// rules are in the order of the file. The last rule of a name replaces the others.
	rules []rule
	// unnamed are the rules whose name is no string in YAML, such as off without quotes.
	unnamed []rule
}

// Source is a policy file before parsing.
type Source struct {
	// Name is the name in messages.
	Name string
	Data []byte
}

// ReadAll parses policy files. It returns the first error.
func ReadAll(sources []Source) ([]*File, error) {
	files := make([]*File, 0, len(sources))
	for _, s := range sources {
		file, err := Read(s.Name, s.Data)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// IsGzip reports whether data is compressed with gzip. Keystone does not read such a file.
func IsGzip(data []byte) bool { return bytes.HasPrefix(data, []byte("\x1f\x8b")) }

// Read parses a policy file in YAML or JSON. name is for messages. The error is a *FileError.
func Read(name string, data []byte) (*File, error) {
	r := reader{file: &File{name: name}, data: data}
	switch {
	case IsGzip(data):
		return nil, r.fail(0, "it is compressed with gzip, so that Keystone cannot read it")
	case len(data) > MaxFileBytes:
		return nil, r.fail(0, "it has %d bytes, more than %d: %w", len(data), MaxFileBytes, ErrLimit)
	case !utf8.Valid(data):
		valid := len(data) - len(bytes.TrimLeftFunc(data, func(c rune) bool { return c != utf8.RuneError }))
		return nil, r.fail(r.lineAt(valid), "it is not UTF-8, so that Keystone cannot read it")
	}
	if json.Valid(data) { // not with a byte order mark: oslo.policy reads that as YAML, too
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
}

func (r *reader) fail(line int, format string, args ...any) error {
	return &FileError{File: r.file.name, Line: line, Err: fmt.Errorf(format, args...)}
}

// lineAt returns the line of an offset.
func (r *reader) lineAt(offset int) int { return 1 + bytes.Count(r.data[:offset], []byte("\n")) }

// add adds a rule. oslo.policy loads a rule whose name is no string, but nothing can refer to it.
func (r *reader) add(line int, key, value any, bareBang bool) error {
	name, named := key.(string)
	if !named {
		name = describe(key)
	}
	c, err := parseRule(value)
	if err != nil {
		return r.fail(line, "rule %.200q cannot be read, and with it the whole file: %w", name, err)
	}
	taken := rule{name: name, file: r.file.name, line: line, value: value, check: c, bareBang: bareBang}
	if named {
		r.file.rules = append(r.file.rules, taken)
	} else {
		r.file.unnamed = append(r.file.unnamed, taken)
	}
	return nil
}

// readYAML parses the subset of YAML that oslo.policy parses in the same way.
func (r *reader) readYAML() error {
	entries, err := readYAML(strings.TrimPrefix(string(r.data), byteOrderMark))
	var unreadable *yamlError
	if errors.As(err, &unreadable) {
		return r.fail(unreadable.line, "%w", unreadable)
	}
	for _, e := range entries {
		if err := r.add(e.line, e.key, e.value, e.bareBang); err != nil {
			return err
		}
	}
	return err
}
