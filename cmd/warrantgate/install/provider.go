package install

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/kcp-dev/sdk/apis/core"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/webhookserver"
	"warrantgate.dev/webhooks"
)

type installProviderOptions struct {
	kcpTarget
	serverOptions
}

func newInstallProviderCommand() *cobra.Command {
	var o installProviderOptions
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Install the gates on what a Cluster API provider exports on kcp",
		Long: `Install the gates on machines and clusters of Cluster API providers in the kcp workspace of the provider's APIExport, where they
apply to every workspace that binds it.

RBAC of this workspace (verb impersonate on users) decides who may let a cluster act as which user of the cloud, because the owner
of a workspace that binds the APIExport is cluster-admin there. install grants the user of serve the permissions to create
SubjectAccessReviews in this workspace, and to read the objects of those of its APIExports that export gated kinds, in all workspaces that
bind them.

With --shard-kubeconfig it also grants that user the permissions to find the shards in root, to read the Machines of Cluster API and to write
Events in every workspace of that shard, and no other. serve uses --kcp-kubeconfig, and needs access to the cloud.

Run it again after an upgrade of serve, and after another APIExport exports one of these kinds.`,
		Example: `  warrantgate install provider --kubeconfig=admin.kubeconfig \
    --context=provider --url=https://warrantgate.example.com:9443 \
    --ca-file=ca.crt --webhook-path-file=webhook-path \
    --shard-kubeconfig=admin.kubeconfig --shard-context=system:admin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	o.addProviderFlags(cmd.Flags())
	o.serverOptions.addFlags(cmd)
	return cmd
}

func (o installProviderOptions) run(ctx context.Context, out io.Writer) error {
	config, server, err := o.load()
	if err != nil {
		return err
	}
	inWorkspace, provider, path, err := o.provider(ctx)
	if err != nil {
		return err
	}
	// Not that of the bindings in the provider's workspace: its owner can change them, and the user gets permissions in the shards.
	trusted := slices.Concat(shardRegistrable(), clusterapi.WorkspaceRoles(""))
	if err := o.inShards(func(_ string, c client.Client) error { return o.keepUser(ctx, c, trusted) }); err != nil && !o.dryRun {
		return err
	}
	if server.PathToken != "" { // the owner of this workspace can read it
		server.PathToken = webhookserver.TokenFor(server.PathToken, provider.String())
	}
	audited := auditedExports(config.Audit, provider, path)
	if len(audited) == 0 && config.Machine.Unknown == v1beta1.AdmitFirstClaims {
		return fmt.Errorf("machine.unknown: Invalid value: %q: needs audit.providers with an APIExport of workspace %s, because nothing else checks the "+
			"admitted claims later", config.Machine.Unknown, cmp.Or(path, provider.String()))
	}
	registration := gates.ProviderRegistration(server, config, provider, len(audited) > 0)
	exports, err := clusterapi.ExportsOf(ctx, inWorkspace, func(resource schema.GroupResource) bool { return gates.IsGated(registration, resource) })
	if err != nil {
		return fmt.Errorf("list the APIExports of the workspace: %w", err)
	}
	// The permissions come first: serve needs them for the first request that it evaluates.
	permissions := clusterapi.ProviderRoles(o.user)
	if exports = slices.Compact(slices.Sorted(slices.Values(append(exports, audited...)))); len(exports) > 0 {
		permissions = append(permissions, clusterapi.ExportRoles(exports, o.user)...)
	}
	registration = append(permissions, registration...)
	roles := clusterapi.WorkspaceRoles(o.user)
	if o.dryRun {
		return printYAML(out, part{"in the workspace of the APIExport", registration}, part{"in logical cluster system:admin of each shard", roles})
	}
	c, err := o.workspaceClient()
	if err != nil {
		return err
	}
	// Before the workspace, because serve may be waiting for its permissions on the shards.
	if err := o.inShards(func(where string, c client.Client) error {
		return report(out, where, func() ([]install.Result, error) { return install.Replace(ctx, c, roles, clusterapi.WorkspaceRoles("")) })
	}); err != nil {
		return err
	}
	return report(out, "provider", func() ([]install.Result, error) { return install.Replace(ctx, c, registration, providerRegistrable()) })
}

// auditedExports returns the names of those APIExports of a workspace that the audit reads. The workspace is given by its logical cluster
// and its path.
func auditedExports(audit v1beta1.Audit, cluster logicalcluster.Name, path string) []string {
	var exports []string
	if !audit.OnKCP() {
		return nil
	}
	for _, provider := range audit.Providers {
		if provider.Workspace == cluster.String() || provider.Workspace == path {
			exports = append(exports, provider.APIExport)
		}
	}
	return exports
}

func newUninstallProviderCommand() *cobra.Command {
	var target kcpTarget
	var dryRun dryRun
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Uninstall the gates from the workspace of a provider's APIExport",
		Long: `Remove only the objects that "warrantgate install provider" created in the workspace of the APIExport, and with
--shard-kubeconfig the permissions in the shards. The gates of other providers need these, too.`,
		Example: `  warrantgate uninstall provider --kubeconfig=admin.kubeconfig \
    --context=provider`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := target.workspaceClient()
			if err != nil {
				return err
			}
			// If the kubeconfig of a shard cannot be read, nothing is removed.
			if err := target.inShards(func(string, client.Client) error { return nil }); err != nil {
				return err
			}
			// Before the permissions on the shards: without these, the gates cannot decide.
			if err := dryRun.remove(cmd.Context(), cmd.OutOrStdout(), "provider", c, providerRegistrable()); err != nil {
				return err
			}
			roles := clusterapi.WorkspaceRoles("")
			if err := target.inShards(func(where string, c client.Client) error {
				return dryRun.remove(cmd.Context(), cmd.OutOrStdout(), where, c, roles)
			}); err != nil {
				return err
			}
			return target.noteShards(cmd.ErrOrStderr(), "provider", roles)
		},
	}
	target.addProviderFlags(cmd.Flags())
	dryRun.addFlag(cmd.Flags())
	return cmd
}

func (t *kcpTarget) addProviderFlags(flags *pflag.FlagSet) {
	t.addFlags(flags, "kubeconfig of an administrator of the workspace with the APIExport", "for the permissions to write Events and to read owners of machines there")
}

// workspaceClient returns a client for the workspace of the APIExport.
func (t kcpTarget) workspaceClient() (client.Client, error) {
	config, err := t.providerConfig()
	if err != nil {
		return nil, err
	}
	return newClient(config)
}

// providerConfig returns the configuration of clients for the workspace of the APIExport. It is an error if that is root, which is the current context
// of many kubeconfigs for kcp: the gates of install kcp have the same names there.
func (t kcpTarget) providerConfig() (*rest.Config, error) {
	config, err := t.Config()
	if err != nil {
		return nil, err
	}
	root, err := kcp.ConfigFor(config, kcp.Root)
	if err == nil && strings.TrimSuffix(config.Host, "/") == root.Host {
		err = fmt.Errorf("%s is the workspace root, where other gates have the same names: set --context or --kubeconfig to the workspace with the APIExport",
			root.Host)
	}
	return config, err
}

// provider returns a client for the workspace, the name of its logical cluster, and its path.
func (t kcpTarget) provider(ctx context.Context) (in client.Client, name logicalcluster.Name, path string, err error) {
	config, err := t.providerConfig()
	if err != nil {
		return nil, "", "", err
	}
	if in, err = kcp.NewClient(config); err != nil {
		return nil, "", "", fmt.Errorf("client for the provider's workspace: %w", err)
	}
	var found corev1alpha1.LogicalCluster
	if err := in.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &found); err != nil {
		return nil, "", "", fmt.Errorf("determine the workspace of --kubeconfig and --context: %w", err)
	}
	name = logicalcluster.From(&found)
	// An administrator of the workspace can write another path.
	if path = kcp.PathIn(&found, core.LogicalClusterPathAnnotationKey); path != "" && !leadsTo(ctx, config, path, name) {
		path = ""
	}
	return in, name, path, kcp.ValidateName(name)
}

// leadsTo reports whether the user of config finds a logical cluster by a path.
func leadsTo(ctx context.Context, config *rest.Config, path string, cluster logicalcluster.Name) bool {
	there, err := kcp.ConfigFor(config, logicalcluster.NewPath(path))
	if err != nil {
		return false
	}
	c, err := kcp.NewClient(there)
	var found corev1alpha1.LogicalCluster
	return err == nil && c.Get(ctx, client.ObjectKey{Name: corev1alpha1.LogicalClusterName}, &found) == nil && logicalcluster.From(&found) == cluster
}

// providerRegistrable returns all objects that any configuration may register in the workspace, or that an earlier version registered there.
func providerRegistrable() []client.Object {
	earlier := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.ConfigurationName}}
	earlier.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
	return slices.Concat([]client.Object{earlier}, clusterapi.ProviderRoles(""), clusterapi.ExportRoles(nil, ""), gates.ProviderRegistration(webhooks.Server{}, v1beta1.Default(), "", false))
}
