package policies

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/message"
)

// maxDenial is the size, in bytes, of what is printed of an error that a webhook of a tenant can have written.
const maxDenial = 500

// ownGroup is the group of the user of warrantgate in the README.
const ownGroup = "warrantgate-events"

type checkEventsOptions struct {
	cli.Connection
	output string
}

func newCheckEventsCommand() *cobra.Command {
	var o checkEventsOptions
	cmd := &cobra.Command{
		Use:   "events WORKSPACE...",
		Short: "Check that serve can write Events in workspaces of kcp",
		Long: `Check that the user of serve can write Events in workspaces of kcp. WORKSPACE is a path such as root:orgs, or the name of a
logical cluster. An Event about a workspace is in its parent, in namespace default, which a workspace has if its type extends universal.

If a workspace requires groups, it denies every request of a user who is in none of its clauses, and so there are no Events about the
workspaces in it. Workspaces that are created there require the same groups.

The kubeconfig is that of serve, its --kcp-kubeconfig. Nothing is written.

The exit status is 0 if Events can be written in all workspaces, 1 if not, 2 if that could not be determined.`,
		Example: `  warrantgate check events root:orgs root:orgs:team-a \
    --kubeconfig=warrantgate.kubeconfig`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	o.AddFlags(cmd.Flags(), "kubeconfig of serve for kcp")
	addOutputFlag(cmd.Flags(), &o.output)
	return cmd
}

func (o checkEventsOptions) run(ctx context.Context, workspaces []string, out io.Writer) error {
	if err := cli.CheckFormat(o.output); err != nil {
		return err
	}
	config, err := o.Config()
	if err != nil {
		return err
	}
	config.Timeout = cli.RequestTimeout
	inRoot, err := mayWriteEvents(ctx, config, kcp.Root)
	if err != nil {
		return err
	}
	var all checks
	for _, workspace := range workspaces {
		result, text := resultOK, "ok"
		permitted, err := mayWriteEvents(ctx, config, logicalcluster.NewPath(workspace))
		switch {
		case err != nil:
			result, text = resultUnknown, "UNKNOWN\n  "+err.Error()
		case !permitted && !inRoot:
			result, text = resultWrong, "NOT PERMITTED\n  neither here nor in root; grant it with `warrantgate install kcp --shard-kubeconfig`, once for each shard"
		case !permitted:
			result, text = resultWrong, "NOT PERMITTED\n  "+groupsNeeded(workspace, cli.UserOf(ctx, config))
		default:
			err := tryEvent(ctx, config, logicalcluster.NewPath(workspace))
			switch {
			case apierrors.IsNotFound(err):
				result, text = resultWrong, fmt.Sprintf("NO NAMESPACE\n  Events would be in namespace %q, which a workspace has if its type extends universal; create it:\n"+
					"    kubectl ws %s\n    kubectl create namespace %[1]s", metav1.NamespaceDefault, workspace)
			case err != nil:
				result, text = resultUnknown, "UNKNOWN\n  an Event could not be tried: "+message.Clip(message.Printable(err.Error()), maxDenial)
			}
		}
		all.add(workspace, result, text)
	}
	if err := all.print(out, o.output); err != nil {
		return err
	}
	return all.status()
}

// mayWriteEvents reports whether a user may write Events in a workspace. A workspace that requires groups which the user lacks denies this
// request too.
func mayWriteEvents(ctx context.Context, config *rest.Config, workspace logicalcluster.Path) (bool, error) {
	config, err := kcp.ConfigFor(config, workspace)
	if err != nil {
		return false, err
	}
	c, err := authorizationv1client.NewForConfig(config)
	if err != nil {
		return false, fmt.Errorf("client for %s: %w", workspace, err)
	}
	review, err := c.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Version: "v1", Resource: "events", Namespace: metav1.NamespaceDefault},
		},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("the permission in %s could not be checked: %w", workspace, err)
	}
	return review.Status.Allowed, nil
}

// tryEvent creates an Event in a workspace with a dry run. The error is NotFound if there is no namespace for it.
func tryEvent(ctx context.Context, config *rest.Config, workspace logicalcluster.Path) error {
	config, err := kcp.ConfigFor(config, workspace)
	if err != nil {
		return err
	}
	c, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client for %s: %w", workspace, err)
	}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "warrantgate-check-"}}
	_, err = c.Events(metav1.NamespaceDefault).Create(ctx, event, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// groupsNeeded returns the groups to add, and where, if a workspace denies a user that root allows to write Events.
func groupsNeeded(workspace string, user authenticationv1.UserInfo) string {
	who, group, first := "the user of serve", ownGroup, ""
	if user.Username != "" {
		who = fmt.Sprintf("user %q with the groups %s", user.Username, strings.Join(user.Groups, ", "))
		own := slices.IndexFunc(user.Groups, func(group string) bool { return !strings.HasPrefix(group, "system:") })
		if own >= 0 {
			group = user.Groups[own]
		} else {
			first = fmt.Sprintf("\n  first give it a group of its own: with a client certificate, O=%s", ownGroup)
		}
	}
	return fmt.Sprintf("%s may write Events in root, and not here: the workspace requires groups, or is on a shard whose kubeconfig was not given to "+
		"`warrantgate install kcp --shard-kubeconfig`%s\n"+
		"  if it requires groups, an administrator adds a clause with the group, here and in the workspaces below, which got a copy when they were created:\n"+
		"    kubectl ws %s\n"+
		"    kubectl annotate logicalclusters cluster --overwrite %s=\"$(kubectl get logicalclusters cluster "+
		"-o jsonpath='{.metadata.annotations.%s}');%s\"",
		who, first, workspace, kcp.RequiredGroupsAnnotation, strings.ReplaceAll(kcp.RequiredGroupsAnnotation, ".", `\.`), group)
}
