// Package message prepares texts of other users for messages. It shortens values, such as names, and texts that exceed a size limit: it
// cuts between characters and appends an ellipsis. It also escapes characters that a terminal would act on.
package message

import (
	"strconv"
	"strings"
)

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

// Printable returns a text for a terminal, as one line: it escapes all characters that are not printable, as in Go. Other users could
// otherwise control the terminal, or add lines that look like those of the program.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

func cut(text string, length int) string {
	return strings.ToValidUTF8(text[:length], "") + mark
}
