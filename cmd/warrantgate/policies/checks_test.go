package policies

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

func TestChecks(t *testing.T) {
	var all checks
	all.add("root:a", resultOK, "ok")
	all.add("root:b", resultUnknown, "UNKNOWN\n  no answer")
	if code, _ := cli.ExitCode(all.status()); code != cli.ExitUnknown {
		t.Errorf("exit status = %d with an unknown result", code)
	}
	all.add("root:c", resultWrong, "NOT PERMITTED\n  first\n    second")
	if code, _ := cli.ExitCode(all.status()); code != cli.ExitWrong {
		t.Errorf("exit status = %d with a wrong result", code)
	}
	for format, want := range map[string]string{
		"text": "root:a: ok\nroot:b: UNKNOWN\n  no answer\nroot:c: NOT PERMITTED\n  first\n    second\n",
		"yaml": "checks:\n- answer: ok\n  name: root:a\n  result: ok\n" +
			"- answer: UNKNOWN\n  details:\n  - no answer\n  name: root:b\n  result: unknown\n" +
			"- answer: NOT PERMITTED\n  details:\n  - first\n  - '  second'\n  name: root:c\n  result: wrong\n",
	} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			if err := all.print(&out, format); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
