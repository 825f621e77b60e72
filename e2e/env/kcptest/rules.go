package kcptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
)

// inShards is the first line of the part for the shards in the output of "warrantgate install kcp --dry-run". The part for root is
// before it.
const inShards = "# in logical cluster system:admin of each shard\n"

// RulesPlanned returns the names of the rules of all roles that install writes into root and into the shards, as its dry run prints
// them. The names are those of RemovedRule.
func RulesPlanned(printed string) (root, shards []string, err error) {
	forRoot, forShards, _ := strings.Cut(printed, inShards)
	if root, err = rulesOf(forRoot); err != nil {
		return nil, nil, err
	}
	shards, err = rulesOf(forShards)
	return root, shards, err
}

func rulesOf(printed string) ([]string, error) {
	var rules []string
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(printed), 4096)
	for {
		role := &rbacv1.ClusterRole{} // other kinds have no rules
		err := decoder.Decode(role)
		if errors.Is(err, io.EOF) {
			return rules, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode the output of install: %w", err)
		}
		rules = append(rules, access.RuleNames(role.Name, role.Rules)...)
	}
}

// RemovedRule is a rule that was removed from a ClusterRole.
type RemovedRule struct {
	// Name is the name of the rule, as RuleNames of package access returns it.
	Name string

	holder client.Client
	role   string
	rules  []rbacv1.PolicyRule
}

// RemoveRule removes the rule with a verb on a resource, or on a non-resource path, from a ClusterRole in the cluster of holder, an
// administrator. It waits until kcp denies this to a user in the cluster of where. That can be another cluster if the role belongs to a shard. The
// rule must exist.
func RemoveRule(ctx context.Context, username string, holder, where *rest.Config, role, resource, verb string) (*RemovedRule, error) {
	c, err := NewClient(holder)
	if err != nil {
		return nil, err
	}
	reviewer, err := NewClient(where)
	if err != nil {
		return nil, err
	}
	var rule rbacv1.PolicyRule
	removed := &RemovedRule{holder: c, role: role}
	if err := removed.setRules(ctx, func(rules []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
		at := slices.IndexFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(slices.Concat(rule.NonResourceURLs, rule.Resources), resource) && slices.Contains(rule.Verbs, verb)
		})
		if at < 0 {
			return nil, fmt.Errorf("ClusterRole %s has no rule to %s %s", role, verb, resource)
		}
		removed.rules, removed.Name, rule = slices.Clone(rules), access.RuleNames(role, rules)[at], rules[at]
		return slices.Delete(rules, at, at+1), nil
	}); err != nil {
		return nil, err
	}
	if err := access.AwaitReview(ctx, reviewer, User(username), rule, verb, false); err != nil {
		return nil, errors.Join(fmt.Errorf("wait until kcp denies requests that need the rule %q: %w", removed.Name, err), removed.Restore(ctx))
	}
	return removed, nil
}

// Restore adds the rule again. It can be called more than once.
func (t *RemovedRule) Restore(ctx context.Context) error {
	return t.setRules(ctx, func([]rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) { return t.rules, nil })
}

// setRules changes the rules of the role. It retries after a conflict, because kcp can write the role too.
func (t *RemovedRule) setRules(ctx context.Context, change func([]rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error)) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		role := &rbacv1.ClusterRole{}
		if err := t.holder.Get(ctx, client.ObjectKey{Name: t.role}, role); err != nil {
			return err
		}
		rules, err := change(role.Rules)
		if err != nil {
			return err
		}
		role.Rules = rules
		return t.holder.Update(ctx, role)
	})
}
