// Package install has the commands that register the gates with an API server, and that remove the objects they created.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/initializers/owner"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

type installOptions struct {
	kcpTarget
	serverOptions
	// rewrite is what rewrites the owners of plain service accounts: Policy, Webhook or Auto.
	rewrite string
	// wait bounds each wait until kcp acts on what was registered.
	wait time.Duration
}

// NewInstallCommand returns the command install.
func NewInstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the gates in an API server",
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

On kcp v0.32 and later an admission policy rewrites the owners of plain service accounts, even while no serve is running,
and another one lets Workspaces be restored from a backup. install waits until kcp evaluates them. See --rewrite.

With repair.mode: Off, install removes the WorkspaceType "warranted", but changes nothing while workspaces wait for its
initializer: without serve they would stay in Initializing. The error lists them. --ignore-waiting installs nevertheless.

Run it again after an upgrade or a change of the configuration. Start serve first: while the webhooks are installed and
serve does not answer, new workspaces whose owners only the webhook can rewrite cannot be scheduled. In the end install checks, as
"warrantgate check admission kcp" does, that kcp denies one Workspace and rewrites another, and fails if it does not within --wait.`,
		Example: `  warrantgate install kcp --kubeconfig=admin.kubeconfig \
    --url=https://warrantgate.example.com:9443 --ca-file=ca.crt \
    --webhook-path-file=webhook-path \
    --shard-kubeconfig=admin.kubeconfig --shard-context=system:admin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addRootFlags(cmd.Flags())
	o.addWaitingFlag(cmd.Flags(), "with repair.mode: Off, install")
	o.addFlagsOrPoliciesOnly(cmd, "kcp v0.32 and later evaluate")
	cmd.Flags().StringVar(&o.rewrite, "rewrite", rewriteAuto, "what rewrites the owners of plain service accounts: Policy, an admission policy that kcp v0.32 "+
		"and later evaluate by themselves; Webhook; or Auto, the policy if kcp has such policies, else the webhook. Other owners, and those that the "+
		"policy has not rewritten, go to the webhook in any case")
	cmd.Flags().DurationVar(&o.wait, "wait", 30*time.Second, "how long to wait until kcp evaluates the policies, and serve answers what kcp calls it for; kcp takes about "+
		"five seconds")
	return cmd
}

func (t *kcpTarget) addRootFlags(flags *pflag.FlagSet) {
	t.addFlags(flags, "kubeconfig of an administrator of root", "for the permissions of the user of serve there")
}

func (o installOptions) run(ctx context.Context, out, notes io.Writer) error {
	if o.policiesOnly {
		return o.runPolicies(ctx, out)
	}
	config, server, err := o.load()
	if err != nil {
		return err
	}
	if !slices.Contains([]string{rewriteByPolicy, rewriteByWebhook, rewriteAuto}, o.rewrite) {
		return fmt.Errorf("--rewrite: %q is none of Policy, Webhook and Auto", o.rewrite)
	}
	if err := o.keepUsers(ctx); err != nil && !o.dryRun { // which works without a server
		return err
	}
	roles := events.KCPRoles(o.user)
	switch {
	case config.Repair.Mode != v1beta1.Off:
		roles = append(roles, owner.ShardRoles(o.user)...)
	case !o.dryRun:
		if err := o.checkWaiting(ctx); err != nil { // without the repair, the WorkspaceType warranted is removed
			return err
		}
	}
	if !o.dryRun {
		// The permissions come first: serve may be waiting for them.
		if err := o.inShards(func(where string, c client.Client) error {
			return report(out, where, func() ([]install.Result, error) { return install.Replace(ctx, c, roles, shardRegistrable()) })
		}); err != nil {
			return err
		}
	}
	byPolicy, err := o.usesPolicy(config.Workspace, notes)
	if err != nil {
		return err
	}
	registration := o.registration(server, config, byPolicy)
	if o.dryRun {
		return printYAML(out, part{"in workspace root", registration}, part{"in logical cluster system:admin of each shard", roles})
	}
	if err := o.registerInRoot(ctx, out, registration, byPolicy); err != nil {
		return err
	}
	if err := o.warnOfOldKCP(notes); err != nil {
		return err
	}
	if err := o.checkGates(ctx, config.Workspace); err != nil {
		return err
	}
	if len(o.shardKubeconfigs) == 0 {
		_, err := fmt.Fprintf(notes, "Without --shard-kubeconfig, user %q was not granted permissions on the shards. Unless it already has them, no "+
			"Events are written (`kubectl describe workspace` does not show what was done) and no workspace is repaired. The gates work.\n", o.user)
		return err
	}
	return nil
}

// keepUsers sets the user, without --user, to that of an earlier install.
func (o *installOptions) keepUsers(ctx context.Context) error {
	if err := o.inShards(func(_ string, c client.Client) error { return o.keepUser(ctx, c, shardRegistrable()) }); err != nil {
		return err
	}
	root, err := o.rootClient()
	if err != nil {
		return err
	}
	return o.keepUser(ctx, root, rootRegistrable())
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
	err = report(out, "root", func() ([]install.Result, error) { return install.Apply(ctx, root, policies) })
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w: kcp has these policies from v0.32 on; register the webhooks instead, with --url", err)
	}
	if err != nil {
		return err
	}
	if len(workspace.RewritePolicy(config.Workspace)) > 0 { // there is no webhook to do its work
		if err := o.awaitPolicy(ctx, out); err != nil {
			return err
		}
	}
	return o.checkGates(ctx, config.Workspace)
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

// registerInRoot writes the objects to root, and removes those of an earlier configuration. One of the policy and the webhook always rewrites
// the owners of plain service accounts: kcp calls webhooks before it evaluates policies, so the webhook leaves owners to the policy only once
// kcp evaluates it, and handles all owners for a while before the policy is removed.
func (o installOptions) registerInRoot(ctx context.Context, out io.Writer, registration []client.Object, byPolicy bool) error {
	root, err := o.rootClient()
	if err != nil {
		return err
	}
	var policies, others []client.Object
	for _, object := range registration {
		if isPolicy(object) {
			policies = append(policies, object)
		} else {
			others = append(others, object)
		}
	}
	if err := report(out, "root", func() ([]install.Result, error) { return install.Apply(ctx, root, policies) }); err != nil {
		return err
	}
	if byPolicy {
		if err := o.awaitPolicy(ctx, out); err != nil {
			return err
		}
	}
	if err := report(out, "root", func() ([]install.Result, error) { return install.Apply(ctx, root, others) }); err != nil {
		return err
	}
	unwanted, err := install.Unwanted(ctx, root, registration, rootRegistrable())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(unwanted, func(object client.Object) bool { return object.GetName() == workspace.RewritePolicyName }) {
		if err := o.settle(ctx); err != nil {
			return err
		}
	}
	return report(out, "root", func() ([]install.Result, error) { return install.Remove(ctx, root, unwanted) })
}

func isPolicy(object client.Object) bool {
	return strings.Contains(object.GetObjectKind().GroupVersionKind().Kind, "AdmissionPolicy")
}

// report prints the objects that were changed, also if an error stopped the command half-way.
func report(out io.Writer, where string, do func() ([]install.Result, error)) error {
	results, err := do()
	var printed strings.Builder
	for _, result := range results {
		fmt.Fprintf(&printed, "%s: %s %q %s\n", where, result.Kind, result.Name, result.Outcome)
	}
	if _, printErr := io.WriteString(out, printed.String()); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// rootRegistrable returns all objects that any configuration may register in root.
func rootRegistrable() []client.Object {
	config := v1beta1.Default().Workspace
	return slices.Concat(workspace.RegistrationWithPolicy(webhooks.Server{}, config), owner.RootObjects(""),
		clusterapi.AuditRoles("", gates.AuditLease))
}

// shardRegistrable returns all objects that may be registered in system:admin of a shard.
func shardRegistrable() []client.Object {
	return append(events.KCPRoles(""), owner.ShardRoles("")...)
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
