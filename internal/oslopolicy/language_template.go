package oslopolicy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errMissing means that the target does not have an attribute of a template. Most checks are then false.
var errMissing = errors.New("the target has no such attribute")

// maxWidth is the maximum width of the padding in a template.
const maxWidth = 1000

// template is a format string for Python's % operator.
type template struct {
	text string
	// parts is nil if the text has no percent sign.
	parts []conversion
}

func newTemplate(text string) template {
	if !strings.Contains(text, "%") {
		return template{text: text}
	}
	return template{text: text, parts: parseTemplate(text)}
}

// conversion is one %(name)s of a template.
type conversion struct {
	// literal is the text before the conversion.
	literal string
	// key is the name of the attribute. bare is true if there is none, as in %s, and percent is true for %%.
	key           string
	bare, percent bool
	// left, width and precision are as in %-5.3s. -1 means none.
	left             bool
	width, precision int
	// verb is the conversion type, 0 if the template ends before it.
	verb rune
	// bad is the syntax error, if any.
	bad string
}

// parseTemplate splits a template into conversions. The last one contains the text after all others, with percent true and no verb.
func parseTemplate(text string) []conversion {
	var parts []conversion
	for {
		literal, rest, found := strings.Cut(text, "%")
		c := conversion{literal: literal, width: -1, precision: -1}
		if !found {
			c.percent = true
			return append(parts, c)
		}
		text = c.parse(rest)
		parts = append(parts, c)
		if c.bad != "" {
			return parts
		}
	}
}

// parse parses the text after a percent sign and returns the rest.
func (c *conversion) parse(rest string) string {
	if strings.HasPrefix(rest, "%") {
		c.percent, c.verb = true, '%'
		return rest[1:]
	}
	c.bare = true
	if strings.HasPrefix(rest, "(") {
		end := closing(rest)
		if end < 0 {
			c.bad = "the name is not closed"
			return ""
		}
		c.bare, c.key, rest = false, rest[1:end], rest[end+1:]
	}
	flags := rest[:len(rest)-len(strings.TrimLeft(rest, "#0- +"))]
	c.left = strings.Contains(flags, "-")
	rest = number(rest[len(flags):], &c.width)
	if strings.HasPrefix(rest, ".") {
		c.precision = 0
		rest = number(rest[1:], &c.precision)
	}
	if rest != "" && strings.ContainsRune("hlL", rune(rest[0])) {
		rest = rest[1:]
	}
	if rest == "" {
		c.bad = "it ends before the letter that says how to write the attribute, such as s"
		return ""
	}
	verb, size := utf8.DecodeRuneInString(rest)
	c.verb = verb
	switch {
	case !strings.ContainsRune("srdiu%", verb):
		c.bad = fmt.Sprintf("%q is not a conversion of an attribute; use s", verb)
	case c.width > maxWidth || c.precision > maxWidth:
		c.bad = fmt.Sprintf("it asks for more than %d characters", maxWidth)
	}
	return rest[size:]
}

// closing returns the index of the parenthesis that closes the one at the start.
func closing(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// number parses digits, if any, and returns the rest.
func number(text string, into *int) string {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	if digits != "" {
		n, err := strconv.Atoi(digits)
		if err != nil {
			n = maxWidth + 1
		}
		*into = n
	}
	return text[len(digits):]
}

// attributes returns the names of the attributes in a template.
func (t template) attributes() []string {
	var names []string
	for _, c := range t.parts {
		if !c.percent && !c.bare {
			names = append(names, c.key)
		}
	}
	return names
}

// mistake returns the syntax error of the template, "" if there is none.
func (t template) mistake() string {
	for _, c := range t.parts {
		if c.bad != "" {
			return c.bad
		}
		if c.bare && c.verb != '%' {
			return "it has a conversion without a name"
		}
	}
	return ""
}

// fill replaces the attributes in a template by those of a target, as Python's % operator does. It returns errMissing for a missing attribute,
// and another error if Python raises an exception that oslo.policy does not catch.
func (t template) fill(target map[string]any) (string, error) {
	if t.parts == nil {
		return t.text, nil
	}
	var b strings.Builder
	for _, c := range t.parts {
		b.WriteString(c.literal)
		if c.percent {
			if c.verb == '%' {
				b.WriteByte('%')
			}
			continue
		}
		value, known := target[c.key]
		switch {
		case !c.bare && !known: // Python looks up the name before it parses the rest
			return "", errMissing
		case c.bad != "":
			return "", fmt.Errorf("%q cannot be filled in: %s", t.text, c.bad)
		case c.verb == '%':
			b.WriteByte('%')
			continue
		case c.bare:
			return "", fmt.Errorf("%q writes the whole target, which is not evaluated here; name an attribute", t.text)
		}
		text, err := c.write(value)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func (c *conversion) write(value any) (string, error) {
	var text string
	switch c.verb {
	case 's':
		text = pythonString(value)
	case 'r':
		text = pythonRepr(value)
	default:
		switch value := value.(type) {
		case bool:
			text = "0"
			if value {
				text = "1"
			}
		case int, int64, uint64:
			text = pythonString(value)
		default:
			return "", fmt.Errorf("%%(%s)%c needs a number; write %%(%s)s", c.key, c.verb, c.key)
		}
		if c.precision >= 0 || c.width >= 0 {
			return "", fmt.Errorf("%%(%s)%c with a width is not evaluated here; write %%(%s)s", c.key, c.verb, c.key)
		}
	}
	if runes := []rune(text); c.precision >= 0 && len(runes) > c.precision {
		text = string(runes[:c.precision])
	}
	if padding := c.width - utf8.RuneCountInString(text); padding > 0 {
		if c.left {
			return text + strings.Repeat(" ", padding), nil
		}
		return strings.Repeat(" ", padding) + text, nil
	}
	return text, nil
}
