package cli

import (
	"errors"
	"fmt"
	"testing"
)

func TestExitCodes(t *testing.T) {
	plain := errors.New("no such file")
	for name, tc := range map[string]struct {
		err         error
		want        int
		wantMessage error
	}{
		"any error of any command": {err: plain, want: 2, wantMessage: plain},
		"a verdict":                {err: ExitError{Code: ExitWrong}, want: 1},
		"a verdict with an error":  {err: ExitError{Code: ExitWrong, Err: plain}, want: 1, wantMessage: plain},
		"a wrapped one":            {err: fmt.Errorf("explain: %w", ExitError{Code: ExitUnknown}), want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			code, message := ExitCode(tc.err)
			if code != tc.want || !errors.Is(message, tc.wantMessage) {
				t.Errorf("ExitCode() = %d, %v, want %d, %v", code, message, tc.want, tc.wantMessage)
			}
		})
	}
}
