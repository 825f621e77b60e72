package policies

import (
	"strings"
	"testing"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

func TestCheckConfig(t *testing.T) {
	const (
		unlisted = "  note: cloudSigma.defaultRegion is \"zrh\", which is not one of cloudSigma.regions: machines of clusters without spec.region are denied (RegionNotAllowed)\n"
		nothing  = " has neither a selector nor objects, so the gate is off and evaluates nothing\n"
	)
	const valid = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"
	for name, tc := range map[string]struct {
		file        string
		wantCode    int
		wantMessage string // with the name of the file before it
		wantNotes   string
	}{
		"no mistake":                     {file: valid},
		"regions with the default one":   {file: valid + "cloudSigma: {regions: [next, zrh]}\n"},
		"regions without the default":    {file: valid + "cloudSigma: {regions: [next]}\n", wantNotes: unlisted},
		"a default that is not listed":   {file: valid + "cloudSigma: {regions: [next], defaultRegion: zrh}\n", wantNotes: unlisted},
		"another one":                    {file: valid + "cloudSigma: {regions: [next], defaultRegion: nxt}\n", wantCode: cli.ExitWrong, wantMessage: "line 3: cloudSigma.defaultRegion: "},
		"policies that are not selected": {file: valid + "keystonePolicy: {keys: [policy.yaml]}\n", wantNotes: "  note: keystonePolicy" + nothing},
		"managers that are not selected": {file: valid + "controllerManager: {commands: [/run]}\n", wantNotes: "  note: controllerManager" + nothing},
		"selected policies and managers": {file: valid + "keystonePolicy: {keys: [a], objects: [{namespace: a, name: b}]}\ncontrollerManager: {commands: [/run], selector: {matchLabels: {a: b}}}\n"},
		"gates that are off":             {file: valid + "keystonePolicy: {mode: Off}\ncontrollerManager: {mode: Off}\n"},
		"mistakes":                       {file: valid + "audit: {interval: 1ms, rate: 5}\n", wantCode: cli.ExitWrong, wantMessage: "2 mistakes\n  line 3: audit.interval: "},
		"no YAML":                        {file: "a: [", wantCode: cli.ExitWrong, wantMessage: "yaml: line 1: "},
		"a tab":                          {file: valid + "audit:\n  mode: Off\n\tinterval: 5m\n", wantCode: cli.ExitWrong, wantMessage: "line 5: begins with a tab; indent it with spaces"},
		"more than one":                  {file: valid + "---\n" + valid, wantCode: cli.ExitWrong, wantMessage: "there is more than one document"},
	} {
		t.Run(name, func(t *testing.T) {
			file := clitest.WriteFile(t, "config.yaml", tc.file)
			out, code, message := runCommand(t, NewCheckCommand(), "config", file)
			if code != tc.wantCode || code == 0 && out != file+": ok\n"+tc.wantNotes || code != 0 && !strings.HasPrefix(message, "configuration "+file+": "+tc.wantMessage) {
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
