package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/keystonetest"
)

const (
	policyLintProcessRatioBound = 10

	// lintRounds is the number of runs of each program, after a first one that does not count.
	lintRounds = 9
)

// program is a command with an expected exit status and output. Another result is an error.
type program struct {
	command []string
	exit    int
	says    string
	// millis are the times of its runs.
	millis []float64
}

// measureLintProcess compares a run of "warrantgate lint keystone-policy" with one of oslo.policy's own validator, each from the
// start of the process to its end, as a user runs them before every commit. Most of the validator's time is the start of Python and
// of Keystone's own rules. It does not report the findings of the linter.
func measureLintProcess(ctx context.Context, out *figures, dir string) error {
	progress("linter of policies and oslopolicy-validator, as processes")
	linter, validator, err := newPrograms(dir)
	if err != nil {
		return err
	}
	for round := range 1 + lintRounds {
		for _, p := range turns(round, linter, validator) {
			took, err := p.run(ctx)
			if err != nil {
				return err
			}
			if round > 0 {
				p.millis = append(p.millis, milliseconds(took))
			}
		}
	}
	ratios := make([]float64, lintRounds)
	for round := range ratios {
		ratios[round] = validator.millis[round] / linter.millis[round]
	}
	out.atLeast("policy_lint_process_ratio", median(ratios), "ratio", policyLintProcessRatioBound)
	return nil
}

// newPrograms returns both for the same policy. The validator reads the path from a configuration file in dir.
func newPrograms(dir string) (linter, validator *program, err error) {
	warrantgate, err := asset.Path(asset.Warrantgate)
	if err != nil {
		return nil, nil, err
	}
	tool, err := findValidator()
	if err != nil {
		return nil, nil, err
	}
	policy, err := filepath.Abs(policyFile)
	if err != nil {
		return nil, nil, err
	}
	config := filepath.Join(dir, "oslo.conf")
	if err := os.WriteFile(config, []byte("[oslo_policy]\npolicy_file = "+policy+"\n"), 0o600); err != nil {
		return nil, nil, err
	}
	linter = &program{command: []string{warrantgate, "lint", "keystone-policy", "--notes", policy}, says: "narrower-than-default"}
	// It reports every helper of a policy as a mistake, and nothing else here.
	validator = &program{
		command: []string{tool, "--namespace", "keystone", "--config-file", config}, exit: 1,
		says: "Unknown rule found in policy file: cloud_admin",
	}
	return linter, validator, nil
}

// findValidator returns the path of oslo.policy's validator. It is beside the interpreter that has oslo.policy.
func findValidator() (string, error) {
	interpreter := cmp.Or(os.Getenv(keystonetest.PythonEnv), "/usr/bin/python3")
	tool := filepath.Join(filepath.Dir(interpreter), "oslopolicy-validator")
	if _, err := os.Stat(tool); err != nil {
		return "", fmt.Errorf("there is no oslopolicy-validator: %w\n"+
			"Install it on Debian: apt-get update && apt-get install -y --no-install-recommends python3-oslo.policy python3-keystone\n"+
			"Elsewhere, set %s to the interpreter in the same directory", err, keystonetest.PythonEnv)
	}
	return tool, nil
}

// run runs the program to its end and returns its time.
func (p *program) run(ctx context.Context) (time.Duration, error) {
	command := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	start := time.Now()
	output, err := command.CombinedOutput()
	took := time.Since(start)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return took, err
	}
	if code := command.ProcessState.ExitCode(); code != p.exit || !strings.Contains(string(output), p.says) {
		return took, fmt.Errorf("%s: want exit status %d and output %q, got exit status %d:\n%s",
			strings.Join(p.command, " "), p.exit, p.says, code, output)
	}
	return took, nil
}
