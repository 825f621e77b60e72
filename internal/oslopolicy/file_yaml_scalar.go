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

// plainStart returns an error if a plain scalar cannot begin with the next character, or not in all versions of YAML.
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
	return y.fail("%s has a special meaning in YAML here; put the whole text in quotes", y.next())
}

// plain parses a plain scalar with its continuation lines.
func (y *yamlReader) plain(parent int) (any, error) {
	var text strings.Builder
	from := y.line
	for {
		if err := y.plainStart(); err != nil {
			return nil, err
		}
		begin := y.at
		for !y.ended() && y.peek() != '\n' && (y.peek() != '#' || y.text[y.at-1] != ' ') {
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

// emptyLines consumes lines of spaces only, and the indentation of the next line.
func (y *yamlReader) emptyLines() int {
	breaks := 0
	for y.take(" "); y.newline(); y.take(" ") {
		breaks++
	}
	return breaks
}

// folded returns the text between two lines of a folded scalar with empty lines between them.
func folded(breaks int) string {
	if breaks == 0 {
		return " "
	}
	return strings.Repeat("\n", breaks)
}

// Patterns of plain scalars in YAML 1.1, as in PyYAML.
var (
	yamlNull  = []string{"~", "null", "Null", "NULL"}
	yamlTrue  = []string{"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}
	yamlFalse = []string{"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}
	// jsonOnly matches numbers of Python's JSON parser, which oslo.policy uses first.
	jsonOnly = []string{"NaN", "Infinity"}
)

// resolve returns the value of a plain scalar that begins in a line.
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
		return nil, &yamlError{line: line, err: fmt.Errorf("%.100q may have a special meaning in YAML; put it in quotes", text)}
	}
	return text, nil
}

// yamlEscapes are the escapes in double quotes.
var yamlEscapes = map[byte]string{'"': `"`, '\\': `\`, '/': "/", ' ': " ", 'n': "\n", 't': "\t", 'r': "\r"}

// yamlCode matches numeric escapes.
var yamlCode = regexp.MustCompile(`^(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`)

// quoted parses a scalar in single or double quotes. It may have several lines.
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

// fold consumes a line break within quotes and returns its value.
func (y *yamlReader) fold(lines bool, from int) (string, error) {
	if !lines {
		return "", y.fail("the name of a rule continues in the next line, or its quotes are not closed")
	}
	y.newline()
	breaks := 0
	for y.take(" \t"); y.newline(); y.take(" \t") {
		breaks++
	}
	if !y.ended() && y.column() == 0 {
		return "", &yamlError{line: from, err: errors.New("a text in quotes is not closed, or continues in a line that is not indented")}
	}
	return folded(breaks), nil
}

// escape parses an escape.
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
	number, err := strconv.ParseInt(code[1:], 16, 32)
	character := rune(number)
	if err != nil || character == 0 || !utf8.ValidRune(character) {
		return "", y.fail("\\%s is not a character", code)
	}
	y.at += len(code)
	return string(character), nil
}

// block parses a block scalar, which is indented further than its parent.
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
