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

// Loads reports whether oslo.policy loads a file of a directory of policies (policy_dirs): not if its name begins with a dot.
func Loads(name string) bool { return !strings.HasPrefix(name, ".") }

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
	file := &File{name: name}
	if failed := catch(func() { file.read(data) }); failed != nil {
		failed.File = name
		return nil, failed
	}
	return file, nil
}

// failAt ends a function that catch calls.
func failAt(line int, format string, args ...any) {
	panic(&FileError{Line: line, Err: fmt.Errorf(format, args...)})
}

// catch returns the error with which read ends, nil if there is none. The parsers of files are recursive and end at the first error.
func catch(read func()) (failed *FileError) {
	defer func() {
		switch recovered := recover().(type) {
		case nil:
		case *FileError:
			failed = recovered
		default:
			panic(recovered)
		}
	}()
	read()
	return nil
}

// read reads the rules of a file.
func (f *File) read(data []byte) {
	switch {
	case IsGzip(data):
		failAt(0, "it is compressed with gzip, so that Keystone cannot read it")
	case len(data) > MaxFileBytes:
		failAt(0, "it has more than %d bytes: %w", MaxFileBytes, ErrLimit)
	case !utf8.Valid(data):
		valid := len(data) - len(bytes.TrimLeftFunc(data, func(c rune) bool { return c != utf8.RuneError }))
		failAt(lineAt(data, valid), "it is not UTF-8, so that Keystone cannot read it")
	}
	if json.Valid(data) { // not with a byte order mark: oslo.policy reads that as YAML, too
		readJSON(data, f.add)
		return
	}
	for _, e := range readYAML(strings.TrimPrefix(string(data), byteOrderMark)) {
		f.add(e)
	}
}

// lineAt returns the line of an offset.
func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }

// entry is a rule as it is in a file, with the line of its name.
type entry struct {
	line       int
	key, value any
	// bareBang is true if the value is an exclamation mark without quotes.
	bareBang bool
}

// add parses a rule and adds it. oslo.policy loads a rule whose name is no string, but nothing can refer to it.
func (f *File) add(e entry) {
	name, named := e.key.(string)
	if !named {
		name = describe(e.key)
	}
	c, err := parseRule(e.value)
	if err != nil {
		failAt(e.line, "rule %.200q cannot be read, and with it the whole file: %w", name, err)
	}
	r := rule{name: name, file: f.name, line: e.line, value: e.value, check: c, bareBang: e.bareBang}
	if named {
		f.rules = append(f.rules, r)
	} else {
		f.unnamed = append(f.unnamed, r)
	}
}
