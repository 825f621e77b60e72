package oslopolicy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxKeyBytes bounds the name of a rule with what stands before its colon. PyYAML looks no further than 1024 characters.
const maxKeyBytes = 1000

// yamlReader reads the part of YAML that policies are written in, and nothing else: one mapping of names to scalars in any
// style, and lists. Whatever YAML has besides (tags, anchors, directives, several documents, numbers, nested mappings in
// blocks, tabs between tokens) is an error in words of its own.
//
// A library cannot be used, because the ones for Go and the one of oslo.policy (PyYAML, which is YAML 1.1 with surprises) read
// some files differently, and each difference would be a file that is judged as something else than what Keystone loads.
// What this reader takes, PyYAML takes, with the same meaning; an end-to-end test holds the two against each other.
type yamlReader struct {
	text string
	// at is the offset of what comes next, begin that of its line, which is the number line from 1.
	at, begin, line int
	nodes           int
}

// yamlEntry is a rule with its name.
type yamlEntry struct {
	line       int
	key, value any
	// bareBang tells that the value is an exclamation mark without quotes.
	bareBang bool
}

// yamlError says what cannot be read, and in which line.
type yamlError struct {
	line int
	err  error
}

func (e *yamlError) Error() string { return e.err.Error() }

func (y *yamlReader) fail(format string, args ...any) error {
	return &yamlError{line: y.line, err: fmt.Errorf(format, args...)}
}

// readYAML reads a document. Python reads text files with one kind of line ends, whatever they have.
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

// characters refuses what YAML does not allow anywhere, and what some take for the end of a line and some do not.
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
			why = "a byte order mark"
		case r == 0x85, r == 0x2028, r == 0x2029:
			why = fmt.Sprintf("the line separator %U", r)
		case r < 0xa0, r == 0xfffe, r == 0xffff:
			why = fmt.Sprintf("the control character %U", r)
		case r == utf8.RuneError && !strings.HasPrefix(y.text[i:], "\ufffd"):
			why = "what is not UTF-8"
		}
		if why != "" {
			return &yamlError{line: line, err: fmt.Errorf("it holds %s; take it out", why)}
		}
	}
	return nil
}

func (y *yamlReader) ended() bool { return y.at >= len(y.text) }

func (y *yamlReader) column() int { return y.at - y.begin }

// peek is the next byte, 0 at the end. There is no such byte in the text.
func (y *yamlReader) peek() byte { return y.peekAt(0) }

func (y *yamlReader) peekAt(n int) byte {
	if y.at+n >= len(y.text) {
		return 0
	}
	return y.text[y.at+n]
}

// newline takes the end of a line, if it is next.
func (y *yamlReader) newline() bool {
	if y.peek() != '\n' {
		return false
	}
	y.at++
	y.begin, y.line = y.at, y.line+1
	return true
}

// take takes all that is next of some characters.
func (y *yamlReader) take(chars string) bool {
	taken := false
	for !y.ended() && strings.IndexByte(chars, y.peek()) >= 0 {
		y.at++
		taken = true
	}
	return taken
}

// comment takes a comment, if it is next: at the beginning of a line, or after a space.
func (y *yamlReader) comment() bool {
	if y.peek() != '#' || y.column() > 0 && y.text[y.at-1] != ' ' {
		return false
	}
	for !y.ended() && y.peek() != '\n' {
		y.at++
	}
	return true
}

// skip takes empty lines and comments, up to the first character of something else.
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
		return y.fail("a tab stands where YAML wants spaces; write spaces, or put the value in quotes")
	}
	return nil
}

// endLine takes the rest of a line, in which nothing may follow but a comment.
func (y *yamlReader) endLine() error {
	y.take(" ")
	y.comment()
	if y.newline() || y.ended() {
		return nil
	}
	if err := y.noTab(); err != nil {
		return err
	}
	return y.fail("%s does not belong where it stands; put the whole value in quotes, and a space before a comment", y.next())
}

// next is the next character, for messages.
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

// blank tells whether a byte separates tokens: a space, the end of a line, or the end of the text.
func blank(b byte) bool { return b == ' ' || b == '\n' || b == 0 }

// atDash tells whether an element of a list begins here.
func (y *yamlReader) atDash() bool { return y.peek() == '-' && blank(y.peekAt(1)) }

// entry reads a rule.
func (y *yamlReader) entry() (yamlEntry, error) {
	rest := y.text[y.at:]
	switch {
	case y.column() == 0 && (strings.HasPrefix(rest, "---") || strings.HasPrefix(rest, "...")):
		return yamlEntry{}, y.fail("%s ends a document of YAML, and only one is read; take the line out", rest[:3])
	case y.atDash():
		return yamlEntry{}, y.fail("it holds a list, not rules with their names")
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

// key reads the name of a rule, which is on one line.
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

// value reads what stands after the colon or dash of a parent that is indented so far. A list below a name need not be
// indented any further.
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

// count bounds what a file holds.
func (y *yamlReader) count(depth int) error {
	y.nodes++
	if depth > maxNesting || y.nodes > maxNodes {
		return y.fail("it is nested too deeply or too large")
	}
	return nil
}

// node reads a value, up to the end of its last line. It may be a list in lines of its own, if it begins one.
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

// list reads elements that each begin with a dash in a column.
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
