// Package workspaces has the commands about workspaces of a kcp: explain and repair.
package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/preflight"
)

// formatObjects is the output format with the missing RBAC objects only.
const formatObjects = "objects"

type explainOptions struct {
	cli.Connection
	output string
	watch  bool
	// creation is explained instead of a workspace if it has a creator.
	creation preflight.Creation
}

// NewExplainCommand returns the command explain.
func NewExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain what is wrong with an object",
	}
	cmd.AddCommand(newExplainWorkspaceCommand())
	return cmd
}

func newExplainWorkspaceCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "workspace PATH",
		Short: "Explain why a workspace is not Ready, and what to do",
		Long: `Explain why a workspace is not Ready, and what to do: the identity that kcp impersonates, the initializers and API bindings
that it waits for, and the missing permissions. PATH is a path such as root:orgs:team-a, or the name of a logical cluster.

It writes nothing, and needs no running serve, only a kubeconfig for kcp. Permissions are checked with SubjectAccessReviews.
What the user of the kubeconfig may not read or check is reported as unknown, with the permission that is missing.

If kcp denies the creation of a workspace, there is nothing to read. With --creator it says instead what that user lacks to create the workspace
PATH, of the WorkspaceType --type, and to have it become Ready: also that nothing in root rewrites the owner, if the user is foreign in the workspace.

The exit status is 0 if nothing is wrong, 1 if something is, 2 if that is unknown.`,
		Example: `  warrantgate explain workspace root:orgs:team-a \
    --kubeconfig=admin.kubeconfig
  warrantgate explain workspace root:orgs:team-a -o json
  warrantgate explain workspace root:orgs:team-a -o objects |
    kubectl --server=https://kcp.example.com:6443/clusters/root:orgs \
    apply --filename=-
  warrantgate explain workspace root:orgs:team-a --watch
  warrantgate explain workspace root:orgs:team-a \
    --creator=system:serviceaccount:default:bot --type=root:org`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	o.AddFlags(flags, "kubeconfig for kcp")
	flags.StringVarP(&o.output, "output", "o", cli.FormatText, "text, json, yaml, or objects: only the missing permissions, for kubectl apply; "+
		"standard error has the command, with their workspace")
	flags.BoolVarP(&o.watch, "watch", "w", false, "print it again after each change, until the workspace is Ready")
	flags.StringVar(&o.creation.Creator, "creator", "", "user who is to create the workspace. system:serviceaccount:NAMESPACE:NAME is a service account "+
		"of its parent, and system:kcp:serviceaccount:CLUSTER:NAMESPACE:NAME one of another logical cluster")
	flags.StringArrayVar(&o.creation.Groups, "creator-group", nil, "group of that user, once for each group")
	flags.StringVar(&o.creation.Type, "type", "", "WorkspaceType that is to be created, PATH:NAME or NAME (default: as kcp chooses by the type of the parent)")
	return cmd
}

func (o explainOptions) run(ctx context.Context, path string, out, notes io.Writer) error {
	var report preflight.Report
	watched := cli.Watched{
		Make: func() (_ any, done bool, err error) {
			report, err = o.report(ctx, path)
			return report, !o.watch || report.Workspace.Phase == corev1alpha1.LogicalClusterPhaseReady, err
		},
		Print: func() error {
			if o.output == formatObjects {
				return cli.PrintObjects(out, notes, report.Findings, o.apply)
			}
			return cli.PrintReport(out, o.output, report, func(out io.Writer) error { return printExplanation(out, report) })
		},
		Start: func() (watch.Interface, error) { return o.start(ctx, logicalcluster.NewPath(path)) },
	}
	if err := watched.Run(ctx, out, o.output); err != nil {
		return err
	}
	return cli.Status(preflight.Verdict(report.Findings))
}

// apply returns the command that applies objects in a workspace. The kubeconfig can be for another one.
func (o explainOptions) apply(workspace string) (string, error) {
	config, err := o.Config()
	if err == nil {
		config, err = kcp.ConfigFor(config, logicalcluster.NewPath(workspace))
	}
	if err != nil {
		return "", err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	server.User = nil // it may be a password
	return fmt.Sprintf("kubectl%s --server=%s apply --filename=-", o.Flags(), impersonation.ShellWord(server.String())), nil
}

// start watches the Workspace in its parent, or the LogicalCluster if the path is the name of a logical cluster.
func (o explainOptions) start(ctx context.Context, path logicalcluster.Path) (watch.Interface, error) {
	var list client.ObjectList = &tenancyv1alpha1.WorkspaceList{}
	at, name := path.Split()
	if at.Empty() {
		at, name, list = path, corev1alpha1.LogicalClusterName, &corev1alpha1.LogicalClusterList{}
	}
	config, err := o.Config()
	if err != nil {
		return nil, err
	}
	if config, err = kcp.ConfigFor(config, at); err != nil {
		return nil, err
	}
	c, err := kcp.NewClient(config)
	if err != nil {
		return nil, err
	}
	return c.Watch(ctx, list, client.MatchingFields{"metadata.name": name})
}

// repairFlags returns the flags with which `warrantgate repair` works. Only two groups may write owners. The user of a kubeconfig of "kcp start" is
// in neither of them, but the one of its context system:admin is.
func (o explainOptions) repairFlags(ctx context.Context, config *rest.Config) string {
	writes := slices.ContainsFunc(cli.UserOf(ctx, config).Groups, func(group string) bool {
		return group == user.SystemPrivilegedGroup || group == "system:kcp:external-logical-cluster-admin"
	})
	switch admin := kcp.SystemAdmin.String(); {
	case writes:
		return o.Flags()
	case o.HasContext(admin):
		return cli.KubeconfigFlags("", o.Kubeconfig, admin)
	default:
		return o.Flags() + " --logical-cluster-kubeconfig=lca.kubeconfig"
	}
}

func (o explainOptions) report(ctx context.Context, path string) (preflight.Report, error) {
	if err := cli.CheckFormat(o.output); err != nil && o.output != formatObjects {
		return preflight.Report{}, fmt.Errorf("%w, or objects", err)
	}
	if o.watch && o.creation.Creator != "" {
		return preflight.Report{}, errors.New("--watch is about a workspace that exists, and --creator about one that does not")
	}
	if o.creation.Creator == "" && (o.creation.Type != "" || len(o.creation.Groups) > 0) {
		return preflight.Report{}, errors.New("--type and --creator-group are about a creation: name its creator with --creator")
	}
	where := logicalcluster.NewPath(path)
	if !where.IsValid() {
		return preflight.Report{}, fmt.Errorf("%q is not the path of a workspace, such as root:orgs:team-a", path)
	}
	config, err := o.Config()
	if err != nil {
		return preflight.Report{}, err
	}
	config.Timeout = cli.RequestTimeout
	clients, err := kcp.NewClients(config)
	if err != nil {
		return preflight.Report{}, err
	}
	checker := preflight.Checker{Client: clients, RepairFlags: o.repairFlags(ctx, config)}
	if o.creation.Creator != "" {
		o.creation.Path = where
		report, err := checker.CheckCreation(ctx, o.creation)
		if err == nil && !report.Owner.InScope {
			registered, err := cli.RewritesOwners(ctx, config)
			report.Findings = append(report.Findings, foreignCreator(report.Owner.Description, registered, err)...)
		}
		return report, err
	}
	ws, err := checker.Load(ctx, where)
	if err != nil && !where.HasPrefix(kcp.Root) {
		return preflight.Report{}, fmt.Errorf("%w; if %q is relative to a workspace, give the full path, such as root:orgs:%s", err, path, path)
	}
	if err != nil {
		return preflight.Report{}, err
	}
	return checker.Check(ctx, ws), nil
}

// foreignCreator returns the finding for a creator that is foreign in the workspace, if it is not known that warrantgate is registered to rewrite the
// owner.
func foreignCreator(creator string, registered bool, err error) []preflight.Finding {
	finding := preflight.Finding{
		Reason: preflight.OwnerForeign,
		Message: fmt.Sprintf("%s is foreign in the new workspace, which is stuck unless warrantgate rewrites its owner: neither the webhook nor the admission "+
			"policy for that is registered in root", creator),
		Next: "run `warrantgate install kcp`; `warrantgate check admission kcp` says whether the owner is rewritten",
	}
	switch {
	case err != nil:
		finding.Reason, finding.Message = preflight.Undetermined, fmt.Sprintf("%s is foreign in the new workspace, which is stuck unless warrantgate rewrites its "+
			"owner; whether it does could not be determined: %v", creator, err)
		finding.Next = "`warrantgate check admission kcp` says whether the owner is rewritten"
	case registered:
		return nil
	}
	return []preflight.Finding{finding}
}
