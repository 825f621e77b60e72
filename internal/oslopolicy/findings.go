package oslopolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// CodeNoRules: the files contain no rules.
	CodeNoRules = "no-rules"
	// CodeOverrideObsolete: the override is for managers of domains, which the Keystone of the release has by default.
	CodeOverrideObsolete = "override-obsolete"
	// CodeNonASCII: the file contains characters that are not ASCII and may look like ASCII.
	CodeNonASCII = "non-ascii"
	// CodeUnknownAttribute: an attribute of the target that Keystone does not set for the operation.
	CodeUnknownAttribute = "unknown-attribute"
	// CodeDeadBranch: an alternative of the rule can never match, because of a rule that it refers to.
	CodeDeadBranch = "dead-branch"
	// CodeUnknownCredential: Keystone's credentials do not have this path.
	CodeUnknownCredential = "unknown-credential"
	// CodeUnknownRole: neither Keystone's own rules nor the base have this role, but one with nearly the same name.
	CodeUnknownRole = "unknown-role"
	// CodeQuotedMatch: the value after the colon includes its quotes.
	CodeQuotedMatch = "quoted-match"
	// CodeRemoteCheck: the rule sends a request to another host. Its result is unknown here. It is an error if an operation depends on it and
	// the rule of the base does not have the check.
	CodeRemoteCheck = "remote-check"
	// CodeNotCompared: the search for requests for which the rule grants more or less than the base is incomplete. It is an error if the rule is
	// too large to find out what it grants.
	CodeNotCompared = "not-compared"
	// CodeBroaderThanDefault: the rule allows a request that the base (without a base, Keystone's own rule) denies, and that is not a task
	// of domain managers. A check that cannot be evaluated has any result.
	CodeBroaderThanDefault = "broader-than-default"
	// CodeNarrowerThanDefault: the rule denies a request that the base or Keystone's own rule allows. It is an error if an alternative of the
	// rule is meant to allow it, a warning if the base has the rule, and otherwise a note.
	CodeNarrowerThanDefault = "narrower-than-default"
	// CodeEscalation: a user who is no administrator can grant a role that is not a managed role.
	CodeEscalation = "escalation"
)

// Finding is a finding of the linter about a policy file.
type Finding struct {
	// File is the name of the file. Line counts from 1. It is 0 if the finding is about the whole file.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Rule is the name of the rule, "" for findings about the file.
	Rule string `json:"rule,omitempty"`
	// Operations are the operations of Keystone that refer to the rule, directly or through others, if it is none itself.
	Operations []string `json:"operations,omitempty"`
	Severity   Severity `json:"severity"`
	// Code is one of the codes.
	Code string `json:"code"`
	// Message describes the finding, Suggestion the correction.
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
	// Witness is a request with different answers of the rule (After) and of the policy that the message compares it with (Before): the
	// base, or Keystone's own rule.
	Witness *Witness `json:"witness,omitempty"`
}

// Place returns the file, and the line if there is one.
func (f Finding) Place() string {
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// Details returns the message, the suggestion and the witness.
func (f Finding) Details() string {
	text := f.Message
	if f.Suggestion != "" {
		text += "; " + f.Suggestion
	}
	if f.Witness != nil {
		text += "; for example " + f.Witness.Command()
	}
	return text
}

// LintOptions configure the linter.
type LintOptions struct {
	// Base are the files that Keystone loads before the linted files, in this order. The linted files may refer to their rules, and are
	// compared with them. The base itself is not linted.
	Base []*File
	// Release is the OpenStack release of Keystone. Default: DefaultRelease.
	Release Release
	// Differences adds a note for each rule that grants more than the base or, without a base, than the rules of Keystone, also if it is
	// probably intended. Rules that grant less always have a finding.
	Differences bool
	// ManagerRoles are the roles of domain managers. Default: manager.
	ManagerRoles []string
	// ManagedRoles are the roles that domain managers may grant. Default: member and load-balancer_member (SCS standard scs-0302).
	ManagedRoles []string
	// KnownRules are patterns (path.Match: *, ?, [a-z]) of the names of rules that extensions of Keystone evaluate, such as identity:scim_*. It is
	// unknown what such a rule should grant, so this is not checked. Default: none.
	KnownRules []string
}

// LintKeystone lints policy files for Keystone together. Keystone loads them in this order, after the base, and their rules can refer to each
// other. The findings are in the order of the files, at most 200 of each severity and one for each unreadable file. The only error is that of
// ctx: a malicious file can take seconds.
func LintKeystone(ctx context.Context, sources []Source, options LintOptions) ([]Finding, error) {
	if len(options.ManagerRoles) == 0 {
		options.ManagerRoles = []string{"manager"}
	}
	if len(options.ManagedRoles) == 0 {
		options.ManagedRoles = []string{"load-balancer_member", "member"}
	}
	var files []*File
	var findings []Finding
	order := make(map[string]int, len(sources))
	for i, s := range sources {
		order[s.Name] = i
		file, err := Read(s.Name, s.Data)
		if err != nil {
			findings = append(findings, unreadable(s.Name, err))
			continue
		}
		files = append(files, file)
	}
	l := newLinter(sources, files, options)
	l.findings, l.ended = findings, func() bool { return ctx.Err() != nil }
	if len(l.rules)+len(l.unnamed)+len(findings) == 0 && len(sources) > 0 {
		l.findings = append(l.findings, Finding{
			File: sources[0].Name, Severity: SeverityWarning, Code: CodeNoRules, Message: "it has no rules, so that it overrides nothing",
			Suggestion: "write the rules, or remove the override",
		})
	}
	for _, step := range append(l.steps(), func() {}) { // the last one looks at ctx after the others
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("lint %s: %w", describeSources(sources), err)
		}
		step()
	}
	for i, f := range l.findings {
		l.findings[i].Operations = l.operationsWith(f.Rule)
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(rank(a.Severity), rank(b.Severity)))
	})
	return l.findings, nil
}

// unreadable returns the finding for an error of Read.
func unreadable(name string, err error) Finding {
	finding := Finding{
		File: name, Severity: SeverityError, Code: CodeFile, Message: err.Error(),
		Suggestion: "correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails",
	}
	if failed, ok := errors.AsType[*FileError](err); ok {
		finding.Line, finding.Message = failed.Line, failed.Err.Error()
	}
	if errors.Is(err, ErrLimit) {
		finding.Suggestion = ""
	}
	return finding
}

func describeSources(sources []Source) string {
	names := make([]string, 0, len(sources))
	for _, s := range sources {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

func rank(s Severity) int {
	return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityNote}, s)
}
