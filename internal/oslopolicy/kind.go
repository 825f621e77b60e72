package oslopolicy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// kindClass is what oslo.policy makes of the KIND of a generic check.
type kindClass int

const (
	// kindRaises: Python cannot parse it and raises an exception. What this package cannot judge counts as that, too.
	kindRaises kindClass = iota
	// kindLiteral: a literal of Python, compared as text.
	kindLiteral
	// kindPath: a dotted path into the credentials.
	kindPath
)

var (
	// Numbers without a fraction. Python refuses leading zeros.
	wholePattern = regexp.MustCompile(`^[-+]?(0(_?0)*|[1-9](_?[0-9])*)$`)
	floatPattern = regexp.MustCompile(`^[-+]?([0-9](_?[0-9])*)?\.?([0-9](_?[0-9])*)?([eE][-+]?[0-9](_?[0-9])*)?$`)
	basedPattern = regexp.MustCompile(`^0([xX](_?[0-9a-fA-F])+|[oO](_?[0-7])+|[bB](_?[01])+)$`)
	// An operator of Python between two operands, with the signs of the second.
	operatorPattern = regexp.MustCompile(`[ \t]*(\*\*|//|<<|>>|[-+*/%|&^@<>])[-+~ \t]*|[ \t]+(and|or|in|is)[ \t]+(not[ \t]+)*`)
	// What may stand before the first.
	signPattern = regexp.MustCompile(`^(not[ \t]+|[-+~][ \t]*)*`)
)

// pythonKeywords may not be names. True, False and None may begin a path, as in None.x.
var pythonKeywords = []string{
	"and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except", "finally",
	"for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try",
	"while", "with", "yield",
}

var pythonConstants = []string{"True", "False", "None"}

// classifyKind tells what Python's ast.literal_eval makes of a KIND, and the text of a literal.
func classifyKind(kind string) (class kindClass, literal string) {
	trimmed := strings.TrimLeft(kind, " \t")
	if slices.Contains(pythonConstants, trimmed) {
		return kindLiteral, trimmed
	}
	if number, ok := pythonNumber(trimmed); ok {
		return kindLiteral, number
	}
	if text, ok := pythonText(trimmed); ok {
		return kindLiteral, text
	}
	if isExpression(trimmed) {
		return kindPath, ""
	}
	return kindRaises, ""
}

// pythonNumber gives str() of a literal number.
func pythonNumber(text string) (string, bool) {
	const longest = 100 // Python reads some thousands of digits, and nobody writes them
	if len(text) > longest || strings.Trim(text, "+-._eE") == "" {
		return "", false
	}
	plain := strings.TrimPrefix(strings.ReplaceAll(text, "_", ""), "+")
	switch {
	case wholePattern.MatchString(text):
		if strings.Trim(plain, "-0") == "" {
			return "0", true
		}
		return plain, true
	case basedPattern.MatchString(text):
		number, err := strconv.ParseUint(plain, 0, 64)
		return strconv.FormatUint(number, 10), err == nil
	case strings.ContainsAny(text, ".eE") && floatPattern.MatchString(text):
		number, err := strconv.ParseFloat(plain, 64)
		return pythonFloat(number), err == nil
	}
	return "", false
}

// pythonText gives the value of a literal text. Escapes, other than those of quotes and of the backslash, are left out.
func pythonText(text string) (string, bool) {
	if len(text) > 0 && strings.ContainsRune("uU", rune(text[0])) {
		text = text[1:]
	}
	if len(text) < 2 || text[0] != '\'' && text[0] != '"' || text[len(text)-1] != text[0] {
		return "", false
	}
	quote, inner := text[0], text[1:len(text)-1]
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case quote, '\n':
			return "", false
		case '\\':
			i++
			if i == len(inner) || !strings.ContainsRune(`\'"`, rune(inner[i])) {
				return "", false
			}
		}
		b.WriteByte(inner[i])
	}
	return b.String(), true
}

// isExpression tells whether Python parses a text as names or numbers joined by operators. Such a thing has no value as a
// literal, so that the KIND is taken for a path as it stands: project-id is one.
func isExpression(text string) bool {
	for _, operand := range operatorPattern.Split(signPattern.ReplaceAllString(text, ""), -1) {
		if _, ok := pythonNumber(operand); !ok && !isDottedName(operand) {
			return false
		}
	}
	return true
}

func isDottedName(text string) bool {
	for i, name := range strings.Split(text, ".") {
		if name == "" || slices.Contains(pythonKeywords, name) || i > 0 && slices.Contains(pythonConstants, name) {
			return false
		}
		for j, r := range name {
			if r != '_' && !unicode.IsLetter(r) && (j == 0 || !unicode.IsDigit(r)) {
				return false
			}
		}
	}
	return true
}
