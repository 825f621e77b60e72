package message_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/message"
)

// Escapes do not change what a program reads.
func TestDocuments(t *testing.T) {
	for name, tc := range map[string]struct {
		value    string
		wantJSON string
		wantYAML string
	}{
		"printable":         {"é \"x\"", `{"a é":"é \"x\""}` + "\n", "a é: é \"x\"\n"},
		"lines":             {"x\n---\ny", `{"a é":"x\n---\ny"}` + "\n", "a é: |-\n  x\n  ---\n  y\n"},
		"a line separator":  {"x\u2028y", `{"a é":"x\u2028y"}` + "\n", "{\n  \"a é\": \"x\\u2028y\"\n}\n"},
		"a control code":    {"x\u009b2Jy\x7f", `{"a é":"x\u009b2Jy\u007f"}` + "\n", "a é: \"x\\x9B2Jy\\x7F\"\n"},
		"escape":            {"x\x1b[2J", `{"a é":"x\u001b[2J"}` + "\n", "a é: \"x\\e[2J\"\n"},
		"another direction": {"x\u202ey", `{"a é":"x\u202ey"}` + "\n", "{\n  \"a é\": \"x\\u202ey\"\n}\n"},
		"beyond U+FFFF, with another direction": {
			"x\U000e0041y\u202e", `{"a é":"x\udb40\udc41y\u202e"}` + "\n", "{\n  \"a é\": \"x\\U000e0041y\\u202e\"\n}\n",
		},
		"beyond U+FFFF": {"x\U000e0041y😀", `{"a é":"x\udb40\udc41y😀"}` + "\n", "a é: \"x\\U000E0041y\\U0001F600\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			value := map[string]string{"a é": tc.value}
			var out bytes.Buffer
			if err := json.NewEncoder(message.JSON(&out)).Encode(value); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantJSON, out.String()); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
			document, err := message.YAML(value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantYAML, string(document)); diff != "" {
				t.Errorf("YAML (-want +got):\n%s", diff)
			}
			var fromJSON, fromYAML map[string]string
			if err := json.Unmarshal(out.Bytes(), &fromJSON); err != nil {
				t.Error(err)
			}
			if err := yaml.Unmarshal(document, &fromYAML); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]map[string]string{value, value}, []map[string]string{fromJSON, fromYAML}); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
		})
	}
}
