package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

func TestNewLogger(t *testing.T) {
	for name, tc := range map[string]struct {
		level, format string
		want          []string // the texts of the lines, without the time
		wantErr       string
	}{
		"JSON":                  {level: "info", format: "json", want: []string{`"level":"INFO","msg":"shown","name":"a\nb"}`}},
		"text":                  {level: "INFO", format: "text", want: []string{`level=INFO msg=shown name="a\nb"`}},
		"debug":                 {level: "debug", format: "text", want: []string{`level=INFO msg=shown name="a\nb"`, `level=DEBUG+3 msg="for debugging"`}},
		"only warnings":         {level: "warn", format: "json"},
		"a level that is none":  {level: "loud", format: "json", wantErr: `--log-level: slog: level string "loud": unknown name`},
		"no level":              {format: "json", wantErr: `--log-level: slog: level string "": unknown name`},
		"a format that is none": {level: "info", format: "xml", wantErr: `--log-format: "xml" is neither json nor text`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger, err := cli.NewLogger(&out, tc.level, tc.format)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("NewLogger() error = %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			logger.Info("shown", "name", "a\nb")
			logger.V(1).Info("for debugging")
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(tc.want) {
				t.Fatalf("log = %q, want %d lines", lines, len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("line = %s, want %s", lines[i], want)
				}
			}
		})
	}
}

func TestLoadTokens(t *testing.T) {
	valid := strings.Repeat("a1", 16)
	for name, tc := range map[string]struct {
		content string
		wantErr string
	}{
		"one token":        {content: valid + "\n"},
		"two tokens":       {content: valid + "\n" + strings.Repeat("b2", 16) + "\n"},
		"no token":         {content: "", wantErr: "--webhook-path-file: "},
		"a short token":    {content: "abc\n", wantErr: "--webhook-path-file: "},
		"a path, no token": {content: strings.Repeat("../", 16) + "\n", wantErr: "--webhook-path-file: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cli.LoadTokens(clitest.WriteFile(t, "tokens", tc.content))
			switch {
			case tc.wantErr == "" && err != nil:
				t.Errorf("LoadTokens() error = %v", err)
			case tc.wantErr != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.wantErr)):
				t.Errorf("LoadTokens() error = %v, want %s…", err, tc.wantErr)
			case err != nil && strings.Contains(err.Error(), strings.TrimSpace(tc.content)) && tc.content != "":
				t.Errorf("LoadTokens() error = %v contains the token", err)
			}
		})
	}
}
