package message_test

import (
	"strings"
	"testing"

	"warrantgate.dev/internal/message"
)

func TestValue(t *testing.T) {
	for name, tc := range map[string]struct{ value, want string }{
		"empty":                       {"", ""},
		"as long as the limit":        {strings.Repeat("a", 100), strings.Repeat("a", 100)},
		"longer":                      {strings.Repeat("a", 101), strings.Repeat("a", 100) + "…"},
		"longer, cut at a whole rune": {strings.Repeat("a", 99) + "éé", strings.Repeat("a", 99) + "…"},
		"as long as the limit, runes": {strings.Repeat("é", 50), strings.Repeat("é", 50)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := message.Value(tc.value); got != tc.want {
				t.Errorf("Value() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClip(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                       {"", ""},
		"as long as the limit":        {strings.Repeat("a", 10), strings.Repeat("a", 10)},
		"longer":                      {strings.Repeat("a", 11), strings.Repeat("a", 7) + "…"},
		"longer, cut at a whole rune": {"aaaaaaééé", "aaaaaa…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := message.Clip(tc.text, 10); got != tc.want || len(got) > 10 {
				t.Errorf("Clip() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPrintable(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"printable":             {`user "é" in root:orgs, it's \n`, `user "é" in root:orgs, it's \n`},
		"an escape sequence":    {"a\x1b[2Jb", `a\x1b[2Jb`},
		"a longer control code": {"a\u009b2Jb", `a\u009b2Jb`},
		"lines and columns":     {"a\r\n\tb\u2028c", `a\r\n\tb\u2028c`},
		"another direction":     {"a\u202eb\u2066c\u061cd", `a\u202eb\u2066c\u061cd`},
		"invisible":             {"a\u200bb\u00adc\ufeffd\u2060e\U000e0041f", `a\u200bb\u00adc\ufeffd\u2060e\U000e0041f`},
		"letters without glyph": {"a\u3164b\u115fc\ufe0fd", `a\u3164b\u115fc\ufe0fd`},
		"not UTF-8":             {"a\xffb", "a\ufffdb"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := message.Printable(tc.text); got != tc.want {
				t.Errorf("Printable() = %q, want %q", got, tc.want)
			}
		})
	}
}
