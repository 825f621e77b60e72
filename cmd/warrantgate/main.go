// Command warrantgate corrects, at admission, the identities that control planes act as, and gives the reason for each denial.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/install"
	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/machines"
	"warrantgate.dev/cmd/warrantgate/policies"
	"warrantgate.dev/cmd/warrantgate/serve"
	"warrantgate.dev/cmd/warrantgate/workspaces"
	"warrantgate.dev/internal/message"
)

// version and revision, which is a commit, are set when the binary is built.
var (
	version  = "dev"
	revision string
)

func main() {
	cli.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := newCommand(os.Args[0], os.Stdout, os.Stderr)
	if completesForKubectl(os.Args[0]) {
		root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, os.Args[1:]...))
	}
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		code, reason := cli.ExitCode(err)
		if reason != nil {
			fmt.Fprintln(root.ErrOrStderr(), "warrantgate:", printable(reason))
		}
		os.Exit(code)
	}
}

// printable returns the text of an error for a terminal. An error may have several lines, and contain texts of other users.
func printable(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = message.Printable(line)
	}
	return strings.Join(lines, "\n")
}

// newCommand returns the command of a program, which kubectl may have called as a plugin.
func newCommand(program string, out, errOut io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:     "warrantgate",
		Version: version,
		Short:   "Admission control for the identities that control planes impersonate",
		Long: `warrantgate checks, at admission, the identities that control planes impersonate.

On kcp it rewrites the owner of a Workspace that is created by a service account, or by another user that kcp considers
foreign in it, into a warrant-backed identity, so that the workspace becomes Ready (kcp-dev/kcp#4038). It denies forged
owners.

On Kubernetes it denies a machine of Cluster API that names a server which does not belong to the user that the provider
impersonates, and a cluster that names a user that its author may not impersonate.

Start with: warrantgate install kcp --help, or warrantgate install kubernetes --help`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(out)
	root.SetErr(errOut)
	root.AddCommand(serve.NewCommand(), install.NewInstallCommand(), install.NewUninstallCommand(), newVersionCommand())
	explain := workspaces.NewExplainCommand()
	explain.AddCommand(machines.NewExplainCommand())
	root.AddCommand(explain, workspaces.NewRepairCommand(), machines.NewAuditCommand())
	root.AddCommand(policies.NewLintCommand(), policies.NewCheckCommand())
	asKubectlPlugin(root, program)
	explainUsage(root)
	addCompletion(root)
	return root
}
