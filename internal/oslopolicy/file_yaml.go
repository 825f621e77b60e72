package oslopolicy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxKeyBytes is the maximum length of the name of a rule. PyYAML finds the colon only within 1024 characters.
const maxKeyBytes = 1000

// yamlReader parses the subset of YAML that policies use: one mapping of names to scalars in any style, and lists. All other features of
// YAML are errors: tags, anchors, directives, several documents, numbers, nested block mappings, and tabs between tokens.
//
// It uses no library, because the libraries for Go parse some files in another way than PyYAML, the library of oslo.policy (YAML 1.1 with
// exceptions). For such a file, the linter would check other rules than Keystone loads. PyYAML accepts each file that this parser accepts,
// with the same result. An end-to-end test compares both.
type yamlReader struct {
	text string
	// at is the current offset, begin the offset of the current line, and line its number, from 1.
	at, begin, line int
	nodes           int
}

// yamlEntry is a rule with its name.
type yamlEntry struct {
	line       int
	key, value any
	// bareBang is true if the value is an exclamation mark without quotes.
	bareBang bool
}

// yamlError is an error with its line.
type yamlError struct {
	line int
	err  error
}

func (e *yamlError) Error() string { return e.err.Error() }

func (e *yamlError) Unwrap() error { return e.err }

func (y *yamlReader) fail(format string, args ...any) error {
	return &yamlError{line: y.line, err: fmt.Errorf(format, args...)}
}

// readYAML parses a document. Python converts all line endings to newlines.
func readYAML(document string) ([]yamlEntry, error) {
	y := &yamlReader{text: strings.ReplaceAll(document, "\r\n", "\n"), line: 1}
	if err := y.characters(); err != nil {
		return nil, err
	}
	if err := y.skip(); err != nil {
		return nil, err
	}
	if y.column() == 0 && strings.HasPrefix(y.text[y.at:], "---") {
		y.at += len("---")
		if err := y.endLine(); err != nil {
			return nil, err
		}
		if err := y.skip(); err != nil {
			return nil, err
		}
	}
	if y.column() == 0 && y.peek() == '{' {
		entries, err := y.flowMapping(0)
		if err == nil {
			err = y.endLine()
		}
		if err == nil {
			err = y.skip()
		}
		if err == nil && !y.ended() {
			err = y.fail("something follows the bracket that closes the rules")
		}
		return entries, err
	}
	var entries []yamlEntry
	for !y.ended() {
		e, err := y.entry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
		if err := y.skip(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// characters returns an error for characters that YAML does not allow, and for those that are line breaks in some versions of YAML only.
func (y *yamlReader) characters() error {
	line := 1
	for i, r := range y.text {
		why := ""
		switch {
		case r == '\n':
			line++
		case r == '\t', r >= 0x20 && r <= 0x7e:
		case r == '\r':
			why = "a carriage return without a line feed"
		case r == '\ufeff':
			why = "a byte order mark that is not at its beginning"
		case r == 0x85, r == 0x2028, r == 0x2029:
			why = fmt.Sprintf("the line separator %U", r)
		case r < 0xa0, r == 0xfffe, r == 0xffff:
			why = fmt.Sprintf("the control character %U", r)
		case r == utf8.RuneError && !strings.HasPrefix(y.text[i:], "\ufffd"):
			why = "bytes that are not UTF-8"
		}
		if why != "" {
			return &yamlError{line: line, err: fmt.Errorf("it contains %s; remove it", why)}
		}
	}
	return nil
}

func (y *yamlReader) ended() bool { return y.at >= len(y.text) }

func (y *yamlReader) column() int { return y.at - y.begin }

// peek returns the next byte, 0 at the end. The text contains no NUL.
func (y *yamlReader) peek() byte { return y.peekAt(0) }

func (y *yamlReader) peekAt(n int) byte {
	if y.at+n >= len(y.text) {
		return 0
	}
	return y.text[y.at+n]
}

// newline consumes a line break, if it is next.
func (y *yamlReader) newline() bool {
	if y.peek() != '\n' {
		return false
	}
	y.at++
	y.begin, y.line = y.at, y.line+1
	return true
}

// take consumes all following characters of a set.
func (y *yamlReader) take(chars string) bool {
	taken := false
	for !y.ended() && strings.IndexByte(chars, y.peek()) >= 0 {
		y.at++
		taken = true
	}
	return taken
}

// comment consumes a comment, if it is next: at the beginning of a line, or after a space.
func (y *yamlReader) comment() bool {
	if y.peek() != '#' || y.column() > 0 && y.text[y.at-1] != ' ' {
		return false
	}
	for !y.ended() && y.peek() != '\n' {
		y.at++
	}
	return true
}

// skip consumes empty lines and comments.
func (y *yamlReader) skip() error {
	for {
		y.take(" ")
		y.comment()
		if !y.newline() {
			break
		}
	}
	return y.noTab()
}

func (y *yamlReader) noTab() error {
	if y.peek() == '\t' {
		return y.fail("there is a tab where YAML requires spaces; use spaces, or put the value in quotes")
	}
	return nil
}

// endLine consumes the rest of a line, which may contain a comment only.
func (y *yamlReader) endLine() error {
	y.take(" ")
	y.comment()
	if y.newline() || y.ended() {
		return nil
	}
	if err := y.noTab(); err != nil {
		return err
	}
	return y.fail("%s is unexpected here; put the whole value in quotes, and a space before a comment", y.next())
}

// next returns the next character, for messages.
func (y *yamlReader) next() string {
	r, _ := utf8.DecodeRuneInString(y.text[y.at:])
	switch {
	case y.ended():
		return "the end of the file"
	case r == '\n':
		return "the end of the line"
	}
	return strconv.QuoteRune(r)
}

// blank reports whether a byte separates tokens: a space, the end of a line, or the end of the text.
func blank(b byte) bool { return b == ' ' || b == '\n' || b == 0 }

// atDash reports whether an element of a block list begins here.
func (y *yamlReader) atDash() bool { return y.peek() == '-' && blank(y.peekAt(1)) }

// entry parses a rule.
func (y *yamlReader) entry() (yamlEntry, error) {
	rest := y.text[y.at:]
	switch {
	case y.column() == 0 && (strings.HasPrefix(rest, "---") || strings.HasPrefix(rest, "...")):
		return yamlEntry{}, y.fail("%s ends a document of YAML, and only one is read; take the line out", rest[:3])
	case y.atDash():
		return yamlEntry{}, y.fail("it is a list, not rules with their names")
	case y.column() > 0:
		return yamlEntry{}, y.fail("the line is indented, but belongs to no rule above it; begin names of rules at the beginning of a line")
	}
	e, begin := yamlEntry{line: y.line}, y.at
	var err error
	if e.key, err = y.key(); err != nil {
		return yamlEntry{}, err
	}
	y.take(" ")
	if y.peek() != ':' || !blank(y.peekAt(1)) {
		if err := y.noTab(); err != nil {
			return yamlEntry{}, err
		}
		if y.peek() == ':' && y.peekAt(1) == '\t' {
			y.at++
			return yamlEntry{}, y.noTab()
		}
		return yamlEntry{}, y.fail("the name of a rule is followed by %s, not by a colon and a space; write name: \"check\"", y.next())
	}
	if y.at-begin > maxKeyBytes {
		return yamlEntry{}, y.fail("the name of a rule is longer than %d bytes", maxKeyBytes)
	}
	y.at++
	e.value, e.bareBang, err = y.value(0, true, 0)
	return e, err
}

// key parses the name of a rule, on one line.
func (y *yamlReader) key() (any, error) {
	if y.peek() == '"' || y.peek() == '\'' {
		return y.quoted(false)
	}
	if err := y.plainStart(); err != nil {
		return nil, err
	}
	begin := y.at
	for !blank(y.peek()) || y.peek() == ' ' && y.peekAt(1) != '#' {
		if y.peek() == '\t' || y.peek() == ':' && (blank(y.peekAt(1)) || y.peekAt(1) == '\t') {
			break
		}
		y.at++
	}
	return resolve(y.line, strings.TrimRight(y.text[begin:y.at], " "))
}

// value parses the value after the colon or dash of a parent with this indentation. A list below a name may have the same indentation.
func (y *yamlReader) value(parent int, named bool, depth int) (any, bool, error) {
	spaced := y.take(" ")
	own := y.peek() == '\n' || y.ended() || y.peek() == '#' && spaced
	if own {
		if err := y.endLine(); err != nil {
			return nil, false, err
		}
		if err := y.skip(); err != nil {
			return nil, false, err
		}
		if y.ended() || y.column() < parent || y.column() == parent && (!named || !y.atDash()) {
			return nil, false, y.count(depth)
		}
	}
	return y.node(parent, own || !named, depth)
}

// count limits the number of values in a file.
func (y *yamlReader) count(depth int) error {
	y.nodes++
	if depth > maxNesting || y.nodes > maxNodes {
		return y.fail("%w", errTooNested)
	}
	return nil
}

// node parses a value, up to the end of its last line. It may be a block list if it is at the beginning of a line.
func (y *yamlReader) node(parent int, listable bool, depth int) (any, bool, error) {
	if err := y.count(depth); err != nil {
		return nil, false, err
	}
	var value any
	var err error
	switch y.peek() {
	case '"', '\'':
		value, err = y.quoted(true)
	case '[', '{':
		value, err = y.flow(depth)
	case '|', '>':
		value, err = y.block(parent)
		return value, false, err
	case '!':
		y.at++
		if !blank(y.peek()) {
			return nil, false, y.fail("a tag of YAML is not read here; put the value in quotes")
		}
		return nil, true, y.endLine()
	default:
		if listable && y.atDash() {
			value, err = y.list(y.column(), depth)
			return value, false, err
		}
		value, err = y.plain(parent)
		return value, false, err
	}
	if err == nil {
		err = y.endLine()
	}
	return value, false, err
}

// list parses a block list whose dashes are in this column.
func (y *yamlReader) list(column, depth int) (any, error) {
	list := []any{}
	for {
		y.at++
		element, _, err := y.value(column, false, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, element)
		if err := y.skip(); err != nil {
			return nil, err
		}
		if y.ended() || y.column() < column || y.column() == column && !y.atDash() {
			return list, nil
		}
		if y.column() > column {
			return nil, y.fail("the line is indented, but belongs to no element above it")
		}
	}
}
