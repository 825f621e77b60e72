package policies

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// reportRewrite reports whether the policy or the webhook rewrites the owners of plain service accounts. It returns the error for the exit
// status if neither does, and with --policies-only that of the policies alone.
func (o *checkAdmissionOptions) reportRewrite(ctx context.Context, all *checks, config v1beta1.Workspace) error {
	server, err := o.Config()
	if err != nil {
		return err
	}
	server.Timeout = cli.RequestTimeout
	c, err := kcp.NewClient(server)
	if err != nil {
		return err
	}
	var wrong, unknown, leftAlone, restores bool
	if len(workspace.RewritePolicy(config)) > 0 {
		acts, err := gates.PolicyRewrites(ctx, c)
		wrong, unknown = !acts && err == nil, err != nil
		restores = acts // both are installed together
		leftAlone = wrong && !o.policiesOnly && leavesOwnersToPolicy(ctx, server)
		o.addEffect(all, acts, leftAlone, err)
	}
	if config.OwnerIntegrity.Mode == v1beta1.Enforce && (restores || o.policiesOnly) {
		acts, err := gates.PolicyRestores(ctx, c)
		result, text := resultOK, "ok\n  the admission policy removes what kcp and warrantgate set from restored Workspaces"
		switch {
		case err != nil:
			unknown, result, text = true, resultUnknown, fmt.Sprintf("UNKNOWN\n  %v", err)
		case !acts:
			wrong, result, text = true, resultWrong, "NOT ACTIVE\n  what kcp and warrantgate set in a restored Workspace was not removed. Run install again"
		}
		all.add(workspace.RestorePolicyName, result, text)
	}
	switch {
	case wrong && (o.policiesOnly || leftAlone || restores): // otherwise the webhook acts instead of the policies
		return cli.ExitError{Code: cli.ExitWrong}
	case unknown && o.policiesOnly:
		return cli.ExitError{Code: cli.ExitUnknown}
	}
	return nil
}

// leavesOwnersToPolicy reports whether the webhook configuration in root leaves owners to the policy. It is false if it cannot be read.
func leavesOwnersToPolicy(ctx context.Context, config *rest.Config) bool {
	root, err := kcp.ConfigFor(config, kcp.Root)
	if err != nil {
		return false
	}
	c, err := admissionregistrationclient.NewForConfig(root)
	if err != nil {
		return false
	}
	configuration, err := c.MutatingWebhookConfigurations().Get(ctx, webhooks.ConfigurationName, metav1.GetOptions{})
	return err == nil && workspace.LeavesOwnersToPolicy(configuration)
}

func (o *checkAdmissionOptions) addEffect(all *checks, acts, leftAlone bool, why error) {
	result, text := resultOK, ""
	switch {
	case acts:
		text = "ok\n  the admission policy rewrites the owners of plain service accounts, also while no warrantgate answers"
	case why != nil:
		result, text = resultUnknown, fmt.Sprintf("UNKNOWN\n  whether the admission policy or the webhook rewrites the owners of plain service accounts: %v", why)
	case o.policiesOnly:
		result, text = resultWrong, "NOT ACTIVE\n  no admission policy rewrites owners. Before v0.32 kcp has no such policies; it may have been started with "+
			"--feature-gates=MutatingAdmissionPolicy=false; or the policy is not installed"
	case leftAlone:
		result, text = resultWrong, "NOT ACTIVE\n  nothing rewrites the owners of plain service accounts: no admission policy does, and the webhook leaves them to it. Run install again"
	default:
		text = "not in use\n  no admission policy rewrites owners: the webhook does, while warrantgate answers. If there was a policy before, run install again"
	}
	all.add(workspace.RewritePolicyName, result, text)
}
