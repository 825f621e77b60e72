package oslopolicy

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// notYAML is the format of an error of the library, which has the line.
const notYAML = "it cannot be read: %w; put each name and each check in quotes"

// yamlReader reads the rules of a document.
type yamlReader struct {
	// lines are the characters of each line.
	lines [][]rune
	// nodes is the number of values.
	nodes int
}

// readYAML parses the part of YAML that oslo.policy parses in the same way: one mapping of names to scalars, lists, and mappings in braces.
//
// The library of oslo.policy is PyYAML (YAML 1.1 with exceptions). The library for Go is a port of libyaml, which has the parser of PyYAML. What
// the two read in another way is rejected, as are anchors, tags, and what depends on the version of YAML. So PyYAML accepts each file that
// this function accepts, with the same result. An end-to-end test compares both.
func readYAML(document string) []entry {
	// Python converts all line endings to newlines.
	document = strings.ReplaceAll(document, "\r\n", "\n")
	y := &yamlReader{}
	for line := range strings.SplitSeq(document, "\n") {
		y.lines = append(y.lines, []rune(line))
		checkLine(len(y.lines), line)
	}
	decoder := yaml.NewDecoder(strings.NewReader(document))
	var root yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		failAt(0, notYAML, err)
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		failAt(second.Line, "it has several documents of YAML, and only one is read; take the line with --- or ... out")
	case !errors.Is(err, io.EOF):
		failAt(0, notYAML, err)
	}
	return y.rules(root.Content[0])
}

// checkLine fails for characters that YAML does not allow, and for those that only one of the libraries accepts.
func checkLine(number int, line string) {
	for _, r := range line {
		why := ""
		switch {
		case r == '\t', r >= 0x20 && r <= 0x7e:
		case r == '\r':
			why = "a carriage return without a line feed"
		case r == '\ufeff':
			why = "a byte order mark that is not at its beginning"
		case r == 0x85, r == 0x2028, r == 0x2029:
			why = fmt.Sprintf("the line separator %U", r)
		case r < 0xa0, r == 0xfffe, r == 0xffff:
			why = fmt.Sprintf("the control character %U", r)
		}
		if why != "" {
			failAt(number, "it contains %s; remove it", why)
		}
	}
	// PyYAML accepts tabs in comments and quotes only. A comment is known by having no quotes between # and tab.
	code, comment, _ := strings.Cut(" "+line[:strings.LastIndexByte(line, '\t')+1], " #")
	if strings.Contains(code, "\t") || strings.ContainsAny(comment, `'"`) {
		failAt(number, "there is a tab, which YAML allows in few places only; use spaces")
	}
	if strings.Contains(line, `\'`) {
		failAt(number, `the escape \' is not in all versions of YAML; write ' in double quotes, or '' in single quotes`)
	}
}

// char returns a character of the text of a node, from its beginning, and a space after the end of the line.
func (y *yamlReader) char(n *yaml.Node, i int) rune {
	if n.Line > len(y.lines) || n.Column-1+i >= len(y.lines[n.Line-1]) {
		return ' '
	}
	return y.lines[n.Line-1][n.Column-1+i]
}

// rules returns the rules of a document.
func (y *yamlReader) rules(root *yaml.Node) []entry {
	first := y.char(root, 0)
	if root.Kind != yaml.MappingNode || first == '&' || first == '!' {
		if value, _ := y.value(root, 0); !falsy(value) {
			failAt(root.Line, "it is %s, not rules with their names", describe(value))
		}
		return nil
	}
	entries := make([]entry, 0, len(root.Content)/2)
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i]
		if first != '{' && key.Column != 1 {
			failAt(key.Line, "the line is indented, but belongs to no rule above it; begin names of rules at the beginning of a line")
		}
		e := entry{line: key.Line, key: y.name(key)}
		e.value, e.bareBang = y.value(root.Content[i+1], 0)
		entries = append(entries, e)
	}
	return entries
}

// name returns the name of a rule, or a key of a mapping in braces.
func (y *yamlReader) name(n *yaml.Node) any {
	if n.Kind != yaml.ScalarNode || n.Style == 0 && n.Value == "" || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		failAt(n.Line, "the name of a rule is missing, or is not text in one line")
	}
	name, _ := y.node(n, 0)
	return name
}

// value returns a value of a rule. bareBang is that of an entry.
func (y *yamlReader) value(n *yaml.Node, depth int) (value any, bareBang bool) {
	y.nodes++
	if depth > maxNesting || y.nodes > maxNodes {
		failAt(n.Line, "%w", errTooNested)
	}
	return y.node(n, depth)
}

// node returns the value of a node.
func (y *yamlReader) node(n *yaml.Node, depth int) (value any, bareBang bool) {
	first := y.char(n, 0)
	switch {
	case n.Anchor != "" || n.Kind == yaml.AliasNode || first == '&':
		failAt(n.Line, "anchors and aliases of YAML are not read here; write the rule out, or refer to it as rule:NAME")
	case first == '!' && y.char(n, 1) == ' ' && n.Kind == yaml.ScalarNode && n.Style == 0 && n.Value == "":
		return nil, true
	case first == '!':
		failAt(n.Line, "a tag of YAML is not read here; put the value in quotes")
	case n.Kind == yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, element := range n.Content {
			list[i], _ = y.value(element, depth+1)
		}
		return list, false
	case n.Kind == yaml.MappingNode && first != '{':
		failAt(n.Line, "a colon ends a name where a space follows it, and this is within a value; put the whole value in quotes")
	case n.Kind == yaml.MappingNode:
		keys := mapping{}
		for i := 0; i < len(n.Content); i += 2 {
			keys = append(keys, y.name(n.Content[i]))
			y.value(n.Content[i+1], depth+1)
		}
		return keys, false
	case n.Style == 0:
		return plain(n), false
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		i := 1
		for strings.ContainsRune("+-0123456789", y.char(n, i)) {
			i++
		}
		if y.char(n, i) != ' ' { // only PyYAML rejects a comment without a space before it
			failAt(n.Line, "%q does not belong after the sign that a text in lines of its own follows; write |, |-, > or >-", y.char(n, i))
		}
	}
	return n.Value, false
}

// Plain scalars that are no strings in YAML 1.1, as in PyYAML.
var (
	yamlNull  = []string{"", "~", "null", "Null", "NULL"}
	yamlTrue  = []string{"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}
	yamlFalse = []string{"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}
	// jsonOnly matches numbers of Python's JSON parser, which oslo.policy uses first.
	jsonOnly = []string{"NaN", "Infinity"}
)

// plain returns the value of a scalar without quotes.
func plain(n *yaml.Node) any {
	switch first, _ := utf8.DecodeRuneInString(n.Value); {
	case slices.Contains(yamlNull, n.Value):
		return nil
	case slices.Contains(yamlTrue, n.Value):
		return true
	case slices.Contains(yamlFalse, n.Value):
		return false
	case n.Value == "0":
		return 0.0
	case unicode.IsDigit(first):
		failAt(n.Line, "%.100q may be a number or a date to YAML; put it in quotes", n.Value)
	case !unicode.IsLetter(first) && first != '_' && first != '(', strings.HasSuffix(n.Value, ":"), slices.Contains(jsonOnly, n.Value):
		failAt(n.Line, "%.100q may have a special meaning in YAML; put it in quotes", n.Value)
	}
	return n.Value
}
