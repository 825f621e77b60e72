// Package message shortens texts for messages: values that other users wrote, such as names, and texts that exceed a size limit. It
// cuts between characters and appends an ellipsis.
package message

import "strings"

// MaxValue is the size of the longest value, in bytes, that a message contains in full.
const MaxValue = 100

const mark = "…"

// Value returns a value of another user for a message. It cuts a value longer than MaxValue bytes after MaxValue bytes.
func Value(value string) string {
	if len(value) <= MaxValue {
		return value
	}
	return cut(value, MaxValue)
}

// Clip returns the text, cut to at most the given number of bytes.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return cut(text, most-len(mark))
}

func cut(text string, length int) string {
	return strings.ToValidUTF8(text[:length], "") + mark
}
