package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/oslopolicy"
)

// maxPolicyBytes bounds what is read of a policy file: one byte more than is judged, so that a larger one is seen to be larger.
const maxPolicyBytes = 256<<10 + 1

type lintOptions struct {
	output string
	failOn string
	lint   oslopolicy.LintOptions
}

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
match, that oslo.policy cannot parse, that refer to what does not exist, that let pass whom Keystone's own rules deny, or
that let the manager of a domain grant roles beyond those that are managed. FILE is an override in YAML or JSON, as
Keystone reads it; each file is judged by itself, over the rules that Keystone 22 ships. YAML is read more strictly than its
standard allows: what oslo.policy may not load, or may read otherwise, is an error, such as tabs, tags and anchors.

It needs no Keystone and asks no other host.

The exit status is 0 if nothing is wrong (notes do not count), 1 if there are errors or warnings, 2 if a file could not be
read.`,
		Example: `  warrantgate lint keystone-policy /etc/keystone/policy.yaml
  warrantgate lint keystone-policy policy.yaml -o sarif >policy.sarif`,
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
	flags.StringVar(&o.failOn, "fail-on", string(oslopolicy.SeverityWarning), "least severity that counts as wrong: error, warning or note")
	flags.StringSliceVar(&o.lint.ManagerRoles, "manager-role", []string{"manager"}, "role of those who manage a domain; may be given again")
	flags.StringSliceVar(&o.lint.ManagedRoles, "managed-role", []string{"load-balancer_member", "member"},
		"role that managers may grant; may be given again")
	return cmd
}

// lintPrinters are the forms of output.
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
	findings := []oslopolicy.Finding{}
	for _, name := range files {
		document, err := readPolicy(name)
		if err != nil {
			return cli.UnknownIfError(err)
		}
		found, err := oslopolicy.LintKeystone(ctx, []oslopolicy.Source{{Name: name, Data: document}}, o.lint)
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

// readPolicy reads a file, but no more than is judged.
func readPolicy(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	document, err := io.ReadAll(io.LimitReader(file, maxPolicyBytes))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return document, nil
}

func encodeJSON(out io.Writer, document any) error {
	encoder := json.NewEncoder(out)
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
		message := f.Message
		if f.Suggestion != "" {
			message += "; " + f.Suggestion
		}
		fmt.Fprintf(table, "%s:%d\t%s\t%s\t%s\t%s\n", f.File, f.Line, f.Severity, f.Code, oneTableCell(f.Rule), oneTableCell(message))
	}
	return table.Flush()
}

// oneTableCell keeps what a file names from making lines or columns of its own.
func oneTableCell(text string) string { return strings.Join(strings.Fields(text), " ") }
