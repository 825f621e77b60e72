package install

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/leader"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
)

// kubernetesTarget says which API server, and as whom.
type kubernetesTarget struct {
	kubeconfig     string
	context        string
	leaseNamespace string
}

func (t *kubernetesTarget) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.kubeconfig, "kubeconfig", "", "kubeconfig of an administrator (default $KUBECONFIG)")
	flags.StringVar(&t.context, "context", "", "context in that kubeconfig (default its current one)")
	flags.StringVar(&t.leaseNamespace, "lease-namespace", metav1.NamespaceSystem, "namespace of the Lease by which one replica makes the audit")
}

type installKubernetesOptions struct {
	kubernetesTarget
	serverOptions
	// policiesOnly is whether to write what the API server evaluates by itself, and nothing else.
	policiesOnly bool
}

func newInstallKubernetesCommand() *cobra.Command {
	var o installKubernetesOptions
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Register the gates on machines, clusters, controller managers and Keystone policies with a Kubernetes API server",
		Long: `Register the gates on machines, clusters and controller managers of Cluster API providers, and on policies for Keystone,
with a Kubernetes API server, as far as the configuration has them on: both webhook configurations, the admission policy that has
nobody name a user in spec.userEmail of a CloudSigmaCluster whom they may not impersonate, also while no warrantgate is running, and
the rights that serve needs, for the user that it runs as (get, list and watch of the machines and clusters, get of Secrets by name,
access reviews, Events, one Lease), and nothing else. In mode Warn there is no policy, and the webhook warns.

It may run again, after an upgrade or with another configuration. Start serve before: while the gates are registered and no
warrantgate answers, no machine can come to name another instance.`,
		Example: `  warrantgate install kubernetes --kubeconfig=admin.kubeconfig --url=https://warrantgate.example.com:9443 --ca-file=ca.crt \
    --webhook-path-file=webhook-path --user=system:serviceaccount:warrantgate:warrantgate`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	o.kubernetesTarget.addFlags(cmd.Flags())
	o.addOptionalFlags(cmd)
	const policiesOnly = "policies-only"
	cmd.Flags().BoolVar(&o.policiesOnly, policiesOnly, false,
		"write only the admission policies, which the API server evaluates with no warrantgate running; needs no --url")
	delete(cmd.Flags().Lookup("url").Annotations, cobra.BashCompOneRequiredFlag)
	for _, flag := range []string{"url", "ca-file"} {
		cmd.MarkFlagsOneRequired(flag, policiesOnly)
		cmd.MarkFlagsMutuallyExclusive(flag, policiesOnly)
	}
	return cmd
}

func (o installKubernetesOptions) run(ctx context.Context, out io.Writer) error {
	if o.policiesOnly {
		return o.runPolicies(ctx, out)
	}
	config, server, err := o.load()
	if err != nil {
		return err
	}
	// The rights first: serve may be waiting for them.
	objects := append(kubernetesRoles(config, o.user, o.leaseNamespace), gates.KubernetesRegistration(server, config)...)
	if o.dryRun {
		return printYAML(out, part{"in the API server", objects})
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	return report(out, "kubernetes", func() ([]install.Result, error) { return install.Replace(ctx, c, objects, o.registrable()) })
}

// runPolicies writes the policies, and leaves whatever else is installed.
func (o installKubernetesOptions) runPolicies(ctx context.Context, out io.Writer) error {
	config, err := config.Load(o.config)
	if err != nil {
		return err
	}
	policies := cluster.Policies(config.Cluster)
	if o.dryRun {
		return printYAML(out, part{"in the API server", policies})
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	return report(out, "kubernetes", func() ([]install.Result, error) { return install.Apply(ctx, c, policies) })
}

func newUninstallKubernetesCommand() *cobra.Command {
	var target kubernetesTarget
	cmd := &cobra.Command{
		Use:     "kubernetes",
		Short:   "Take out what install kubernetes made",
		Long:    "Take out of a Kubernetes API server what \"warrantgate install kubernetes\" put in, and nothing else.",
		Example: `  warrantgate uninstall kubernetes --kubeconfig=admin.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := target.client()
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), "kubernetes", func() ([]install.Result, error) {
				// The Lease goes last, once no replica may make it again.
				lease := leader.Lease(target.leaseNamespace, gates.AuditLease)
				return install.Remove(cmd.Context(), c, append([]client.Object{lease}, target.registrable()...))
			})
		},
	}
	target.addFlags(cmd.Flags())
	return cmd
}

// registrable is all that may be registered, whatever the configuration is or was.
func (t kubernetesTarget) registrable() []client.Object {
	config := v1beta1.Default()
	config.ControllerManager.Mode, config.KeystonePolicy.Mode = v1beta1.Enforce, v1beta1.Enforce
	config.OpenStack.AuthURLs = []string{"any"}
	return append(kubernetesRoles(config, "", t.leaseNamespace), gates.KubernetesRegistration(webhooks.Server{}, config)...)
}

func (t kubernetesTarget) client() (client.Client, error) {
	config, err := cli.LoadKubeconfig(t.kubeconfig, t.context)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return c, nil
}

// kubernetesRoles is what lets a user serve the gates.
func kubernetesRoles(config v1beta1.GateConfiguration, username, leaseNamespace string) []client.Object {
	return clusterapi.Roles(config, username, leaseNamespace, gates.AuditLease)
}
