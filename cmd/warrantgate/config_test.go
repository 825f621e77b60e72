package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigConvert(t *testing.T) {
	const (
		older   = "apiVersion: config.warrantgate.dev/v1alpha1\nkind: GateConfiguration\nrepair: {rate: 5} # slowly\n"
		current = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\nrepair: {workspacesPerSecond: 5} # slowly\n"
		// converted is the older file, without its comment.
		converted = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\nrepair:\n  workspacesPerSecond: 5\n"
		mistaken  = "apiVersion: config.warrantgate.dev/v1alpha1\nkind: GateConfiguration\nrepair: {rate: -5}\n"
		mistake   = "repair.rate: Invalid value: -5: must be at least 1"
	)
	missing, bad := filepath.Join(t.TempDir(), "missing"), writeFile(t, "config.yaml", mistaken)
	for name, tc := range map[string]struct {
		args    []string
		in      string
		want    string
		wantErr string
	}{
		"a file":                              {args: []string{"-f", writeFile(t, "config.yaml", older)}, want: converted},
		"a file of the current version":       {args: []string{"--filename=" + writeFile(t, "config.yaml", current)}, want: current},
		"the standard input":                  {args: []string{"-f", "-"}, in: older, want: converted},
		"the standard input, where none is":   {in: older, want: converted},
		"a file that is not there":            {args: []string{"-f", missing}, wantErr: "read the configuration: open " + missing + ": no such file or directory"},
		"a file with a mistake":               {args: []string{"-f", bad}, wantErr: "configuration " + bad + ": " + mistake},
		"the standard input with a mistake":   {in: mistaken, wantErr: "configuration from the standard input: " + mistake},
		"a file that is named as an argument": {args: []string{bad}, wantErr: `unknown command "` + bad + `" for "warrantgate config convert"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut output
			cmd := newCommand(&out, &errOut)
			cmd.SetIn(strings.NewReader(tc.in))
			cmd.SetArgs(append([]string{"config", "convert"}, tc.args...))
			got := ""
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantErr, ""}, []string{out.String(), got, errOut.String()}); diff != "" {
				t.Errorf("output, error and standard error (-want +got):\n%s", diff)
			}
		})
	}
}
