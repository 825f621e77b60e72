package install

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/initializers/owner"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/leader"
)

// NewUninstallCommand returns the command uninstall.
func NewUninstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Uninstall the gates from an API server",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var target kcpTarget
	var ignoreWaiting bool
	uninstallKCP := &cobra.Command{
		Use:   "kcp",
		Short: "Uninstall the gates on Workspaces from kcp",
		Long: `Remove only the objects that "warrantgate install kcp" created in root, and with --shard-kubeconfig the permissions in the
shards. Objects of the same names that warrantgate did not install are not changed. Workspaces keep their owners.

Nothing is removed while workspaces wait for the initializer of the WorkspaceType "warranted": without serve they would stay in
Initializing. The error lists them. Keep serve running until they are Ready, or delete them, and run the command again.
--ignore-waiting uninstalls nevertheless. First remove "warranted" from the WorkspaceTypes that extend it.`,
		Example: `  warrantgate uninstall kcp --kubeconfig=admin.kubeconfig --shard-kubeconfig=admin.kubeconfig --shard-context=system:admin`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !ignoreWaiting {
				if err := target.checkWaiting(cmd.Context()); err != nil {
					return err
				}
			}
			return target.uninstall(cmd.Context(), cmd.OutOrStdout())
		},
	}
	target.addFlags(uninstallKCP.Flags())
	uninstallKCP.Flags().BoolVar(&ignoreWaiting, "ignore-waiting", false,
		"uninstall although workspaces wait for the initializer of the WorkspaceType warranted; they stay in Initializing")
	cmd.AddCommand(uninstallKCP, newUninstallKubernetesCommand(), newUninstallProviderCommand())
	return cmd
}

// maxListed limits how many waiting workspaces an error names.
const maxListed = 5

// checkWaiting returns an error if workspaces wait for the initializer, or if that could not be determined.
func (t kcpTarget) checkWaiting(ctx context.Context) error {
	config, err := t.rootConfig()
	if err != nil {
		return err
	}
	shards, err := owner.NewShards(config)
	if err != nil {
		return err
	}
	waiting, err := shards.Waiting(ctx)
	if err != nil {
		return fmt.Errorf("nothing was removed, because it could not be determined which workspaces wait for the initializer of the WorkspaceType "+
			"warranted: %w; run this command again, or with --ignore-waiting", err)
	}
	if len(waiting) == 0 {
		return nil
	}
	list := strings.Join(waiting[:min(len(waiting), maxListed)], "\n  ")
	if more := len(waiting) - maxListed; more > 0 {
		list += fmt.Sprintf("\n  and %d more", more)
	}
	return fmt.Errorf("nothing was removed, because workspaces wait for the initializer of the WorkspaceType warranted, %d in all, and would stay in "+
		"Initializing without it:\n  %s\nKeep `warrantgate serve` running until they are Ready (`warrantgate explain workspace PATH` says what one "+
		"lacks), or delete them. Then run this command again. With --ignore-waiting it uninstalls now; to finish these workspaces later, "+
		"run `warrantgate install kcp` and `warrantgate serve` again", len(waiting), list)
}

func (t kcpTarget) uninstall(ctx context.Context, out io.Writer) error {
	root, err := t.rootClient()
	if err != nil {
		return err
	}
	if err := report(out, "root", func() ([]install.Result, error) { return install.Remove(ctx, root, t.registrable()) }); err != nil {
		return err
	}
	for i := range t.shardKubeconfigs {
		if err := t.inShard(i, func(c client.Client) error {
			return report(out, t.shardKubeconfigs[i], func() ([]install.Result, error) {
				return install.Remove(ctx, c, shardRegistrable())
			})
		}); err != nil {
			return err
		}
	}
	return report(out, "root", func() ([]install.Result, error) {
		return install.Remove(ctx, root, []client.Object{owner.Lease(), leader.Lease(metav1.NamespaceDefault, gates.AuditLease)})
	})
}
