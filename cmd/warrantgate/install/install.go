// Package install has the commands that register the gates with an API server, and that remove the objects they created.
package install

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/initializers/owner"
	"warrantgate.dev/internal/canary"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/leader"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// kcpTarget is the kcp that a command changes, and the kubeconfigs and contexts it uses.
type kcpTarget struct {
	kubeconfig       string
	context          string
	shardKubeconfigs []string
	shardContext     string
}

func (t *kcpTarget) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.kubeconfig, "kubeconfig", "", "kubeconfig of an administrator of root (default $KUBECONFIG)")
	flags.StringVar(&t.context, "context", "", "context of that kubeconfig (default: the current one)")
	t.addShardFlags(flags, "for the permission to write Events")
}

func (t *kcpTarget) addShardFlags(flags *pflag.FlagSet, what string) {
	flags.StringArrayVar(&t.shardKubeconfigs, "shard-kubeconfig", nil,
		"kubeconfig of system:masters on a shard, "+what+"; once for each shard")
	flags.StringVar(&t.shardContext, "shard-context", "", "context of the shard kubeconfigs (default: the current one)")
}

// serverOptions are the gates to register, and the URL at which the API server reaches them.
type serverOptions struct {
	config string
	url    string
	caFile string
	// pathFile is the file of serve's flag --webhook-path-file.
	pathFile string
	user     string
	dryRun   bool
	// failurePolicy is the failure policy of the webhooks, Fail or Ignore. It applies while no serve answers.
	failurePolicy string
}

func (o *serverOptions) addFlags(cmd *cobra.Command) {
	o.addOptionalFlags(cmd)
	if err := cmd.MarkFlagRequired("ca-file"); err != nil {
		panic(err) // a flag that is not defined there
	}
}

// addOptionalFlags adds the flags, and leaves it to the command whether --ca-file is required.
func (o *serverOptions) addOptionalFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "configuration file of serve: gates in mode Off are not installed")
	flags.StringVar(&o.url, "url", "", "https URL, without a path, at which the API server reaches serve (required)")
	flags.StringVar(&o.caFile, "ca-file", "", "CA of the certificate of serve, in PEM")
	flags.StringVar(&o.pathFile, "webhook-path-file", "",
		"file of tokens, one a line, that serve has, too; the first is registered, as the begin of every path; leave it out only where serve has none")
	flags.StringVar(&o.user, "user", "warrantgate", "user that serve's kubeconfig authenticates as")
	flags.StringVar(&o.failurePolicy, "failure-policy", string(admissionregistrationv1.Fail),
		"what becomes of a request for a gate while no serve answers: Fail denies it; Ignore admits it, as a gate in mode Warn does")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be written, as YAML, and write nothing")
	if err := cmd.MarkFlagRequired("url"); err != nil {
		panic(err) // a flag that is not defined above
	}
}

func (o serverOptions) load() (v1beta1.GateConfiguration, webhooks.Server, error) {
	config, err := config.Load(o.config)
	if err != nil {
		return config, webhooks.Server{}, err
	}
	if err := validateURL(o.url); err != nil {
		return config, webhooks.Server{}, err
	}
	server := webhooks.Server{URL: o.url}
	if o.pathFile != "" {
		tokens, err := cli.LoadTokens(o.pathFile)
		if err != nil {
			return config, server, err
		}
		server.PathToken = tokens.First()
	}
	if server.FailsOpen, err = failsOpen(o.failurePolicy); err != nil {
		return config, server, err
	}
	server.CABundle, err = readCABundle(o.caFile)
	return config, server, err
}

type installOptions struct {
	kcpTarget
	serverOptions
	// rewrite is what rewrites the owners of plain service accounts: Policy, Webhook or Auto.
	rewrite string
	// policiesOnly is whether to write only the admission policies, which kcp evaluates by itself.
	policiesOnly bool
	// wait bounds the wait until kcp acts on what was registered.
	wait time.Duration
}

// NewInstallCommand returns the command install.
func NewInstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the gates in an API server",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInstallKCPCommand(), newInstallKubernetesCommand(), newInstallProviderCommand())
	return cmd
}

func newInstallKCPCommand() *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "kcp",
		Short: "Install the gates on Workspaces in kcp",
		Long: `Install the gates on Workspaces in the workspace root, where they apply to all workspaces: both webhook configurations,
and the admission policy that denies forged owners even while no serve is running.

With --shard-kubeconfig it also grants the user of serve, in every workspace of that shard, the permissions to write Events,
to read what explains a stuck workspace (LogicalCluster, workspace-admin, WorkspaceType, APIBindings and APIExports), and to
annotate repaired Workspaces, and no other. Without it the gates work, but Events and the repair are off.

On kcp v0.32 and later an admission policy rewrites the owners of plain service accounts, even while no serve is running.
install does not use it if kcp does not evaluate it. See --rewrite, and "warrantgate check admission kcp".

Run it again after an upgrade or a change of the configuration. Start serve first: while the webhooks are installed and
serve does not answer, new workspaces whose owners only the webhook can rewrite cannot be scheduled.`,
		Example: `  warrantgate install kcp --kubeconfig=admin.kubeconfig --url=https://warrantgate.example.com:9443 --ca-file=ca.crt \
    --webhook-path-file=webhook-path --shard-kubeconfig=admin.kubeconfig --shard-context=system:admin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.kcpTarget.addFlags(cmd.Flags())
	o.addOptionalFlags(cmd)
	const policiesOnly = "policies-only"
	cmd.Flags().BoolVar(&o.policiesOnly, policiesOnly, false,
		"write only the admission policies, which kcp v0.32 and later evaluate with no warrantgate running; needs no --url")
	cmd.Flags().StringVar(&o.rewrite, "rewrite", rewriteAuto, "what rewrites the owners of plain service accounts: Policy, an admission policy that kcp v0.32 "+
		"and later evaluate by themselves; Webhook; or Auto, the policy where kcp acts on it, else the webhook. Other owners, and those that the "+
		"policy has not rewritten, go to the webhook in any case")
	cmd.Flags().DurationVar(&o.wait, "wait", time.Minute, "how long to wait until kcp evaluates the policy, or calls the webhook instead; kcp takes about five seconds")
	delete(cmd.Flags().Lookup("url").Annotations, cobra.BashCompOneRequiredFlag)
	for _, flag := range []string{"url", "ca-file"} {
		cmd.MarkFlagsOneRequired(flag, policiesOnly)
		cmd.MarkFlagsMutuallyExclusive(flag, policiesOnly)
	}
	return cmd
}

func (o installOptions) run(ctx context.Context, out, notes io.Writer) error {
	if o.policiesOnly {
		return o.runPolicies(ctx, out)
	}
	config, server, err := o.load()
	if err != nil {
		return err
	}
	if err := o.validateRewrite(); err != nil {
		return err
	}
	roles := events.KCPRoles(o.user)
	if config.Repair.Mode != v1beta1.Off {
		roles = append(roles, owner.ShardRoles(o.user)...)
	}
	if !o.dryRun {
		if err := o.giveRights(ctx, out, roles); err != nil { // first: serve may be waiting for them
			return err
		}
	}
	byPolicy, err := o.withPolicy(config.Workspace, notes)
	if err != nil {
		return err
	}
	registration := o.registration(server, config, byPolicy)
	if o.dryRun {
		return printYAML(out, part{"in workspace root", registration}, part{"in logical cluster system:admin of each shard", roles})
	}
	written := false
	if byPolicy {
		// kcp calls webhooks before it evaluates policies. Until kcp is seen to evaluate the policy, the webhook handles all owners.
		all := o.registration(server, config, false)
		if registration, written, err = o.registerPolicy(ctx, out, notes, workspace.RewritePolicy(config.Workspace), all, registration); err != nil {
			return err
		}
	}
	if err := o.registerInRoot(ctx, out, registration, written); err != nil {
		return err
	}
	if err := o.warnOfOldKCP(notes); err != nil {
		return err
	}
	if len(o.shardKubeconfigs) == 0 {
		_, err := fmt.Fprintf(notes, "Without --shard-kubeconfig, user %q was not given the permission to write Events. Unless it has it already, "+
			"Events are off: `kubectl describe workspace` does not tell what was done. Everything else works.\n", o.user)
		return err
	}
	return nil
}

// giveRights grants the user that serve runs as its permissions on the shards.
func (o installOptions) giveRights(ctx context.Context, out io.Writer, roles []client.Object) error {
	for i := range o.shardKubeconfigs {
		if err := o.inShard(i, func(c client.Client) error {
			return report(out, o.shardKubeconfigs[i], func() ([]install.Result, error) { return install.Replace(ctx, c, roles, shardRegistrable()) })
		}); err != nil {
			return err
		}
	}
	return nil
}

// registration returns the objects to write to root, with or without the policy that rewrites owners.
func (o installOptions) registration(server webhooks.Server, config v1beta1.GateConfiguration, byPolicy bool) []client.Object {
	register := workspace.Registration
	if byPolicy {
		register = workspace.RegistrationWithPolicy
	}
	registration := register(server, config.Workspace)
	if config.Repair.Mode != v1beta1.Off {
		registration = append(registration, owner.RootObjects(o.user)...)
	}
	if config.Audit.OnKCP() {
		registration = append(registration, clusterapi.AuditRoles(o.user, gates.AuditLease)...)
	}
	return registration
}

// runPolicies writes the policies, and leaves all other installed objects.
func (o installOptions) runPolicies(ctx context.Context, out io.Writer) error {
	config, err := config.Load(o.config)
	if err != nil {
		return err
	}
	policies := workspace.Policies(config.Workspace)
	if o.dryRun {
		return printYAML(out, part{"in workspace root", policies})
	}
	root, err := o.rootClient()
	if err != nil {
		return err
	}
	c, err := o.canaryClient()
	if err != nil {
		return err
	}
	if rewrite := workspace.RewritePolicy(config.Workspace); len(rewrite) > 0 {
		if _, err := o.awaitForgotten(ctx, c, rewrite); err != nil {
			return err
		}
	}
	err = report(out, "root", func() ([]install.Result, error) { return install.Apply(ctx, root, policies) })
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w: kcp has these policies from v0.32 on; register the webhooks instead, with --url", err)
	}
	if err != nil || len(workspace.RewritePolicy(config.Workspace)) == 0 {
		return err
	}
	return o.checkPolicyAlone(ctx, out)
}

// warnOfOldKCP prints a warning for operators of a kcp before v0.32. The install does not fail if the version is unknown.
func (o installOptions) warnOfOldKCP(notes io.Writer) error {
	config, err := o.rootConfig()
	if err != nil {
		return err
	}
	warning, err := cli.OwnerWarning(config)
	switch {
	case err != nil:
		_, err = fmt.Fprintf(notes, "Whether this kcp is v0.32 or newer could not be determined: %v\n", err)
	case warning != "":
		_, err = fmt.Fprintf(notes, "Warning: %s.\n", warning)
	}
	return err
}

// registerInRoot writes the objects to root. At the second call it reports only the objects that it changes.
func (o installOptions) registerInRoot(ctx context.Context, out io.Writer, registration []client.Object, again bool) error {
	root, err := o.rootClient()
	if err != nil {
		return err
	}
	return report(out, "root", func() ([]install.Result, error) {
		results, err := install.ReplaceAfter(ctx, root, registration, o.registrable(), func(gone []client.Object) error {
			if !slices.ContainsFunc(gone, isRewritePolicy) {
				return nil
			}
			// One of the policy and the webhook is always in place, in every logical cluster.
			if deniesWithoutServe(registration) {
				if err := o.awaitWebhook(ctx); err != nil {
					return err
				}
			}
			return o.settle(ctx)
		})
		return slices.DeleteFunc(results, func(result install.Result) bool { return again && result.Outcome == install.Unchanged }), err
	})
}

func isRewritePolicy(object client.Object) bool {
	return object.GetName() == workspace.RewritePolicyName
}

// deniesWithoutServe reports whether the webhook that denies canaries has failurePolicy Fail, so that canaries are also denied while no serve
// answers.
func deniesWithoutServe(registration []client.Object) bool {
	for _, object := range registration {
		if configuration, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
			return slices.ContainsFunc(configuration.Webhooks, func(hook admissionregistrationv1.ValidatingWebhook) bool {
				return hook.Name == canary.IntegrityWebhook && *hook.FailurePolicy == admissionregistrationv1.Fail
			})
		}
	}
	return false
}

// NewUninstallCommand returns the command uninstall.
func NewUninstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Uninstall the gates from an API server",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var target kcpTarget
	uninstallKCP := &cobra.Command{
		Use:   "kcp",
		Short: "Uninstall the gates on Workspaces from kcp",
		Long: `Remove only the objects that "warrantgate install kcp" created in root, and with --shard-kubeconfig the permissions in the
shards. Objects of the same names that warrantgate did not install are not changed. Workspaces keep their owners.`,
		Example: `  warrantgate uninstall kcp --kubeconfig=admin.kubeconfig --shard-kubeconfig=admin.kubeconfig --shard-context=system:admin`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return target.uninstall(cmd.Context(), cmd.OutOrStdout())
		},
	}
	target.addFlags(uninstallKCP.Flags())
	cmd.AddCommand(uninstallKCP, newUninstallKubernetesCommand(), newUninstallProviderCommand())
	return cmd
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

// report prints the objects that were changed, also if an error stopped the command half-way.
func report(out io.Writer, where string, do func() ([]install.Result, error)) error {
	results, err := do()
	for _, result := range results {
		if _, printErr := fmt.Fprintf(out, "%s: %s %q %s\n", where, result.Kind, result.Name, result.Outcome); printErr != nil {
			return errors.Join(err, printErr)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// registrable returns all objects that any configuration may register in root.
func (kcpTarget) registrable() []client.Object {
	config := v1beta1.Default().Workspace
	return slices.Concat(workspace.RewritePolicy(config), workspace.Registration(webhooks.Server{}, config), owner.RootObjects(""),
		clusterapi.AuditRoles("", gates.AuditLease))
}

// shardRegistrable returns all objects that may be registered in system:admin of a shard.
func shardRegistrable() []client.Object {
	return append(events.KCPRoles(""), owner.ShardRoles("")...)
}

func (t kcpTarget) rootClient() (client.Client, error) {
	return clientFor(t.kubeconfig, t.context, kcp.Root)
}

// inShard calls do with a client for the logical cluster system:admin of a shard. Its RBAC applies in all workspaces of the shard.
func (t kcpTarget) inShard(i int, do func(client.Client) error) error {
	c, err := clientFor(t.shardKubeconfigs[i], t.shardContext, kcp.SystemAdmin)
	if err != nil {
		return err
	}
	return do(c)
}

func clientFor(kubeconfig, kubeContext string, cluster logicalcluster.Path) (client.Client, error) {
	config, err := cli.LoadKubeconfig(kubeconfig, kubeContext)
	if err != nil {
		return nil, err
	}
	if config, err = kcp.ConfigFor(config, cluster); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", cluster, err)
	}
	return c, nil
}

func validateURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("--url: %w", err)
	case u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("--url: %q must be an https URL, such as https://warrantgate.example.com:9443", raw)
	case (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("--url: %q must hold a host and a port only", raw)
	}
	return nil
}

func failsOpen(failurePolicy string) (bool, error) {
	switch admissionregistrationv1.FailurePolicyType(failurePolicy) {
	case admissionregistrationv1.Fail:
		return false, nil
	case admissionregistrationv1.Ignore:
		return true, nil
	}
	return false, fmt.Errorf("--failure-policy: %q is neither Fail nor Ignore", failurePolicy)
}

func readCABundle(path string) ([]byte, error) {
	bundle, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --ca-file: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("--ca-file: %s holds no certificate in PEM", path)
	}
	return bundle, nil
}

// part is a set of objects for the same place.
type part struct {
	place   string
	objects []client.Object
}

func printYAML(out io.Writer, parts ...part) error {
	for _, part := range parts {
		for _, object := range part.objects {
			prepared, err := install.Prepare(object)
			if err != nil {
				return err
			}
			document, err := yaml.Marshal(prepared.Object)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(out, "---\n# %s\n%s", part.place, document); err != nil {
				return err
			}
		}
	}
	return nil
}
