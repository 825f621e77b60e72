// Package message keeps messages short: what somebody else wrote, such as a name, is cut, and so is a text that is too long for
// where it is shown. A cut is made between characters and marked with an ellipsis.
package message

import "strings"

// MaxValue is the longest value, in bytes, that a message repeats in full.
const MaxValue = 100

const mark = "…"

// Value returns a value that somebody else wrote as a message repeats it: its first MaxValue bytes if it is longer.
func Value(value string) string {
	if len(value) <= MaxValue {
		return value
	}
	return cut(value, MaxValue)
}

// Clip returns a text of at most the given number of bytes.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return cut(text, most-len(mark))
}

func cut(text string, length int) string {
	return strings.ToValidUTF8(text[:length], "") + mark
}
