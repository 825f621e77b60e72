package install

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/initializers/owner"
	"warrantgate.dev/internal/install"
)

// NewUninstallCommand returns the command uninstall.
func NewUninstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Uninstall the gates from an API server",
	}
	var target kcpTarget
	var dryRun dryRun
	uninstallKCP := &cobra.Command{
		Use:   "kcp",
		Short: "Uninstall the gates on Workspaces from kcp",
		Long: `Remove only the objects that "warrantgate install kcp" created in root, and with --shard-kubeconfig the permissions in the
shards. Objects of the same names that warrantgate did not install are not changed. Workspaces keep their owners.

Nothing is removed while workspaces wait for the initializer of the WorkspaceType "warranted": without serve they would stay in
Initializing. The error lists them. Keep serve running until they are Ready, or delete them, and run the command again.
--ignore-waiting uninstalls nevertheless. First remove "warranted" from the WorkspaceTypes that extend it.`,
		Example: `  warrantgate uninstall kcp --kubeconfig=admin.kubeconfig \
    --shard-kubeconfig=admin.kubeconfig --shard-context=system:admin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := target.checkWaiting(cmd.Context()); err != nil {
				return err
			}
			if err := target.uninstall(cmd.Context(), cmd.OutOrStdout(), dryRun); err != nil {
				return err
			}
			return target.noteShards(cmd.ErrOrStderr(), "kcp", shardRegistrable())
		},
	}
	target.addRootFlags(uninstallKCP.Flags())
	target.addWaitingFlag(uninstallKCP.Flags(), "uninstall")
	dryRun.addFlag(uninstallKCP.Flags())
	cmd.AddCommand(uninstallKCP, newUninstallKubernetesCommand(), newUninstallProviderCommand())
	return cmd
}

// dryRun is whether nothing is removed.
type dryRun bool

func (d *dryRun) addFlag(flags *pflag.FlagSet) {
	flags.BoolVar((*bool)(d), "dry-run", false, "send the deletions as dry runs, and remove nothing")
}

// remove removes the objects that warrantgate created, and prints them. Which there are depends on the configuration of install, so it does not
// report missing ones, only if there is none: the kubeconfig may be that of another API server.
func (d dryRun) remove(ctx context.Context, out io.Writer, where string, c client.Client, objects []client.Object) error {
	return report(out, where, func() ([]install.Result, error) {
		if d {
			c = client.NewDryRunClient(c)
		}
		results, err := install.Remove(ctx, c, objects)
		for i := range results {
			if d && results[i].Outcome == install.Deleted {
				results[i].Outcome += " (dry run)"
			}
		}
		if len(results) == 0 && err == nil {
			_, err = fmt.Fprintf(out, "%s: nothing to remove\n", where)
		}
		return results, err
	})
}

func (t kcpTarget) uninstall(ctx context.Context, out io.Writer, dryRun dryRun) error {
	root, err := t.rootClient()
	if err != nil {
		return err
	}
	// If the kubeconfig of a shard cannot be read, nothing is removed.
	if err := t.inShards(func(string, client.Client) error { return nil }); err != nil {
		return err
	}
	// The Leases are removed last, when no replica may create them again.
	leases := []client.Object{owner.Lease(), install.Lease(metav1.NamespaceDefault, gates.AuditLease)}
	if err := dryRun.remove(ctx, out, "root", root, append(leases, rootRegistrable()...)); err != nil {
		return err
	}
	return t.inShards(func(where string, c client.Client) error {
		return dryRun.remove(ctx, out, where, c, shardRegistrable())
	})
}
