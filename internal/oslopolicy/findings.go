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

// Codes of findings. Meanings has their meanings.
const (
	// CodeFile: Keystone keeps the former rules, or fails for every request.
	CodeFile              = "file"
	CodeAlwaysAllows      = "always-allows"
	CodeNeverAllows       = "never-allows"
	CodeSyntax            = "syntax"
	CodeRaises            = "raises"
	CodeMalformedCheck    = "malformed-check"
	CodeOperatorInList    = "operator-in-list"
	CodeMapping           = "mapping-rule"
	CodeUnknownRule       = "unknown-rule"
	CodeCycle             = "cycle"
	CodeDuplicateRule     = "duplicate-rule"
	CodeUnknownOperation  = "unknown-operation"
	CodeNameNotText       = "name-not-text"
	CodeUnusedRule        = "unused-rule"
	CodeOpenDefault       = "open-default"
	CodeNoRules           = "no-rules"
	CodeOverrideObsolete  = "override-obsolete"
	CodeNonASCII          = "non-ascii"
	CodeUnknownAttribute  = "unknown-attribute"
	CodeDeadBranch        = "dead-branch"
	CodeUnknownCredential = "unknown-credential"
	CodeUnknownRole       = "unknown-role"
	CodeQuotedMatch       = "quoted-match"
	// CodeRemoteCheck is an error if an operation depends on it and the rule of the base does not have the check.
	CodeRemoteCheck = "remote-check"
	// CodeNotCompared is an error if the rule is too large to find out what it grants.
	CodeNotCompared = "not-compared"
	// CodeBroaderThanDefault: without a base, the rule is compared with Keystone's own. Tasks of domain managers are left out. A check that
	// cannot be evaluated has any result.
	CodeBroaderThanDefault = "broader-than-default"
	// CodeNarrowerThanDefault is an error if an alternative of the rule is meant to allow the request, a warning if the base has the rule, and
	// otherwise a note.
	CodeNarrowerThanDefault = "narrower-than-default"
	CodeEscalation          = "escalation"
)

// Meanings are the meanings of the codes.
var Meanings = map[string]string{
	CodeFile:                "oslo.policy cannot load the file",
	CodeNoRules:             "The files have no rules",
	CodeNameNotText:         "YAML does not read the name of the rule as a text",
	CodeNonASCII:            "A letter that is not ASCII may look like another",
	CodeAlwaysAllows:        "The rule allows everybody, but is not @",
	CodeNeverAllows:         "The rule denies everybody, but is not !",
	CodeOpenDefault:         "The rule default, which replaces missing rules, allows",
	CodeSyntax:              "oslo.policy cannot parse the rule, and denies",
	CodeRaises:              "The rule raises an exception, so that requests fail",
	CodeMalformedCheck:      "A word of the rule is no check, and is always false",
	CodeOperatorInList:      "An element of the list form is an expression, not one check",
	CodeMapping:             "The rule is a mapping, whose keys alone are read",
	CodeQuotedMatch:         "The value after the colon includes its quotes",
	CodeUnknownRule:         "The rule refers to a rule that does not exist",
	CodeUnknownOperation:    "Keystone has no such operation, so the rule has no effect",
	CodeUnknownAttribute:    "Keystone does not fill the attribute of the target in",
	CodeUnknownCredential:   "The credentials of Keystone have no such attribute",
	CodeUnknownRole:         "Neither Keystone nor the base checks the role, but one with nearly the same name",
	CodeDeadBranch:          "An alternative of the rule can never match",
	CodeCycle:               "The rule refers to itself, directly or through others",
	CodeDuplicateRule:       "A later rule of the same name replaces the rule",
	CodeUnusedRule:          "Nothing refers to the rule",
	CodeOverrideObsolete:    "The Keystone of the release has managers of domains by itself",
	CodeRemoteCheck:         "The rule asks another host, whose answer is unknown",
	CodeNotCompared:         "Not every request was compared with the base",
	CodeBroaderThanDefault:  "The rule allows what the base or Keystone's own rule denies",
	CodeNarrowerThanDefault: "The rule denies what the base or Keystone's own rule allows",
	CodeEscalation:          "A user who is no administrator can grant a role that is not managed",
}

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
