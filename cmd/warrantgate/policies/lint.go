package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/oslopolicy"
)

type lintOptions struct {
	output  string
	failOn  string
	base    []string
	release string
	lint    oslopolicy.LintOptions
}

// releaseUsage describes --keystone-release.
const releaseUsage = "release of OpenStack whose Keystone loads the policy, such as 2025.1 or epoxy"

// NewLintCommand returns the command lint.
func NewLintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint",
		Short: "Check files for mistakes",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
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
Keystone reads it, a directory such as policy.d, or a zip archive as the charm of Keystone takes it. Each is checked by itself, and
the files of a directory or an archive together. YAML is read more strictly than its standard allows: what oslo.policy may not
load, or may read otherwise, is an error, such as tabs, tags and anchors.

--base is a policy that Keystone loads before, such as the policy.json that the charm wrote: a file, a directory or an archive as
well, and several in the order in which Keystone loads them. An override may refer to its rules. A rule is looked for in the
override, in the base from the last to the first, and in what Keystone ships in the release. The base is not checked itself.

A rule that grants more or less than the base, or than Keystone's own rule, is reported with a request that shows it, as the command
"check keystone-policy" takes it, and both answers. A rule that grants less is a warning if the base has the rule, and otherwise a note.
What the manager of a domain may do in it is left out; --differences adds that as notes.

It needs no Keystone and asks no other host.

The exit status is 0 if nothing is wrong (notes do not count), 1 if there are errors or warnings, 2 if a file could not be
read.`,
		Example: `  warrantgate lint keystone-policy /etc/keystone/policy.yaml
  warrantgate lint keystone-policy policy.yaml -o sarif >policy.sarif
  warrantgate lint keystone-policy overrides.zip --base /etc/keystone/policy.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			return cli.UnknownIfError(cobra.MinimumNArgs(1)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UnknownIfError(err) })
	flags := cmd.Flags()
	flags.StringVarP(&o.output, "output", "o", "table", "table, json or sarif")
	flags.StringArrayVar(&o.base, "base", nil, "policy that Keystone loads before: a file, a directory or a zip archive; may be given again, in order")
	flags.StringVar(&o.release, "keystone-release", string(oslopolicy.DefaultRelease), releaseUsage)
	flags.BoolVar(&o.lint.Differences, "differences", false, "report each rule that grants more than the base or, without one, than what Keystone ships, also if that is probably meant")
	flags.StringVar(&o.failOn, "fail-on", string(oslopolicy.SeverityWarning), "least severity that counts as wrong: error, warning or note")
	flags.StringSliceVar(&o.lint.ManagerRoles, "manager-role", []string{"manager"}, "role of those who manage a domain; may be given again")
	flags.StringSliceVar(&o.lint.ManagedRoles, "managed-role", []string{"load-balancer_member", "member"},
		"role that managers may grant; may be given again")
	return cmd
}

// lintPrinters are the output formats.
var lintPrinters = map[string]func(io.Writer, []oslopolicy.Finding) error{
	"table": printPolicyFindings,
	"json": func(out io.Writer, findings []oslopolicy.Finding) error {
		return encodeJSON(out, map[string]any{"findings": findings})
	},
	"sarif": func(out io.Writer, findings []oslopolicy.Finding) error { return encodeJSON(out, newSARIF(findings)) },
}

func (o lintOptions) run(ctx context.Context, files []string, out io.Writer) error {
	severities := []oslopolicy.Severity{oslopolicy.SeverityError, oslopolicy.SeverityWarning, oslopolicy.SeverityNote}
	least := slices.Index(severities, oslopolicy.Severity(o.failOn))
	if least < 0 {
		return cli.UnknownIfError(fmt.Errorf("--fail-on: %q must be error, warning or note", o.failOn))
	}
	if lintPrinters[o.output] == nil {
		return cli.UnknownIfError(fmt.Errorf("--output: %q must be table, json or sarif", o.output))
	}
	var err error
	if o.lint.Release, err = oslopolicy.ParseRelease(o.release); err != nil {
		return cli.UnknownIfError(fmt.Errorf("--keystone-release: %w", err))
	}
	if o.lint.Base, err = readBase(o.base); err != nil {
		return cli.UnknownIfError(err)
	}
	findings := []oslopolicy.Finding{}
	for _, name := range files {
		sources, err := readSources(name)
		if err != nil {
			return cli.UnknownIfError(err)
		}
		found, err := oslopolicy.LintKeystone(ctx, sources, o.lint)
		if err != nil {
			return cli.UnknownIfError(err)
		}
		findings = append(findings, found...)
	}
	if err := lintPrinters[o.output](out, findings); err != nil {
		return cli.UnknownIfError(err)
	}
	if slices.ContainsFunc(findings, func(f oslopolicy.Finding) bool { return slices.Index(severities, f.Severity) <= least }) {
		return cli.ExitError{Code: cli.ExitWrong}
	}
	return nil
}

func encodeJSON(out io.Writer, document any) error {
	encoder := json.NewEncoder(message.JSON(out))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

func printPolicyFindings(out io.Writer, findings []oslopolicy.Finding) error {
	if len(findings) == 0 {
		_, err := fmt.Fprintln(out, "nothing found")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PLACE\tSEVERITY\tCODE\tRULE\tMESSAGE")
	for _, f := range findings {
		fmt.Fprintf(table, "%s:%d\t%s\t%s\t%s\t%s\n", f.File, f.Line, f.Severity, f.Code, oneTableCell(f.Rule), oneTableCell(f.Details()))
	}
	return table.Flush()
}

// oneTableCell keeps text from a file from adding lines or columns to the table, and from controlling the terminal.
func oneTableCell(text string) string {
	return message.Printable(strings.Join(strings.Fields(text), " "))
}
