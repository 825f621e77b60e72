package oslopolicy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
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

func (y *yamlReader) take(any string) bool {
	taken := false
	for !y.ended() && strings.IndexByte(any, y.peek()) >= 0 {
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
		if y.ended() || y.column() < parent || y.column() == parent && !(named && y.atDash()) {
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

// plainStart refuses what YAML does not read as a text without quotes, or not everywhere.
func (y *yamlReader) plainStart() error {
	r, _ := utf8.DecodeRuneInString(y.text[y.at:])
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '(' || r == '~' {
		return nil
	}
	if err := y.noTab(); err != nil {
		return err
	}
	switch {
	case y.ended() || r == '\n':
		return y.fail("a name or a value is missing")
	case r == '&' || r == '*':
		return y.fail("anchors and aliases of YAML are not read here; write the rule out, or refer to it as rule:NAME")
	}
	return y.fail("%s has a meaning of its own in YAML where it stands; put the whole text in quotes", y.next())
}

// plain reads a text without quotes, with the lines that continue it.
func (y *yamlReader) plain(parent int) (any, error) {
	var text strings.Builder
	from := y.line
	for {
		if err := y.plainStart(); err != nil {
			return nil, err
		}
		begin := y.at
		for !y.ended() && y.peek() != '\n' && !(y.peek() == '#' && y.text[y.at-1] == ' ') {
			if y.peek() == ':' && blank(y.peekAt(1)) {
				return nil, y.fail("a colon ends a name where a space follows it, and this is within a value; put the whole value in quotes")
			}
			if err := y.noTab(); err != nil {
				return nil, err
			}
			y.at++
		}
		text.WriteString(strings.TrimRight(y.text[begin:y.at], " "))
		commented := y.comment()
		if !y.newline() || commented {
			break
		}
		breaks := y.emptyLines()
		if y.ended() || y.column() <= parent || y.peek() == '#' {
			break
		}
		text.WriteString(folded(breaks))
	}
	return resolve(from, text.String())
}

// emptyLines takes lines that hold nothing but spaces, and the spaces before what follows them.
func (y *yamlReader) emptyLines() int {
	breaks := 0
	for y.take(" "); y.newline(); y.take(" ") {
		breaks++
	}
	return breaks
}

// folded is what joins two lines of a scalar, with empty lines between them.
func folded(breaks int) string {
	if breaks == 0 {
		return " "
	}
	return strings.Repeat("\n", breaks)
}

// What a text without quotes means by YAML 1.1, as PyYAML has it.
var (
	yamlNull  = []string{"~", "null", "Null", "NULL"}
	yamlTrue  = []string{"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}
	yamlFalse = []string{"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}
	// jsonOnly is read as a number by Python's reader of JSON, which comes first.
	jsonOnly = []string{"NaN", "Infinity"}
)

// resolve gives a text without quotes, which begins in a line, its meaning.
func resolve(line int, text string) (any, error) {
	switch first, _ := utf8.DecodeRuneInString(text); {
	case slices.Contains(yamlNull, text):
		return nil, nil
	case slices.Contains(yamlTrue, text):
		return true, nil
	case slices.Contains(yamlFalse, text):
		return false, nil
	case text == "0":
		return 0.0, nil
	case unicode.IsDigit(first):
		return nil, &yamlError{line: line, err: fmt.Errorf("%.100q may be a number or a date to YAML; put it in quotes", text)}
	case first == '~' || slices.Contains(jsonOnly, text):
		return nil, &yamlError{line: line, err: fmt.Errorf("%.100q may have a meaning of its own; put it in quotes", text)}
	}
	return text, nil
}

// yamlEscapes are what a backslash and a character mean within double quotes.
var yamlEscapes = map[byte]string{'"': `"`, '\\': `\`, '/': "/", ' ': " ", 'n': "\n", 't': "\t", 'r': "\r"}

// yamlCode finds the characters that are written by their number.
var yamlCode = regexp.MustCompile(`^(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`)

// quoted reads a text in single or double quotes, perhaps in several lines.
func (y *yamlReader) quoted(lines bool) (string, error) {
	quote, from := y.peek(), y.line
	y.at++
	var text strings.Builder
	for {
		begin := y.at
		blanks := y.take(" \t")
		switch b := y.peek(); {
		case y.ended():
			return "", &yamlError{line: from, err: errors.New("a text in quotes is not closed")}
		case b == '\n':
			joint, err := y.fold(lines, from)
			if err != nil {
				return "", err
			}
			text.WriteString(joint)
		case blanks:
			text.WriteString(y.text[begin:y.at])
		case b == quote && quote == '\'' && y.peekAt(1) == quote:
			text.WriteByte(quote)
			y.at += 2
		case b == quote:
			y.at++
			return text.String(), nil
		case b == '\\' && quote == '"':
			character, err := y.escape(lines, from)
			if err != nil {
				return "", err
			}
			text.WriteString(character)
		default:
			text.WriteByte(b)
			y.at++
		}
	}
}

// fold takes the end of a line within quotes and says what it means.
func (y *yamlReader) fold(lines bool, from int) (string, error) {
	if !lines {
		return "", y.fail("the name of a rule goes on in the next line, or its quotes are not closed")
	}
	y.newline()
	breaks := 0
	for y.take(" \t"); y.newline(); y.take(" \t") {
		breaks++
	}
	if !y.ended() && y.column() == 0 {
		return "", &yamlError{line: from, err: errors.New("a text in quotes is not closed, or goes on in a line that is not indented")}
	}
	return folded(breaks), nil
}

// escape reads what begins with a backslash.
func (y *yamlReader) escape(lines bool, from int) (string, error) {
	y.at++
	b := y.peek()
	if b == '\n' {
		joint, err := y.fold(lines, from)
		return strings.TrimLeft(joint, " "), err
	}
	if text, ok := yamlEscapes[b]; ok {
		y.at++
		return text, nil
	}
	code := yamlCode.FindString(y.text[y.at:])
	if code == "" {
		return "", y.fail("a backslash before %s is not read here; write the character itself, or use single quotes", y.next())
	}
	number, err := strconv.ParseInt(code[1:], 16, 64)
	if err != nil || number == 0 || number > unicode.MaxRune || !utf8.ValidRune(rune(number)) {
		return "", y.fail("\\%s is no character", code)
	}
	y.at += len(code)
	return string(rune(number)), nil
}

// block reads a text in lines of its own, which are indented further than its parent.
func (y *yamlReader) block(parent int) (string, error) {
	fold := y.peek() == '>'
	y.at++
	chomping := y.peek()
	if chomping == '-' || chomping == '+' {
		y.at++
	}
	if !blank(y.peek()) {
		if err := y.noTab(); err != nil {
			return "", err
		}
		return "", y.fail("%s does not belong after the sign that a text in lines of its own follows; write |, |-, > or >-", y.next())
	}
	if err := y.endLine(); err != nil {
		return "", err
	}
	y.take(" ")
	if err := y.noTab(); err != nil {
		return "", err
	}
	indent := y.column()
	if indent <= parent || blank(y.peek()) {
		return "", y.fail("the text that | or > announces is missing, not indented, or begins with an empty line")
	}
	var text strings.Builder
	for {
		if err := y.noTab(); err != nil {
			return "", err
		}
		begin := y.at
		for !y.ended() && y.peek() != '\n' {
			y.at++
		}
		text.WriteString(y.text[begin:y.at])
		broken, breaks := y.newline(), 0
		for {
			for y.column() < indent && y.peek() == ' ' {
				y.at++
			}
			if !y.newline() {
				break
			}
			breaks++
		}
		if y.column() < indent || y.ended() {
			if broken && chomping != '-' {
				text.WriteByte('\n')
				if chomping == '+' {
					text.WriteString(strings.Repeat("\n", breaks))
				}
			}
			return text.String(), nil
		}
		if fold && y.text[begin] != ' ' && y.peek() != ' ' {
			text.WriteString(folded(breaks))
		} else {
			text.WriteString(strings.Repeat("\n", breaks+1))
		}
	}
}

// flow reads a list or a mapping in brackets.
func (y *yamlReader) flow(depth int) (any, error) {
	if y.peek() == '{' {
		entries, err := y.flowMapping(depth)
		if err != nil {
			return nil, err
		}
		keys := mapping{}
		for _, e := range entries {
			keys = append(keys, e.key)
		}
		return keys, nil
	}
	list := []any{}
	err := y.brackets(']', func() error {
		element, err := y.flowNode(depth + 1)
		list = append(list, element)
		return err
	})
	return list, err
}

// flowMapping reads a mapping in brackets.
func (y *yamlReader) flowMapping(depth int) ([]yamlEntry, error) {
	var entries []yamlEntry
	err := y.brackets('}', func() error {
		e, begin := yamlEntry{line: y.line}, y.at
		quoted := y.peek() == '"' || y.peek() == '\''
		var err error
		if quoted {
			e.key, err = y.quoted(false)
		} else {
			e.key, err = y.flowPlain()
		}
		if err != nil {
			return err
		}
		y.take(" ")
		if y.peek() != ':' || !quoted && !blank(y.peekAt(1)) {
			if err := y.noTab(); err != nil {
				return err
			}
			return y.fail("a name is followed by %s, not by a colon and a space", y.next())
		}
		if y.at-begin > maxKeyBytes {
			return y.fail("a name is longer than %d bytes", maxKeyBytes)
		}
		y.at++
		if err := y.skip(); err != nil {
			return err
		}
		e.value, err = y.flowNode(depth + 1)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// brackets reads elements with commas between them, up to the bracket that closes.
func (y *yamlReader) brackets(closing byte, element func() error) error {
	from := y.line
	for y.at++; ; y.at++ {
		if err := y.skip(); err != nil {
			return err
		}
		if y.peek() == closing {
			break
		}
		if err := element(); err != nil {
			return err
		}
		if err := y.skip(); err != nil {
			return err
		}
		if y.peek() == closing {
			break
		}
		if y.ended() {
			return &yamlError{line: from, err: errors.New("a bracket is not closed")}
		}
		if y.peek() != ',' {
			return y.fail("%s does not belong where it stands between brackets; put texts in quotes, and commas between them", y.next())
		}
	}
	y.at++
	return nil
}

func (y *yamlReader) flowNode(depth int) (any, error) {
	if err := y.count(depth); err != nil {
		return nil, err
	}
	switch y.peek() {
	case '"', '\'':
		return y.quoted(true)
	case '[', '{':
		return y.flow(depth)
	}
	return y.flowPlain()
}

// flowPlain reads a text without quotes between brackets. It is on one line, and of few characters, because many more have a
// meaning of their own there.
func (y *yamlReader) flowPlain() (any, error) {
	if err := y.plainStart(); err != nil {
		return nil, err
	}
	begin := y.at
	for b := y.peek(); b != 0 && (b >= 0x80 || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.IndexByte("_ .:%()/'@!+$-", b) >= 0); b = y.peek() {
		if b == ':' && (blank(y.peekAt(1)) || strings.IndexByte(",[]{}\t", y.peekAt(1)) >= 0) {
			break
		}
		y.at++
	}
	return resolve(y.line, strings.TrimRight(y.text[begin:y.at], " "))
}
