package oslopolicy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plainStart fails if a plain scalar cannot begin with the next character, or not in all versions of YAML.
func (y *yamlReader) plainStart() {
	r, _ := utf8.DecodeRuneInString(y.text[y.at:])
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '(' || r == '~' {
		return
	}
	y.noTab()
	switch {
	case y.ended() || r == '\n':
		y.fail("a name or a value is missing")
	case r == '&' || r == '*':
		y.fail("anchors and aliases of YAML are not read here; write the rule out, or refer to it as rule:NAME")
	}
	y.fail("%s has a special meaning in YAML here; put the whole text in quotes", y.next())
}

// plain parses a plain scalar with its continuation lines.
func (y *yamlReader) plain(parent int) any {
	var text strings.Builder
	from := y.line
	for {
		y.plainStart()
		begin := y.at
		for !y.ended() && y.peek() != '\n' && (y.peek() != '#' || y.text[y.at-1] != ' ') {
			if y.peek() == ':' && blank(y.peekAt(1)) {
				y.fail("a colon ends a name where a space follows it, and this is within a value; put the whole value in quotes")
			}
			y.noTab()
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
func resolve(line int, text string) any {
	switch first, _ := utf8.DecodeRuneInString(text); {
	case slices.Contains(yamlNull, text):
		return nil
	case slices.Contains(yamlTrue, text):
		return true
	case slices.Contains(yamlFalse, text):
		return false
	case text == "0":
		return 0.0
	case unicode.IsDigit(first):
		failAt(line, "%.100q may be a number or a date to YAML; put it in quotes", text)
	case first == '~' || slices.Contains(jsonOnly, text):
		failAt(line, "%.100q may have a special meaning in YAML; put it in quotes", text)
	}
	return text
}

// yamlEscapes are the escapes in double quotes.
var yamlEscapes = map[byte]string{'"': `"`, '\\': `\`, '/': "/", ' ': " ", 'n': "\n", 't': "\t", 'r': "\r"}

// yamlCode matches numeric escapes.
var yamlCode = regexp.MustCompile(`^(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})`)

// quoted parses a scalar in single or double quotes. It may have several lines.
func (y *yamlReader) quoted(lines bool) string {
	quote, from := y.peek(), y.line
	y.at++
	var text strings.Builder
	for {
		begin := y.at
		blanks := y.take(" \t")
		switch b := y.peek(); {
		case y.ended():
			failAt(from, "a text in quotes is not closed")
		case b == '\n':
			text.WriteString(y.fold(lines, from))
		case blanks:
			text.WriteString(y.text[begin:y.at])
		case b == quote && quote == '\'' && y.peekAt(1) == quote:
			text.WriteByte(quote)
			y.at += 2
		case b == quote:
			y.at++
			return text.String()
		case b == '\\' && quote == '"':
			text.WriteString(y.escape(lines, from))
		default:
			text.WriteByte(b)
			y.at++
		}
	}
}

// fold consumes a line break within quotes and returns its value.
func (y *yamlReader) fold(lines bool, from int) string {
	if !lines {
		y.fail("the name of a rule continues in the next line, or its quotes are not closed")
	}
	y.newline()
	breaks := 0
	for y.take(" \t"); y.newline(); y.take(" \t") {
		breaks++
	}
	if !y.ended() && y.column() == 0 {
		failAt(from, "a text in quotes is not closed, or continues in a line that is not indented")
	}
	return folded(breaks)
}

// escape parses an escape.
func (y *yamlReader) escape(lines bool, from int) string {
	y.at++
	b := y.peek()
	if b == '\n' {
		return strings.TrimLeft(y.fold(lines, from), " ")
	}
	if text, ok := yamlEscapes[b]; ok {
		y.at++
		return text
	}
	code := yamlCode.FindString(y.text[y.at:])
	if code == "" {
		y.fail("a backslash before %s is not read here; write the character itself, or use single quotes", y.next())
	}
	number, err := strconv.ParseInt(code[1:], 16, 32)
	character := rune(number)
	if err != nil || character == 0 || !utf8.ValidRune(character) {
		y.fail("\\%s is not a character", code)
	}
	y.at += len(code)
	return string(character)
}

// block parses a block scalar, which is indented further than its parent.
func (y *yamlReader) block(parent int) string {
	fold := y.peek() == '>'
	y.at++
	chomping := y.peek()
	if chomping == '-' || chomping == '+' {
		y.at++
	}
	if !blank(y.peek()) {
		y.noTab()
		y.fail("%s does not belong after the sign that a text in lines of its own follows; write |, |-, > or >-", y.next())
	}
	y.endLine()
	y.take(" ")
	y.noTab()
	indent := y.column()
	if indent <= parent || blank(y.peek()) {
		y.fail("the text that | or > announces is missing, not indented, or begins with an empty line")
	}
	var text strings.Builder
	for {
		y.noTab()
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
			return text.String()
		}
		if fold && y.text[begin] != ' ' && y.peek() != ' ' {
			text.WriteString(folded(breaks))
		} else {
			text.WriteString(strings.Repeat("\n", breaks+1))
		}
	}
}
