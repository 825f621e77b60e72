package install

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
)

// kubernetesTarget is the API server that a command changes, and the kubeconfig and context it uses.
type kubernetesTarget struct {
	cli.Connection
	leaseNamespace string
}

func (t *kubernetesTarget) addFlags(flags *pflag.FlagSet) {
	t.AddFlags(flags, "kubeconfig of an administrator")
	flags.StringVar(&t.leaseNamespace, "lease-namespace", metav1.NamespaceSystem, "namespace of the Lease that the auditing replica holds")
}

type installKubernetesOptions struct {
	kubernetesTarget
	serverOptions
}

func newInstallKubernetesCommand() *cobra.Command {
	var o installKubernetesOptions
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Install the gates for Cluster API and Keystone on Kubernetes",
		Long: `Install the gates on machines, clusters and controller managers of Cluster API providers, and on policies for Keystone, in a
Kubernetes API server, if the configuration enables them: both webhook configurations; the admission policies that deny, even
while no serve is running, a spec.userEmail of a CloudSigmaCluster that the author may not impersonate, and malformed IDs and
missing clusters of machines; and the permissions of the user of serve (get, list and watch of machines and clusters, get of
Secrets, access reviews, Events, reports, one Lease), and no other. In mode Warn there is no policy, and the webhook warns.

Run it again after an upgrade or a change of the configuration. Start serve directly after it: while the webhooks are installed and
serve does not answer, machines cannot get another server ID.`,
		Example: `  warrantgate install kubernetes --kubeconfig=admin.kubeconfig \
    --url=https://warrantgate.example.com:9443 --ca-file=ca.crt \
    --webhook-path-file=webhook-path \
    --user=system:serviceaccount:warrantgate:warrantgate`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	o.kubernetesTarget.addFlags(cmd.Flags())
	o.addFlagsOrPoliciesOnly(cmd, "the API server evaluates")
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
	c, err := o.client()
	if err == nil {
		err = o.keepUser(ctx, c, o.registrable())
	}
	if err != nil && !o.dryRun { // which works without a server
		return err
	}
	// The permissions come first: serve may be waiting for them.
	objects := append(clusterapi.Roles(config, o.user, o.leaseNamespace, gates.AuditLease), gates.KubernetesRegistration(server, config)...)
	if o.dryRun {
		return printYAML(out, part{"in the API server", objects})
	}
	return report(out, "kubernetes", func() ([]install.Result, error) { return install.Replace(ctx, c, objects, o.registrable()) })
}

// runPolicies writes the policies, and leaves all other installed objects.
func (o installKubernetesOptions) runPolicies(ctx context.Context, out io.Writer) error {
	config, err := config.Load(o.config)
	if err != nil {
		return err
	}
	policies := gates.KubernetesPolicies(config)
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
	var dryRun dryRun
	cmd := &cobra.Command{
		Use:     "kubernetes",
		Short:   "Uninstall the gates from Kubernetes",
		Long:    "Remove only the objects that \"warrantgate install kubernetes\" created.",
		Example: `  warrantgate uninstall kubernetes --kubeconfig=admin.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := target.client()
			if err != nil {
				return err
			}
			// The Lease is removed last, when no replica may create it again.
			lease := install.Lease(target.leaseNamespace, gates.AuditLease)
			return dryRun.remove(cmd.Context(), cmd.OutOrStdout(), "kubernetes", c, append([]client.Object{lease}, target.registrable()...))
		},
	}
	target.addFlags(cmd.Flags())
	dryRun.addFlag(cmd.Flags())
	return cmd
}

// registrable returns all objects that any configuration may register.
func (t kubernetesTarget) registrable() []client.Object {
	config := v1beta1.Default()
	config.ControllerManager.Mode, config.KeystonePolicy.Mode = v1beta1.Enforce, v1beta1.Enforce
	config.OpenStack.AuthURLs = []string{"any"}
	return append(clusterapi.Roles(config, "", t.leaseNamespace, gates.AuditLease), gates.KubernetesRegistration(webhooks.Server{}, config)...)
}

// client returns a client for the API server. It is an error if that is a workspace of kcp: in root, other gates have the same names.
func (t kubernetesTarget) client() (client.Client, error) {
	config, err := t.Config()
	if err != nil {
		return nil, err
	}
	if kcp.IsWorkspace(config) {
		return nil, fmt.Errorf("%s is a workspace of kcp, and this command is for Kubernetes API servers: set another --context or --kubeconfig, or use the command "+
			"kcp or provider instead of kubernetes", config.Host)
	}
	return newClient(config)
}

func newClient(config *rest.Config) (client.Client, error) {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return c, nil
}
