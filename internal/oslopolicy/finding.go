package oslopolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Severity is the severity of a finding.
type Severity string

// Severities.
const (
	// SeverityError: the rule does not have the meaning that its text suggests, or it grants too much.
	SeverityError Severity = "error"
	// SeverityWarning: the rule is probably not what its author intended.
	SeverityWarning Severity = "warning"
	// SeverityNote: for information.
	SeverityNote Severity = "note"
)

// Codes of findings.
const (
	// CodeFile: oslo.policy cannot load the file. Keystone keeps the former rules, or fails for every request.
	CodeFile = "file"
	// CodeAlwaysAllows: the rule allows every request, but is not @.
	CodeAlwaysAllows = "always-allows"
	// CodeNeverAllows: the rule denies every request, but is not !.
	CodeNeverAllows = "never-allows"
	// CodeSyntax: oslo.policy cannot parse the rule, so the rule denies.
	CodeSyntax = "syntax"
	// CodeRaises: the rule raises an exception, so requests end with 400 or 500.
	CodeRaises = "raises"
	// CodeMalformedCheck: a word is no check, and is always false.
	CodeMalformedCheck = "malformed-check"
	// CodeOperatorInList: an element of the list form is an expression. Only single checks are valid there.
	CodeOperatorInList = "operator-in-list"
	// CodeMapping: the value is a mapping. oslo.policy reads its keys only.
	CodeMapping = "mapping-rule"
	// CodeUnknownRule: a reference to a rule that does not exist.
	CodeUnknownRule = "unknown-rule"
	// CodeCycle: a rule refers to itself, directly or through other rules.
	CodeCycle = "cycle"
	// CodeDuplicateRule: a later rule of the same name replaces the rule.
	CodeDuplicateRule = "duplicate-rule"
	// CodeUnknownOperation: the name is no operation of Keystone, so the rule has no effect.
	CodeUnknownOperation = "unknown-operation"
	// CodeNameNotText: the name of the rule is no string in YAML, such as off, which is false.
	CodeNameNotText = "name-not-text"
	// CodeUnusedRule: nothing refers to the rule.
	CodeUnusedRule = "unused-rule"
	// CodeOpenDefault: the rule "default", which replaces missing rules, allows.
	CodeOpenDefault = "open-default"
	// CodeNonASCII: the rule has letters or blanks that look like others.
	CodeNonASCII = "non-ascii"
	// CodeUnknownAttribute: an attribute of the target that Keystone does not set for the operation.
	CodeUnknownAttribute = "unknown-attribute"
	// CodeDeadBranch: an alternative of the rule can never match, because of a rule that it refers to.
	CodeDeadBranch = "dead-branch"
	// CodeUnknownCredential: Keystone's credentials do not have this path.
	CodeUnknownCredential = "unknown-credential"
	// CodeQuotedMatch: the value after the colon includes its quotes.
	CodeQuotedMatch = "quoted-match"
	// CodeRemoteCheck: the rule sends a request to another host. Its result is unknown here.
	CodeRemoteCheck = "remote-check"
	// CodeBroaderThanDefault: the rule lets pass whom Keystone's own denies, beyond what a domain manager is for.
	CodeBroaderThanDefault = "broader-than-default"
	// CodeEscalation: somebody who is no administrator can grant a role outside of the managed set.
	CodeEscalation = "escalation"
)

// Finding is a finding of the linter about a policy file.
type Finding struct {
	// File is the name of the file. Line counts from 1. It is 0 if the position is unknown.
	File string `json:"file"`
	Line int    `json:"line"`
	// Rule is the name of the rule, "" for findings about the file.
	Rule     string   `json:"rule,omitempty"`
	Severity Severity `json:"severity"`
	// Code is one of the codes.
	Code string `json:"code"`
	// Message describes the finding, Suggestion the correction.
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
}

// LintOptions say what the operator's roles are for.
type LintOptions struct {
	// ManagerRoles are the roles of those who manage a domain and nothing beyond. Default: manager.
	ManagerRoles []string
	// ManagedRoles are the roles that domain managers may grant. Default: member and load-balancer_member (SCS standard scs-0302).
	ManagedRoles []string
}

// LintKeystone judges a policy file for Keystone. The findings come in the order of the file, and are no more than 200; none
// means that the file is fine. The only error is that of ctx: a file that was made for it can take seconds.
func LintKeystone(ctx context.Context, name string, data []byte, options LintOptions) ([]Finding, error) {
	if len(options.ManagerRoles) == 0 {
		options.ManagerRoles = []string{"manager"}
	}
	if len(options.ManagedRoles) == 0 {
		options.ManagedRoles = []string{"load-balancer_member", "member"}
	}
	file, err := Read(name, data)
	if err != nil {
		finding := Finding{
			File: name, Severity: SeverityError, Code: CodeFile, Message: err.Error(),
			Suggestion: "mend it before Keystone reads it: where oslo.policy cannot load a file, the former rules go on, and after a restart every request fails",
		}
		if failed, ok := errors.AsType[*FileError](err); ok {
			finding.Line, finding.Message = failed.Line, failed.Err.Error()
		}
		return []Finding{finding}, nil
	}
	l := newLinter(file, options)
	for _, step := range l.steps() {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("lint %s: %w", name, err)
		}
		step()
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(rank(a.Severity), rank(b.Severity)))
	})
	return l.findings, nil
}

func rank(s Severity) int {
	return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityNote}, s)
}
