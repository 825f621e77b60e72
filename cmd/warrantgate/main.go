// Command warrantgate makes the identities that control planes act as right at admission, and says why when it says no.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/install"
	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/machines"
	"warrantgate.dev/cmd/warrantgate/policies"
	"warrantgate.dev/cmd/warrantgate/serve"
	"warrantgate.dev/cmd/warrantgate/workspaces"
)

// version and revision, a commit, are set when the binary is built.
var (
	version  = "dev"
	revision string
)

func main() {
	cli.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := newCommand(os.Stdout, os.Stderr)
	asKubectlPlugin(root, os.Args[0])
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		code, message := cli.ExitCode(err)
		if message != nil {
			fmt.Fprintln(os.Stderr, "warrantgate:", message)
		}
		os.Exit(code)
	}
}

func newCommand(out, errOut io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "warrantgate",
		Short: "The gate that keeps the identities that control planes act as right",
		Long: `warrantgate sits at the gate of a control plane and asks of every object that names an identity: may this
object act as the user it names?

On kcp it rewrites the owner of a workspace that a service account creates (or anybody else whom kcp sees as
foreign in it) into a warrant-backed identity, so that the workspace becomes Ready (kcp-dev/kcp#4038), and keeps
the recorded owner from being forged.

On the API server of Cluster API objects it refuses a machine that names an instance which does not belong to the user
whom its provider acts as, and a cluster that names a user whom its author may not act for.

Start with: warrantgate install kcp --help, or warrantgate install kubernetes --help`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetOut(out)
	root.SetErr(errOut)
	root.AddCommand(serve.NewCommand(), install.NewInstallCommand(), install.NewUninstallCommand(), newVersionCommand())
	root.AddCommand(workspaces.NewExplainCommand(), workspaces.NewRepairCommand(), machines.NewAuditCommand())
	root.AddCommand(policies.NewLintCommand(), policies.NewCheckCommand())
	return root
}
