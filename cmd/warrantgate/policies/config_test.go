package policies

import (
	"strings"
	"testing"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

func TestCheckConfig(t *testing.T) {
	const valid = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"
	for name, tc := range map[string]struct {
		file        string
		wantCode    int
		wantMessage string // with the name of the file before it
	}{
		"no mistake":    {file: valid},
		"mistakes":      {file: valid + "audit: {interval: 1ms, rate: 5}\n", wantCode: cli.ExitWrong, wantMessage: "2 mistakes\n  line 3: audit.interval: "},
		"no YAML":       {file: "a: [", wantCode: cli.ExitWrong, wantMessage: "yaml: line 1: "},
		"a tab":         {file: valid + "audit:\n  mode: Off\n\tinterval: 5m\n", wantCode: cli.ExitWrong, wantMessage: "line 5: begins with a tab; indent it with spaces"},
		"more than one": {file: valid + "---\n" + valid, wantCode: cli.ExitWrong, wantMessage: "there is more than one document"},
	} {
		t.Run(name, func(t *testing.T) {
			file := clitest.WriteFile(t, "config.yaml", tc.file)
			out, code, message := runCommand(t, NewCheckCommand(), "config", file)
			if code != tc.wantCode || code == 0 && out != file+": ok\n" || code != 0 && !strings.HasPrefix(message, "configuration "+file+": "+tc.wantMessage) {
				t.Errorf("exit code = %d, output = %q, message = %q", code, out, message)
			}
		})
	}
	if _, code, message := runCommand(t, NewCheckCommand(), "config", "--config=config.yaml"); code != cli.ExitUnknown ||
		message != "unknown flag: --config: the file is an argument" {
		t.Errorf("exit code = %d, message = %s", code, message)
	}
	if _, code, message := runCommand(t, NewCheckCommand(), "config", "/nonexistent"); code != cli.ExitUnknown {
		t.Errorf("exit code = %d, message = %s", code, message)
	}
}
