package install

import (
	"context"
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
	target.addFlags(uninstallKCP.Flags())
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

// remove removes the objects that warrantgate created.
func (d dryRun) remove(ctx context.Context, c client.Client, objects []client.Object) ([]install.Result, error) {
	if !d {
		return install.Remove(ctx, c, objects)
	}
	results, err := install.Remove(ctx, client.NewDryRunClient(c), objects)
	for i := range results {
		if results[i].Outcome == install.Deleted {
			results[i].Outcome += " (dry run)"
		}
	}
	return results, err
}

func (t kcpTarget) uninstall(ctx context.Context, out io.Writer, dryRun dryRun) error {
	root, err := t.rootClient()
	if err != nil {
		return err
	}
	if err := report(out, "root", func() ([]install.Result, error) { return dryRun.remove(ctx, root, t.registrable()) }); err != nil {
		return err
	}
	for i := range t.shardKubeconfigs {
		if err := t.inShard(i, func(c client.Client) error {
			return report(out, t.shardKubeconfigs[i], func() ([]install.Result, error) {
				return dryRun.remove(ctx, c, shardRegistrable())
			})
		}); err != nil {
			return err
		}
	}
	return report(out, "root", func() ([]install.Result, error) {
		return dryRun.remove(ctx, root, []client.Object{owner.Lease(), install.Lease(metav1.NamespaceDefault, gates.AuditLease)})
	})
}
