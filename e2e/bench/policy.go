package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/oslopolicy"
)

const (
	policyLintBound     = 5
	policyBaseLintBound = 15

	// policyFile is an override of 37 rules without any error, so the linter reads all of it. The path is relative to the root of the
	// repository.
	policyFile = "e2e/suites/oslopolicy/testdata/domain-manager.yaml"
	// operatorsPolicies are an override of 37 rules and the live policy that it refers to.
	operatorsPolicies = "e2e/suites/keystonepolicy/testdata/operators"
	// baseRules is the number of rules of the base.
	baseRules = 200
	// lints is the number of runs of each linter.
	lints = 500
)

// measurePolicy measures the time to lint a policy for Keystone without any error.
func measurePolicy(ctx context.Context, out *figures, _ string) error {
	if err := measureLint(ctx, out); err != nil {
		return err
	}
	return measureBase(ctx, out)
}

// measureBase measures the linter over a base of 200 rules. It finds a witness for each rule that differs.
func measureBase(ctx context.Context, out *figures) error {
	progress("linter of policies over a base")
	var sources []oslopolicy.Source
	for _, name := range []string{"live.json", "after.yaml"} {
		document, err := os.ReadFile(filepath.Join(operatorsPolicies, name))
		if err != nil {
			return fmt.Errorf("read the policy (run this in the root of the repository): %w", err)
		}
		sources = append(sources, oslopolicy.Source{Name: name, Data: document})
	}
	files, err := oslopolicy.ReadAll(append(sources, furtherRules(baseRules-len(liveRules(sources[0])))))
	if err != nil {
		return err
	}
	base := []*oslopolicy.File{files[0], files[2]}
	linted, err := timed(func() error {
		findings, err := oslopolicy.LintKeystone(ctx, sources[1:2], oslopolicy.LintOptions{Base: base})
		if err == nil && len(findings) == 0 {
			err = errors.New("the override has no findings, want some")
		}
		return err
	})
	if err != nil {
		return err
	}
	out.atMost("policy_base_lint_ms", median(linted), "ms", policyBaseLintBound)
	return nil
}

// timed returns the time of each of many runs in milliseconds.
func timed(run func() error) ([]float64, error) {
	millis := make([]float64, lints)
	for i := range millis {
		start := time.Now()
		err := run()
		if millis[i] = milliseconds(time.Since(start)); err != nil {
			return nil, err
		}
	}
	return millis, nil
}

// liveRules are the lines of a policy that contain a rule.
func liveRules(source oslopolicy.Source) []string {
	return strings.Split(strings.TrimSpace(string(source.Data)), "\n")[1:]
}

// furtherRules returns n rules, some of which refer to others.
func furtherRules(n int) oslopolicy.Source {
	var document strings.Builder
	for i := range n {
		fmt.Fprintf(&document, "%q: \"rule:cloud_admin or (rule:admin_and_matching_target_user_domain_id and project_id:%d)\"\n", fmt.Sprintf("further_%d", i), i)
	}
	return oslopolicy.Source{Name: "further.yaml", Data: []byte(document.String())}
}

// measureLint measures one run of the linter by itself, as the gate on policies makes it.
func measureLint(ctx context.Context, out *figures) error {
	progress("linter of policies, in one process")
	document, err := os.ReadFile(policyFile)
	if err != nil {
		return fmt.Errorf("read the policy (run this in the root of the repository): %w", err)
	}
	config := v1beta1.Default().KeystonePolicy
	options := oslopolicy.LintOptions{ManagerRoles: config.ManagerRoles, ManagedRoles: config.ManagedRoles}
	millis, err := timed(func() error {
		findings, err := oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: policyFile, Data: document}}, options)
		if err == nil && slices.ContainsFunc(findings, func(finding oslopolicy.Finding) bool { return finding.Severity != oslopolicy.SeverityNote }) {
			err = fmt.Errorf("%s has findings, want none: %v", policyFile, findings)
		}
		return err
	})
	if err != nil {
		return err
	}
	out.atMost("policy_lint_ms", median(millis), "ms", policyLintBound)
	return nil
}
