package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/keystone"
)

type lintOptions struct {
	output  string
	failOn  string
	base    []string
	release string
	notes   bool
	lint    oslopolicy.LintOptions
	inputs  inputs
}

// releaseUsage describes --keystone-release.
const releaseUsage = "release of OpenStack whose Keystone loads the policy, such as 2025.1 or epoxy"

// NewLintCommand returns the command lint.
func NewLintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Check files for mistakes",
	}
	cmd.AddCommand(newLintKeystonePolicyCommand())
	return cmd
}

func newLintKeystonePolicyCommand() *cobra.Command {
	var o lintOptions
	cmd := &cobra.Command{
		Use:   "keystone-policy FILE...",
		Short: "Report mistakes in a Keystone policy",
		Long: `Find rules of a Keystone policy that do not do what they say: those that silently allow everybody, that silently never
match, that oslo.policy cannot parse, that refer to what does not exist, that allow what Keystone's own rules deny, or
that let the manager of a domain grant roles beyond those that are managed. FILE is an override in YAML or JSON, as
Keystone reads it, a directory such as policy.d, a zip archive as the charm of Keystone takes it, or - for standard input. Each is
checked by itself, and the files of a directory or an archive together. The manifest of a ConfigMap or Secret is no FILE, but its keys are. YAML is read more strictly than its standard allows: what oslo.policy may not
load, or may read otherwise, is an error, such as tabs, tags and anchors.

--base is a policy that Keystone loads before, such as the policy.json that the charm wrote: a file, a directory or an archive as
well, and several in the order in which Keystone loads them. An override may refer to its rules. A rule is looked for in the
override, in the base from the last to the first, and in what Keystone ships in the release. The base is not checked itself.

A rule that grants more or less than the base, or than Keystone's own rule, is reported with a request that shows it, as the command
"check keystone-policy" takes it, and both answers: one of an administrator, if it is denied. A rule that grants less is a warning if the base
has the rule, and otherwise a note. A role that neither Keystone nor the base checks is a warning if it looks like a misspelled one, such as admn.
What the manager of a domain may do in it is left out; --differences adds that as notes.

--known-rule is a pattern of the rules that an extension of Keystone evaluates, such as 'identity:scim_*': "*" matches any characters
except "/", "?" one character, "[a-z]" a range. It is unknown what they should grant, so that this is not checked. A pattern that
matches no rule is reported on stderr.

The findings about a rule are printed together, the worst first; on a wide terminal as a table. Notes are counted, and printed with
--notes. The last line has the verdict of the gate on ConfigMaps and Secrets with these settings. The formats json and sarif
contain all findings and no verdict.

It needs no Keystone and asks no other host.

The exit status is 0 if nothing is wrong (notes do not count), 1 if there are errors or warnings, 2 if a file could not be
read.`,
		Example: `  warrantgate lint keystone-policy /etc/keystone/policy.yaml
  warrantgate lint keystone-policy policy.yaml -o sarif >policy.sarif
  warrantgate lint keystone-policy overrides.zip --base \
    /etc/keystone/policy.json
  kubectl get configmap policy --namespace keystone --output \
    jsonpath='{.data.policy\.yaml}' | warrantgate lint keystone-policy -
  ssh keystone cat /etc/keystone/policy.yaml | warrantgate lint \
    keystone-policy - --keystone-release caracal`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.inputs.stdin = cmd.InOrStdin()
			return o.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "text", "text, table (one line for each finding), json or sarif")
	flags.BoolVar(&o.notes, "notes", false, "print notes, too")
	flags.StringArrayVar(&o.base, "base", nil, "policy that Keystone loads before: a file, a directory or a zip archive; may be given again, in order")
	flags.StringVar(&o.release, "keystone-release", string(oslopolicy.DefaultRelease), releaseUsage)
	flags.BoolVar(&o.lint.Differences, "differences", false, "report each rule that grants more than the base or, without one, than what Keystone ships, also if that is probably meant")
	flags.StringVar(&o.failOn, "fail-on", string(oslopolicy.SeverityWarning), "least severity that counts as wrong: error, warning or note")
	flags.StringSliceVar(&o.lint.ManagerRoles, "manager-role", []string{"manager"}, "role of those who manage a domain; may be given again")
	flags.StringSliceVar(&o.lint.ManagedRoles, "managed-role", []string{"load-balancer_member", "member"},
		"role that managers may grant; may be given again")
	flags.StringSliceVar(&o.lint.KnownRules, "known-rule", nil, "pattern of rules that an extension of Keystone evaluates, such as 'identity:scim_*'; may be given again")
	return cmd
}

// linted is what was found in a FILE.
type linted struct {
	name     string
	sources  []oslopolicy.Source
	findings []oslopolicy.Finding
	// decision is that of the gate, and reason its reason.
	decision webhooks.Decision
	reason   string
}

// severities are the severities, the worst first.
var severities = []oslopolicy.Severity{oslopolicy.SeverityError, oslopolicy.SeverityWarning, oslopolicy.SeverityNote}

// outputs are the output formats. Those for users leave out notes unless notes is true.
var outputs = map[string]func(out io.Writer, all []linted, notes bool) error{
	"text":  printText,
	"table": printTable,
	"json": func(out io.Writer, all []linted, _ bool) error {
		return encodeJSON(out, map[string]any{"findings": findingsOf(all)})
	},
	"sarif": func(out io.Writer, all []linted, _ bool) error { return encodeJSON(out, newSARIF(findingsOf(all))) },
}

func findingsOf(all []linted) []oslopolicy.Finding {
	findings := []oslopolicy.Finding{}
	for _, l := range all {
		findings = append(findings, l.findings...)
	}
	return findings
}

func (o *lintOptions) run(ctx context.Context, files []string, out, errOut io.Writer) error {
	least := slices.Index(severities, oslopolicy.Severity(o.failOn))
	if least < 0 {
		return fmt.Errorf("--fail-on: %q must be error, warning or note", o.failOn)
	}
	if outputs[o.output] == nil {
		return fmt.Errorf("--output: %q must be one of text, table, json, sarif", o.output)
	}
	for _, pattern := range o.lint.KnownRules {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--known-rule: %q must be a pattern such as identity:scim_*", pattern)
		}
	}
	var err error
	if o.lint.Release, err = oslopolicy.ParseRelease(o.release); err != nil {
		return fmt.Errorf("--keystone-release: %w", err)
	}
	if o.lint.Base, err = o.inputs.readBase(o.base); err != nil {
		return err
	}
	all := make([]linted, 0, len(files))
	var sources []oslopolicy.Source
	var unread error
	for _, name := range files {
		l, err := o.of(ctx, name)
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		all, sources = append(all, l), append(sources, l.sources...)
	}
	if len(all) == 0 {
		return unread
	}
	if err := outputs[o.output](out, all, o.notes || o.failOn == string(oslopolicy.SeverityNote)); err != nil {
		return err
	}
	for _, pattern := range oslopolicy.UnusedPatterns(sources, o.lint) {
		fmt.Fprintf(errOut, "note: --known-rule: %q matches no rule of FILE and --base, apart from Keystone's own\n", pattern)
	}
	if unread == nil && slices.ContainsFunc(findingsOf(all), func(f oslopolicy.Finding) bool { return slices.Index(severities, f.Severity) <= least }) {
		return cli.ExitError{Code: cli.ExitWrong}
	}
	return unread
}

// of lints the files that a name stands for.
func (o *lintOptions) of(ctx context.Context, name string) (linted, error) {
	sources, err := o.inputs.readSources(name)
	if err != nil {
		return linted{}, err
	}
	l := linted{name: name, sources: sources}
	if name == standardInput {
		l.name = stdinName
	}
	if l.findings, err = oslopolicy.LintKeystone(ctx, sources, o.lint); err != nil {
		return linted{}, err
	}
	l.decision, l.reason = keystone.Verdict(sources, l.findings)
	return l, nil
}

func encodeJSON(out io.Writer, document any) error {
	encoder := json.NewEncoder(message.JSON(out))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}
