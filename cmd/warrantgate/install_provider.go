package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/webhooks"
)

type installProviderOptions struct {
	providerTarget
	serverOptions
}

func newInstallProviderCommand() *cobra.Command {
	var o installProviderOptions
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Register the gates on machines and clusters that a provider exports on kcp",
		Long: `Register the gates on machines and clusters of Cluster API providers in the workspace of kcp that holds the
provider's APIExport, from where they hold in every workspace that binds it.

With --shard-kubeconfig it also gives the user that serve runs as the right to see machines and clusters in every
workspace of that shard, to ask what others may do there and to write Events, and nothing else. serve takes its
--kcp-kubeconfig and needs an access to the cloud.`,
		Example: `  warrantgate install provider --kubeconfig=admin.kubeconfig --context=provider --url=https://warrantgate.example.com:9443 \
    --ca-file=ca.crt --webhook-path-file=webhook-path --shard-kubeconfig=admin.kubeconfig --shard-context=system:admin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	o.providerTarget.addFlags(cmd)
	o.serverOptions.addFlags(cmd)
	return cmd
}

func (o installProviderOptions) run(ctx context.Context, out io.Writer) error {
	config, server, err := o.load()
	if err != nil {
		return err
	}
	registration := server.Registration(nil, providerHooks(config))
	roles := clusterapi.WorkspaceRoles(exportable(config).MachineKinds(), o.user)
	if o.dryRun {
		return printYAML(out, part{"in the workspace of the APIExport", registration}, part{"in logical cluster system:admin of each shard", roles})
	}
	return o.change(ctx, out, func(ctx context.Context, c client.Client, inShard bool) ([]install.Result, error) {
		if inShard {
			return install.Replace(ctx, c, roles, o.shardRegistrable())
		}
		return install.Replace(ctx, c, registration, o.registrable())
	})
}

func newUninstallProviderCommand() *cobra.Command {
	var target providerTarget
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Take the gates out of the workspace of a provider's APIExport",
		Long: `Take out exactly what "warrantgate install provider" made in the workspace of the APIExport, and with
--shard-kubeconfig the rights in the shards.`,
		Example: `  warrantgate uninstall provider --kubeconfig=admin.kubeconfig --context=provider`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return target.change(cmd.Context(), cmd.OutOrStdout(), func(ctx context.Context, c client.Client, inShard bool) ([]install.Result, error) {
				if inShard {
					return install.Remove(ctx, c, target.shardRegistrable())
				}
				return install.Remove(ctx, c, target.registrable())
			})
		},
	}
	target.addFlags(cmd)
	return cmd
}

// providerTarget says which workspace of which kcp, and as whom.
type providerTarget struct {
	kubeconfig, context string
	shards              kcpTarget // only its shards count
}

func (t *providerTarget) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&t.kubeconfig, "kubeconfig", "", "kubeconfig of an administrator of the workspace with the APIExport (default $KUBECONFIG)")
	flags.StringVar(&t.context, "context", "", "context in that kubeconfig, which leads into the workspace (default its current one)")
	t.shards.addShardFlags(flags, "for the right to see machines and clusters there")
}

// change changes the shards first, because serve may be waiting for its rights, and then the workspace.
func (t providerTarget) change(
	ctx context.Context, out io.Writer, do func(ctx context.Context, c client.Client, inShard bool) ([]install.Result, error),
) error {
	for i, kubeconfig := range t.shards.shardKubeconfigs {
		if err := t.shards.inShard(i, func(c client.Client) error {
			return report(out, kubeconfig, func() ([]install.Result, error) { return do(ctx, c, true) })
		}); err != nil {
			return err
		}
	}
	c, err := kubernetesTarget{kubeconfig: t.kubeconfig, context: t.context}.client()
	if err != nil {
		return err
	}
	return report(out, "provider", func() ([]install.Result, error) { return do(ctx, c, false) })
}

// registrable is all that may be registered in the workspace, whatever the configuration is or was.
func (providerTarget) registrable() []client.Object {
	return webhooks.Server{}.Registration(nil, providerHooks(v1beta1.Default()))
}

// shardRegistrable is all that may be registered in system:admin of a shard.
func (providerTarget) shardRegistrable() []client.Object {
	return clusterapi.WorkspaceRoles(v1beta1.Default().MachineKinds(), "")
}
