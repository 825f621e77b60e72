// Package workspaces has the commands about workspaces of a kcp: explain and repair.
package workspaces

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/preflight"
)

type explainOptions struct {
	kubeconfig, context string
	output              string
}

// NewExplainCommand returns the command explain.
func NewExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain what is wrong with an object",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExplainWorkspaceCommand())
	return cmd
}

func newExplainWorkspaceCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "workspace PATH",
		Short: "Say why a workspace is not Ready, and what to do",
		Long: `Say why a workspace is not Ready, and what to do: as whom kcp acts for it, which initializers and API bindings it
waits for, and which rights are missing. PATH is a path such as root:orgs:team-a, or the name of a logical cluster.

It writes nothing and needs no running warrantgate, only a kubeconfig for kcp. What the user of that may not read or
ask is said to be unknown, with the right that is missing. Rights are asked of kcp itself, with SubjectAccessReviews.

The exit status is 0 if nothing is wrong, 1 if something is, 2 if that could not be told.`,
		Example: `  warrantgate explain workspace root:orgs:team-a --kubeconfig=admin.kubeconfig
  warrantgate explain workspace root:orgs:team-a -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			return cli.UnknownIfError(cobra.ExactArgs(1)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UnknownIfError(err) })
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig for kcp (default $KUBECONFIG)")
	flags.StringVar(&o.context, "context", "", "context of that kubeconfig (default: the current one)")
	flags.StringVarP(&o.output, "output", "o", "text", "text, json or yaml")
	return cmd
}

func (o explainOptions) run(ctx context.Context, path string, out io.Writer) error {
	report, err := o.report(ctx, path)
	if err != nil {
		return cli.UnknownIfError(err)
	}
	if err := o.print(out, report); err != nil {
		return cli.UnknownIfError(err)
	}
	switch report.Verdict() {
	case preflight.Yes:
		return nil
	case preflight.No:
		return cli.ExitError{Code: cli.ExitWrong}
	default:
		return cli.ExitError{Code: cli.ExitUnknown}
	}
}

func (o explainOptions) report(ctx context.Context, path string) (preflight.Report, error) {
	if printers[o.output] == nil {
		return preflight.Report{}, fmt.Errorf("--output: %q must be text, json or yaml", o.output)
	}
	where := logicalcluster.NewPath(path)
	if !where.IsValid() {
		return preflight.Report{}, fmt.Errorf("%q is not the path of a workspace, such as root:orgs:team-a", path)
	}
	config, err := cli.LoadKubeconfig(o.kubeconfig, o.context)
	if err != nil {
		return preflight.Report{}, err
	}
	config.Timeout = cli.RequestTimeout
	clients, err := kcp.NewClients(config)
	if err != nil {
		return preflight.Report{}, err
	}
	checker := preflight.Checker{Client: clients}
	ws, err := checker.Load(ctx, where)
	if err != nil {
		return preflight.Report{}, err
	}
	return checker.Check(ctx, ws), nil
}

// printers are the forms of output.
var printers = map[string]func(io.Writer, preflight.Report) error{
	"text": printExplanation,
	"json": func(out io.Writer, report preflight.Report) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	},
	"yaml": func(out io.Writer, report preflight.Report) error {
		document, err := yaml.Marshal(report)
		if err == nil {
			_, err = out.Write(document)
		}
		return err
	},
}

func (o explainOptions) print(out io.Writer, report preflight.Report) error {
	return printers[o.output](out, report)
}
