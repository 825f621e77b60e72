// Package message prepares texts of other users for messages. It shortens values, such as names, and texts that exceed a size limit: it
// cuts between characters and appends an ellipsis. It also escapes characters that a terminal would act on.
package message

import (
	"strconv"
	"strings"
	"unicode"
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

// Printable returns a text for a terminal, as one line: it escapes all characters that are not printable or not visible, as in Go. Other users
// could otherwise control the terminal, change the order of characters, or add lines that look like those of the program.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if isPrintable(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// isPrintable reports whether a terminal shows a character, and does nothing else. It excludes control and format characters (categories Cc and
// Cf), and letters and marks without a glyph, which Unicode lets programs ignore (property Default_Ignorable_Code_Point).
func isPrintable(r rune) bool {
	return strconv.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

func cut(text string, length int) string {
	return strings.ToValidUTF8(text[:length], "") + mark
}
