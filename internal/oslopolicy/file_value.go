package oslopolicy

import (
	"fmt"
	"strconv"
)

// mapping contains the keys of a mapping in a file. oslo.policy ignores the values.
type mapping []any

// opaque is the text of a value of a file that is true in Python, and neither a string nor a list.
type opaque string

// falsy reports whether a value of a file is false in Python. A rule with such a value allows.
func falsy(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case mapping:
		return len(v) == 0
	}
	return false
}

// describe describes a value of a file in messages.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return pythonFloat(v)
	case opaque:
		return string(v)
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "a list"
	case mapping:
		if len(v) == 0 {
			return "{}"
		}
		return "a mapping"
	}
	return fmt.Sprintf("%v", v)
}
