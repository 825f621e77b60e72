package oslopolicy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// kindClass is how oslo.policy interprets the KIND of a generic check.
type kindClass int

const (
	// kindRaises: Python cannot parse it and raises an exception, or this package cannot parse it.
	kindRaises kindClass = iota
	// kindLiteral: a literal of Python, compared as a string.
	kindLiteral
	// kindPath: a dotted path into the credentials.
	kindPath
)

var (
	// Integers. Python rejects leading zeros.
	wholePattern = regexp.MustCompile(`^[-+]?(0(_?0)*|[1-9](_?[0-9])*)$`)
	floatPattern = regexp.MustCompile(`^[-+]?([0-9](_?[0-9])*)?\.?([0-9](_?[0-9])*)?([eE][-+]?[0-9](_?[0-9])*)?$`)
	basedPattern = regexp.MustCompile(`^0([xX](_?[0-9a-fA-F])+|[oO](_?[0-7])+|[bB](_?[01])+)$`)
	// An operator of Python between two operands, with the signs of the second.
	operatorPattern = regexp.MustCompile(`[ \t]*(\*\*|//|<<|>>|[-+*/%|&^@<>])[-+~ \t]*|[ \t]+(and|or|in|is)[ \t]+(not[ \t]+)*`)
	// Operators before the first operand.
	signPattern = regexp.MustCompile(`^(not[ \t]+|[-+~][ \t]*)*`)
)

// pythonKeywords are no names in Python. A path may begin with True, False or None, as in None.x.
var pythonKeywords = []string{
	"and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except", "finally",
	"for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try",
	"while", "with", "yield",
}

var pythonConstants = []string{"True", "False", "None"}

// classifyKind returns the class of a KIND by the rules of Python's ast.literal_eval, and the string value of a literal.
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

// pythonNumber returns Python's str() of a number literal.
func pythonNumber(text string) (string, bool) {
	const longest = 100 // Python accepts thousands of digits; longer numbers are rejected here
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

// pythonText returns the value of a string literal. It supports the escapes of quotes and of the backslash only.
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

// isExpression reports whether Python parses a text as names or numbers with operators, such as project-id. This is no literal, so oslo.policy
// uses the KIND as a path.
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
