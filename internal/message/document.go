package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// JSON returns a writer for a json.Encoder. It escapes the characters that Printable escapes, as JSON does, so the values do not change:
// encoding/json leaves format characters, and control characters above U+007E, as they are.
func JSON(out io.Writer) io.Writer { return jsonWriter{out} }

type jsonWriter struct{ out io.Writer }

// Write writes a whole document.
func (w jsonWriter) Write(document []byte) (int, error) {
	if _, err := w.out.Write(escapeDocument(document, true)); err != nil {
		return 0, err
	}
	return len(document), nil
}

// YAML returns an object as a YAML document that is safe for a terminal. If a value contains characters that Printable escapes, the document
// is in flow style with double quotes, which looks like JSON: only there YAML has escapes.
func YAML(object any) ([]byte, error) {
	flow, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return nil, err
	}
	flow = append(escapeDocument(flow, false), '\n')
	block, err := yaml.JSONToYAML(flow)
	if err != nil || !bytes.Equal(block, escapeDocument(block, false)) {
		return flow, err
	}
	return block, nil
}

// escapeDocument escapes the characters of a JSON document that are not printable. In JSON they are in strings only. Those beyond U+FFFF are
// written as surrogates, as JSON requires, or in the form of YAML.
func escapeDocument(document []byte, surrogates bool) []byte {
	var b strings.Builder
	for _, r := range string(document) {
		switch high, low := utf16.EncodeRune(r); {
		case r == '\n' || isPrintable(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		case surrogates:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return []byte(b.String())
}
