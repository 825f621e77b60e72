package oslopolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Severity says what a finding is worth.
type Severity string

// Severities.
const (
	// SeverityError: the rule does not do what it says, or it gives away what it must not.
	SeverityError Severity = "error"
	// SeverityWarning: the rule is likely not to do what was meant.
	SeverityWarning Severity = "warning"
	// SeverityNote: worth knowing.
	SeverityNote Severity = "note"
)

// Codes of findings.
const (
	// CodeFile: oslo.policy cannot load the file. Keystone goes on with the former rules, or fails at every request.
	CodeFile = "file"
	// CodeAlwaysAllows: the rule allows everybody without saying so.
	CodeAlwaysAllows = "always-allows"
	// CodeNeverAllows: the rule denies everybody without saying so.
	CodeNeverAllows = "never-allows"
	// CodeSyntax: oslo.policy cannot parse the rule and takes it for "deny".
	CodeSyntax = "syntax"
	// CodeRaises: asking the rule raises an exception, so that requests end with 400 or 500.
	CodeRaises = "raises"
	// CodeMalformedCheck: a word is no check and counts as false.
	CodeMalformedCheck = "malformed-check"
	// CodeOperatorInList: an element of the list form is an expression, where only single checks are read.
	CodeOperatorInList = "operator-in-list"
	// CodeMapping: the value is a mapping, of which only the keys are read.
	CodeMapping = "mapping-rule"
	// CodeUnknownRule: a reference to a rule that does not exist.
	CodeUnknownRule = "unknown-rule"
	// CodeCycle: rules refer to each other in a circle.
	CodeCycle = "cycle"
	// CodeDuplicateRule: a rule is overwritten by a later one of the same name.
	CodeDuplicateRule = "duplicate-rule"
	// CodeUnknownOperation: the name of the rule is none of Keystone's operations, so that nobody asks it.
	CodeUnknownOperation = "unknown-operation"
	// CodeNameNotText: YAML reads the name of the rule as something else, such as false for off.
	CodeNameNotText = "name-not-text"
	// CodeUnusedRule: nothing refers to the rule.
	CodeUnusedRule = "unused-rule"
	// CodeOpenDefault: the rule that stands in for missing ones allows.
	CodeOpenDefault = "open-default"
	// CodeNonASCII: the rule has letters or blanks that look like others.
	CodeNonASCII = "non-ascii"
	// CodeUnknownAttribute: an attribute of the target that Keystone does not fill in for the operation.
	CodeUnknownAttribute = "unknown-attribute"
	// CodeDeadBranch: a part of the rule that can never match, because of a rule that it refers to.
	CodeDeadBranch = "dead-branch"
	// CodeUnknownCredential: something that Keystone's credentials do not have.
	CodeUnknownCredential = "unknown-credential"
	// CodeQuotedMatch: quotes after the colon are compared as they stand.
	CodeQuotedMatch = "quoted-match"
	// CodeRemoteCheck: the rule asks another host, which is not judged.
	CodeRemoteCheck = "remote-check"
	// CodeBroaderThanDefault: the rule lets pass whom Keystone's own denies, beyond what a domain manager is for.
	CodeBroaderThanDefault = "broader-than-default"
	// CodeEscalation: somebody who is no administrator can grant a role outside of the managed set.
	CodeEscalation = "escalation"
)

// Finding is something about a policy file that its author should know.
type Finding struct {
	// File is the name of the file, Line counts from 1 and is 0 where the place is not known.
	File string `json:"file"`
	Line int    `json:"line"`
	// Rule is the name of the rule, "" where the finding is about the file.
	Rule     string   `json:"rule,omitempty"`
	Severity Severity `json:"severity"`
	// Code is one of the codes.
	Code string `json:"code"`
	// Message says what is so, Suggestion what to write instead.
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
}

// LintOptions say what the operator's roles are for.
type LintOptions struct {
	// ManagerRoles are the roles of those who manage a domain and nothing beyond. Default: manager.
	ManagerRoles []string
	// ManagedRoles are the roles that those may grant. Default: member and load-balancer_member (SCS standard scs-0302).
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
