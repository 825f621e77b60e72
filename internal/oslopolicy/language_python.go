package oslopolicy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// pythonString returns Python's str() of an attribute. The keys of a mapping are sorted, because their order is unknown.
func pythonString(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return pythonRepr(v)
}

// pythonRepr returns Python's repr() of an attribute.
func pythonRepr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return pythonQuote(v)
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		return pythonFloat(v)
	case json.Number:
		if number, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return pythonFloat(number)
		}
		return v.String()
	case []any:
		elements := make([]string, len(v))
		for i, element := range v {
			elements[i] = pythonRepr(element)
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case map[string]any:
		entries := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			entries = append(entries, pythonQuote(key)+": "+pythonRepr(v[key]))
		}
		return "{" + strings.Join(entries, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// pythonFloat formats a float as Python does: the shortest text that parses to the same value, with an exponent from 1e16 on.
func pythonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// pythonQuote quotes a text as Python does: in single quotes, or in double quotes if it contains single quotes and no double quotes.
func pythonQuote(text string) string {
	quote := '\''
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range text {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}
