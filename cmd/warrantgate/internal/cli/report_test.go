package cli_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

func TestPrintReport(t *testing.T) {
	for format, want := range map[string]string{"text": "as text", "json": "{\n  \"a\": \"b\\u202e\"\n}\n", "yaml": "{\n  \"a\": \"b\\u202e\"\n}\n"} {
		var out bytes.Buffer
		text := func(out io.Writer) error {
			_, err := io.WriteString(out, "as text")
			return err
		}
		if err := cli.CheckFormat(format); err != nil {
			t.Error(err)
		}
		if err := cli.PrintReport(&out, format, map[string]string{"a": "b\u202e"}, text); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
	if err := cli.CheckFormat("xml"); err == nil || err.Error() != `--output: "xml" must be one of text, json, yaml` {
		t.Errorf("CheckFormat() = %v", err)
	}
}

func TestTable(t *testing.T) {
	var text bytes.Buffer
	cli.Table(&text, "  ", [][]string{{"a:", "b\t\x1b"}, {"long:", "c"}})
	if diff := cmp.Diff("  a:     b\\t\\x1b\n  long:  c\n", text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
