package oslopolicy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestYAMLValues tests the value of one rule, as PyYAML parses it.
func TestYAMLValues(t *testing.T) {
	list := func(elements ...any) []any { return append([]any{}, elements...) }
	for name, tc := range map[string]struct {
		document string
		want     any
	}{
		"nothing":                                         {"a:", nil},
		"nothing but a comment":                           {"a: # b\n", nil},
		"nothing, before another rule":                    {"a:\n\nb: c", nil},
		"a tilde":                                         {"a: ~", nil},
		"null":                                            {"a: Null", nil},
		"yes":                                             {"a: Yes", true},
		"off":                                             {"a: OFF", false},
		"zero":                                            {"a: 0", 0.0},
		"a word":                                          {"a: role:b", "role:b"},
		"a word after many blanks":                        {"a:   role:b  ", "role:b"},
		"a word on the next line":                         {"a:\n  role:b\n", "role:b"},
		"a word on the next line, commented":              {"a: # why\n\n  # that\n  role:b\n", "role:b"},
		"a parenthesis":                                   {"a: (role:b)", "(role:b)"},
		"an underscore":                                   {"a: _b:c", "_b:c"},
		"a letter of no ASCII":                            {"a: é:b", "é:b"},
		"a colon within":                                  {"a: b:c:d", "b:c:d"},
		"a hash within":                                   {"a: b#c", "b#c"},
		"a comment":                                       {"a: b #c", "b"},
		"a comment after blanks":                          {"a: b  # c\nd: e", "b"},
		"two lines":                                       {"a: role:b\n  or role:c", "role:b or role:c"},
		"two lines with blanks at their ends":             {"a: role:b  \n    or role:c  \nd: e", "role:b or role:c"},
		"two lines with an empty one between":             {"a: role:b\n\n  or role:c", "role:b\nor role:c"},
		"two lines with two between":                      {"a: role:b\n\n  \n  or role:c", "role:b\n\nor role:c"},
		"two lines, and a comment after both":             {"a: role:b\n  or role:c # d\n", "role:b or role:c"},
		"one line, and a comment after it":                {"a: role:b\n  # or role:c\nd: e", "role:b"},
		"one line, and empty ones after it":               {"a: role:b\n\n\nd: e", "role:b"},
		"in double quotes":                                {`a: "b  # c: 'd'"`, "b  # c: 'd'"},
		"in single quotes":                                {`a: 'b \n "c" it''s'`, `b \n "c" it's`},
		"a quote in single quotes at the end":             {"a: 'b'''", "b'"},
		"nothing in single quotes":                        {"a: ''", ""},
		"nothing in double quotes":                        {`a: ""`, ""},
		"a comment after quotes":                          {"a: 'b' # c\n", "b"},
		"blanks at the ends of quotes":                    {`a: " b "`, " b "},
		"escapes":                                         {`a: "\"\\\ \n\t\r"`, "\"\\ \n\t\r"},
		"characters by their numbers":                     {`a: "\x41\u00e9\U0001f600z"`, "Aé\U0001f600z"},
		"the last character by its number":                {`a: "\U0010ffff"`, "\U0010ffff"},
		"quotes in two lines":                             {"a: \"b  \n   c\"", "b c"},
		"quotes in two lines, an empty between":           {"a: 'b\n\n  c'", "b\nc"},
		"quotes in two lines, two between":                {"a: 'b\n  \n\n  c'", "b\n\nc"},
		"quotes that begin with a line break":             {"a: '\n  b'", " b"},
		"quotes that end with a line break":               {"a: 'b\n  '", "b "},
		"a line break that is escaped":                    {"a: \"b \\\n   c\"", "b c"},
		"a line break that is escaped, without a blank":   {"a: \"b\\\n   c\"", "bc"},
		"a line break that is escaped, and an empty line": {"a: \"b\\\n\n   c\"", "b\nc"},
		"quotes on the next line":                         {"a:\n  'b'\n", "b"},
		"a list":                                          {"a:\n- b\n- c\n", list("b", "c")},
		"a list that is indented":                         {"a:\n  - b\n  # c\n\n  - d\ne: f", list("b", "d")},
		"a list, and a rule after it":                     {"a:\n- b\nc: d", list("b")},
		"a list after a comment":                          {"a: # b\n- c", list("c")},
		"a list of nothing":                               {"a:\n-\n-", list(nil, nil)},
		"a list of nothing and something":                 {"a:\n-\n- # b\n- c", list(nil, nil, "c")},
		"a list of texts in two lines":                    {"a:\n- b\n  c\n- 'd\n  e'", list("b c", "d e")},
		"an element on the next line":                     {"a:\n-\n  b\n-\n  - c", list("b", list("c"))},
		"a list in a list":                                {"a:\n- - b\n  - c\n- - d", list(list("b", "c"), list("d"))},
		"a list in a list, on the next line":              {"a:\n-\n  - b\n  - c\n- d", list(list("b", "c"), "d")},
		"a list with texts in lines of their own":         {"a:\n- |\n  b\n- >-\n c\n d\n", list("b\n", "c d")},
		"a list in brackets":                              {"a: [b, 'c', \"d\" , e f,]", list("b", "c", "d", "e f")},
		"a list in brackets, in lines":                    {"a: [ # b\n  c, # d\n\n  e\n  ] # f\ng: h", list("c", "e")},
		"an empty list in brackets":                       {"a: [ ]", list()},
		"lists in brackets in brackets":                   {"a: [[b], [], {c: d}]", list(list("b"), list(), mapping{"c"})},
		"all that may be in brackets":                     {"a: [z019azAZÀ_ .:%()/'@!+$-]", list("z019azAZÀ_ .:%()/'@!+$-")},
		"null and true in brackets":                       {"a: [null, on, 0]", list(nil, true, 0.0)},
		"a list of lists in brackets":                     {"a:\n- [b, c]\n- [d]", list(list("b", "c"), list("d"))},
		"a mapping":                                       {"a: {b: c, 'd': e, \"f\":g, h : [i], j:\n k}", mapping{"b", "d", "f", "h", "j"}},
		"an empty mapping":                                {"a: {}", mapping{}},
		"a text in lines of its own":                      {"a: |\n  b\n   c\n  d\n", "b\n c\nd\n"},
		"with a comment":                                  {"a: | # b\n  c\n", "c\n"},
		"with a hash":                                     {"a: |\n  b # c\n", "b # c\n"},
		"without a line end":                              {"a: |\n  b", "b"},
		"with empty lines":                                {"a: |\n  b\n\n \n  c\n\n\nd: e", "b\n\n\nc\n"},
		"with a line of blanks":                           {"a: |\n  b\n    \n  c\n", "b\n  \nc\n"},
		"with empty lines that are kept":                  {"a: |+\n  b\n\n\nc: d", "b\n\n\n"},
		"with no line end kept":                           {"a: |-\n  b\n\nc: d", "b"},
		"kept, without a line end":                        {"a: |+\n  b", "b"},
		"folded":                                          {"a: >\n  b\n  c\n\n  d\n\n\n  e\n", "b c\nd\n\ne\n"},
		"folded, with lines that are indented":            {"a: >\n  b\n   c\n   d\n  e\n  f\n", "b\n c\n d\ne f\n"},
		"folded, with a line of blanks":                   {"a: >\n  b\n    \n  c\n", "b\n  \nc\n"},
		"folded, with no line end kept":                   {"a: >-\n  b\n  c\n\n", "b c"},
		"a text of its own that is missing":               {"a: |", ""},
		"after an empty line":                             {"a: >\n\n  b", "\nb"},
		"indented by a number":                            {"a: |2\n    b", "  b"},
		"other letters in brackets":                       {"a: [b;c]", list("b;c")},
		"nothing in braces":                               {"a: {b: , c}", mapping{"b", "c"}},
		"quotes in a line without blanks":                 {"a: 'b\nc'", "b c"},
		"folded, with empty lines that are kept":          {"a: >+\n  b\n\n", "b\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			entries := readYAML(tc.document)
			if diff := cmp.Diff(entry{line: 1, key: "a", value: tc.want}, entries[0], cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("the first rule (-want +got):\n%s", diff)
			}
		})
	}
}

// TestYAMLRules tests the names of rules and their line numbers.
func TestYAMLRules(t *testing.T) {
	longest := strings.Repeat("n", 1000) // PyYAML finds the colon within 1024 characters
	for name, tc := range map[string]struct {
		document string
		want     []entry
	}{
		"none":                     {"# a\n\n  # b\n", nil},
		"none, after a start":      {"---\n", nil},
		"after a start":            {"# a\n--- # b\n# c\nd: e", []entry{{line: 4, key: "d", value: "e"}}},
		"several":                  {"a: b\n# c\n\nd: |\n  e\n\n  f\ng:\n- h\ni: 'j\n\n  k'\nl: m\n", []entry{{line: 1, key: "a", value: "b"}, {line: 4, key: "d", value: "e\n\nf\n"}, {line: 8, key: "g", value: []any{"h"}}, {line: 10, key: "i", value: "j\nk"}, {line: 13, key: "l", value: "m"}}},
		"after texts in two lines": {"a: b\n\n  c\nd: \"e\\\n  f\"\ng: h", []entry{{line: 1, key: "a", value: "b\nc"}, {line: 4, key: "d", value: "ef"}, {line: 6, key: "g", value: "h"}}},
		"with odd names": {"\"a: b\" : c\n'd''e':\nf g  : h\ni:j: k\nl#m: n\noff: o\n~: p\n(q): r", []entry{
			{line: 1, key: "a: b", value: "c"}, {line: 2, key: "d'e"}, {line: 3, key: "f g", value: "h"}, {line: 4, key: "i:j", value: "k"},
			{line: 5, key: "l#m", value: "n"}, {line: 6, key: false, value: "o"}, {line: 7, value: "p"}, {line: 8, key: "(q)", value: "r"},
		}},
		"with exclamation marks":                            {"a: !\nb: ! # c\nd: '!'", []entry{{line: 1, key: "a", bareBang: true}, {line: 2, key: "b", bareBang: true}, {line: 3, key: "d", value: "!"}}},
		"after a comment that is longer than a name may be": {"#" + longest + "\na: b", []entry{{line: 2, key: "a", value: "b"}}},
		"with the longest name":                             {longest + ": a", []entry{{line: 1, key: longest, value: "a"}}},
		"in braces":                                         {"{a: b,\n 'c': [d],}\n# f\n", []entry{{line: 1, key: "a", value: "b"}, {line: 2, key: "c", value: []any{"d"}}}},
		"in braces, in lines":                               {"# a\n{\n  \"b\":\n    'c',\n\n  d: [e,\n  f], g: null # h\n}\n", []entry{{line: 3, key: "b", value: "c"}, {line: 6, key: "d", value: []any{"e", "f"}}, {line: 7, key: "g"}}},
		"in braces, after a start":                          {"---\n{a: b}", []entry{{line: 2, key: "a", value: "b"}}},
		"none, in braces":                                   {"{ } # a\n", []entry{}},
		"with the longest name in braces":                   {"{" + longest + ": a}", []entry{{line: 1, key: longest, value: "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, readYAML(tc.document), cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// TestYAMLErrors tests files that PyYAML rejects, and files that only this package rejects.
func TestYAMLErrors(t *testing.T) {
	const (
		tab     = "there is a tab, which YAML allows in few places only; use spaces"
		special = " may have a special meaning in YAML; put it in quotes"
		number  = " may be a number or a date to YAML; put it in quotes"
		indent  = "the line is indented, but belongs to no rule above it; begin names of rules at the beginning of a line"
		missing = "the name of a rule is missing, or is not text in one line"
		deep    = "it is nested too deeply or has too many values: a limit of warrantgate, not of oslo.policy"
		within  = "a colon ends a name where a space follows it, and this is within a value; put the whole value in quotes"
		tag     = "a tag of YAML is not read here; put the value in quotes"
		anchor  = "anchors and aliases of YAML are not read here; write the rule out, or refer to it as rule:NAME"
		escape  = `the escape \' is not in all versions of YAML; write ' in double quotes, or '' in single quotes`
		several = "it has several documents of YAML, and only one is read; take the line with --- or ... out"
		cannot  = "it cannot be read: yaml: "
		quotes  = "; put each name and each check in quotes"
	)
	for name, tc := range map[string]struct {
		document string
		line     int
		want     string // "" if the file is valid
	}{
		"a name alone":                         {"a\n", 1, `it is "a", not rules with their names`},
		"a list":                               {"# a\n- b\n", 2, "it is a list, not rules with their names"},
		"a list as a name":                     {"[a]: b", 1, missing},
		"a name that is missing":               {"{? : a}", 1, missing},
		"a name that is a text of its own":     {"? |\n a\n: b", 1, indent},
		"a name that is a number":              {"a: b\n5: c", 2, `"5"` + number},
		"a number in two lines":                {"b: c\na: 5\n  6", 2, `"5 6"` + number},
		"a tab before the colon":               {"a\t: b", 1, tab},
		"a tab after a value":                  {"a: 'b'\t", 1, tab},
		"a tab after quotes with a hash":       {"a: ' #'\t", 1, tab},
		"a tab after quotes in two lines":      {"a: '\n# b'\t", 2, tab},
		"a tab before a rule":                  {"a: 'b'\n\tc: d", 2, tab},
		"a tab in quotes":                      {"a: 'b\tc'", 1, tab},
		"tabs in comments":                     {"#\ta\tb\na: b # c\td", 0, ""},
		"a dash that begins a text":            {"a: -b", 1, `"-b"` + special},
		"a tilde before a text":                {"a: ~b", 1, `"~b"` + special},
		"no number of JSON":                    {"a: NaN", 1, `"NaN"` + special},
		"a colon before a bracket":             {"a: [b:]", 1, `"b:"` + special},
		"another key":                          {"a: b\n<<: c", 2, `"<<"` + special},
		"a pair in brackets":                   {"a: [b: c]", 1, within},
		"rules below a name":                   {"a:\n  b: c", 2, within},
		"rules in a list":                      {"a:\n- b: c", 2, within},
		"an indented rule":                     {" a: b", 1, indent},
		"an explicit name":                     {"? a\n: b", 1, indent},
		"a tag":                                {"a: !!str b", 1, tag},
		"a tag of a list":                      {"a: !b\n- c", 1, tag},
		"a tag of all":                         {"!a\nb: c", 1, tag},
		"a tag of all in braces":               {"!a {}", 1, tag},
		"something after the empty tag":        {"a: ! b", 1, tag},
		"quotes after the empty tag":           {"a: ! ''", 1, tag},
		"an anchor":                            {"a: &b c", 1, anchor},
		"an anchor of a name":                  {"&a b: c", 1, anchor},
		"an anchor of all":                     {"&a {b: c}", 1, anchor},
		"an alias in a list":                   {"a: [*b]", 0, cannot + "unknown anchor 'b' referenced" + quotes},
		"a comment at the sign":                {"a: |#\n  b", 1, "'#' does not belong after the sign that a text in lines of its own follows; write |, |-, > or >-"},
		"an escaped quote":                     {`a: "\'"`, 1, escape},
		"several documents":                    {"a: b\n---\nc: d", 2, several},
		"several documents, the second broken": {"a: b\n---\n'", 0, cannot + "line 3: found unexpected end of stream" + quotes},
		"a colon in the second line":           {"a: b\n  c: d", 0, cannot + "line 2: mapping values are not allowed in this context" + quotes},
		"quotes that are not closed":           {"b: c\na: 'b\n  c", 0, cannot + "line 2: found unexpected end of stream" + quotes},
		"as deep as is read":                   {"a: " + strings.Repeat("[", maxNesting+1) + strings.Repeat("]", maxNesting+1), 0, ""},
		"deeper":                               {"a: " + strings.Repeat("[", maxNesting+2) + strings.Repeat("]", maxNesting+2), 1, deep},
		"deeper in braces":                     {"a: " + strings.Repeat("{a: ", maxNesting+1) + "b" + strings.Repeat("}", maxNesting+1), 1, deep},
		"as deep in dashes as is read":         {"a:\n" + strings.Repeat("- ", maxNesting) + "b", 0, ""},
		"deeper in dashes":                     {"a:\n" + strings.Repeat("- ", maxNesting+1) + "b", 2, deep},
		"deeper in dashes, nothing":            {"a:\n" + strings.Repeat("- ", maxNesting+1), 2, deep},
		"deeper than is parsed":                {"a: " + strings.Repeat("[", 100_000), 0, cannot + "exceeded max depth of 10000" + quotes},
	} {
		t.Run(name, func(t *testing.T) {
			got := FileError{Err: errors.New("")}
			if failed := catch(func() { readYAML(tc.document) }); failed != nil {
				got = *failed
			}
			if got.Line != tc.line || got.Err.Error() != tc.want {
				t.Errorf("readYAML() = %d %q, want %d %q", got.Line, got.Err, tc.line, tc.want)
			}
		})
	}
}
