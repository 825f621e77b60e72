package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/oslopolicy"
)

const (
	policyLintBound = 5

	// policyFile is an override of 37 rules that has nothing wrong with it, so that all of it is looked at. The path begins in the
	// root of the repository.
	policyFile = "e2e/suites/oslopolicy/testdata/domain-manager.yaml"
	// lints is how often it is linted.
	lints = 500
)

// measurePolicy measures what it takes to find that a policy for Keystone has nothing wrong with it. Files go to dir.
func measurePolicy(ctx context.Context, out *figures, dir string) error {
	if err := measureLint(ctx, out); err != nil {
		return err
	}
	return measureLintProcess(ctx, out, dir)
}

// measureLint measures one run of the linter by itself, as the gate on policies makes it.
func measureLint(ctx context.Context, out *figures) error {
	progress("linter of policies, in one process")
	document, err := os.ReadFile(policyFile)
	if err != nil {
		return fmt.Errorf("read the policy, which is found from the root of the repository only: %w", err)
	}
	config := v1beta1.Default().KeystonePolicy
	options := oslopolicy.LintOptions{ManagerRoles: config.ManagerRoles, ManagedRoles: config.ManagedRoles}
	millis := make([]float64, lints)
	for i := range millis {
		start := time.Now()
		findings, err := oslopolicy.LintKeystone(ctx, policyFile, document, options)
		millis[i] = milliseconds(time.Since(start))
		if err != nil {
			return err
		}
		if len(findings) > 0 {
			return fmt.Errorf("%s is to have nothing wrong with it, and has: %v", policyFile, findings)
		}
	}
	out.atMost("policy_lint_ms", median(millis), "ms", policyLintBound)
	return nil
}
