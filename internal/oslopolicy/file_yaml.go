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

// fail ends the parser with an error in the current line.
func (y *yamlReader) fail(format string, args ...any) { failAt(y.line, format, args...) }

// readYAML parses the subset of YAML that oslo.policy parses in the same way.
func readYAML(document string) []entry {
	// Python converts all line endings to newlines.
	y := &yamlReader{text: strings.ReplaceAll(document, "\r\n", "\n"), line: 1}
	y.characters()
	y.skip()
	if y.column() == 0 && strings.HasPrefix(y.text[y.at:], "---") {
		y.at += len("---")
		y.endLine()
		y.skip()
	}
	if y.column() == 0 && y.peek() == '{' {
		entries := y.flowMapping(0)
		y.endLine()
		y.skip()
		if !y.ended() {
			y.fail("something follows the bracket that closes the rules")
		}
		return entries
	}
	var entries []entry
	for !y.ended() {
		entries = append(entries, y.entry())
		y.skip()
	}
	return entries
}

// characters fails for characters that YAML does not allow, and for those that are line breaks in some versions of YAML only.
func (y *yamlReader) characters() {
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
			failAt(line, "it contains %s; remove it", why)
		}
	}
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
func (y *yamlReader) skip() {
	for {
		y.take(" ")
		y.comment()
		if !y.newline() {
			break
		}
	}
	y.noTab()
}

func (y *yamlReader) noTab() {
	if y.peek() == '\t' {
		y.fail("there is a tab where YAML requires spaces; use spaces, or put the value in quotes")
	}
}

// endLine consumes the rest of a line, which may contain a comment only.
func (y *yamlReader) endLine() {
	y.take(" ")
	y.comment()
	if y.newline() || y.ended() {
		return
	}
	y.noTab()
	y.fail("%s is unexpected here; put the whole value in quotes, and a space before a comment", y.next())
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
func (y *yamlReader) entry() entry {
	rest := y.text[y.at:]
	switch {
	case y.column() == 0 && (strings.HasPrefix(rest, "---") || strings.HasPrefix(rest, "...")):
		y.fail("%s ends a document of YAML, and only one is read; take the line out", rest[:3])
	case y.atDash():
		y.fail("it is a list, not rules with their names")
	case y.column() > 0:
		y.fail("the line is indented, but belongs to no rule above it; begin names of rules at the beginning of a line")
	}
	e, begin := entry{line: y.line}, y.at
	e.key = y.key()
	y.take(" ")
	if y.peek() != ':' || !blank(y.peekAt(1)) {
		y.noTab()
		if y.peek() == ':' && y.peekAt(1) == '\t' {
			y.at++
			y.noTab()
		}
		y.fail("the name of a rule is followed by %s, not by a colon and a space; write name: \"check\"", y.next())
	}
	if y.at-begin > maxKeyBytes {
		y.fail("the name of a rule is longer than %d bytes", maxKeyBytes)
	}
	y.at++
	e.value, e.bareBang = y.value(0, true, 0)
	return e
}

// key parses the name of a rule, on one line.
func (y *yamlReader) key() any {
	if y.peek() == '"' || y.peek() == '\'' {
		return y.quoted(false)
	}
	y.plainStart()
	begin := y.at
	for !blank(y.peek()) || y.peek() == ' ' && y.peekAt(1) != '#' {
		if y.peek() == '\t' || y.peek() == ':' && (blank(y.peekAt(1)) || y.peekAt(1) == '\t') {
			break
		}
		y.at++
	}
	return resolve(y.line, strings.TrimRight(y.text[begin:y.at], " "))
}

// value parses the value after the colon or dash of a parent with this indentation. A list below a name may have the same indentation. bareBang
// is that of an entry.
func (y *yamlReader) value(parent int, named bool, depth int) (value any, bareBang bool) {
	spaced := y.take(" ")
	own := y.peek() == '\n' || y.ended() || y.peek() == '#' && spaced
	if own {
		y.endLine()
		y.skip()
		if y.ended() || y.column() < parent || y.column() == parent && (!named || !y.atDash()) {
			y.count(depth)
			return nil, false
		}
	}
	return y.node(parent, own || !named, depth)
}

// count limits the number of values in a file.
func (y *yamlReader) count(depth int) {
	y.nodes++
	if depth > maxNesting || y.nodes > maxNodes {
		y.fail("%w", errTooNested)
	}
}

// node parses a value, up to the end of its last line. It may be a block list if it is at the beginning of a line.
func (y *yamlReader) node(parent int, listable bool, depth int) (value any, bareBang bool) {
	y.count(depth)
	switch first := y.peek(); {
	case first == '"' || first == '\'':
		value = y.quoted(true)
	case first == '[' || first == '{':
		value = y.flow(depth)
	case first == '!':
		y.at++
		if !blank(y.peek()) {
			y.fail("a tag of YAML is not read here; put the value in quotes")
		}
		bareBang = true
	case first == '|' || first == '>':
		return y.block(parent), false
	case listable && y.atDash():
		return y.list(y.column(), depth), false
	default:
		return y.plain(parent), false
	}
	y.endLine()
	return value, bareBang
}

// list parses a block list whose dashes are in this column.
func (y *yamlReader) list(column, depth int) any {
	list := []any{}
	for {
		y.at++
		element, _ := y.value(column, false, depth+1)
		list = append(list, element)
		y.skip()
		if y.ended() || y.column() < column || y.column() == column && !y.atDash() {
			return list
		}
		if y.column() > column {
			y.fail("the line is indented, but belongs to no element above it")
		}
	}
}
