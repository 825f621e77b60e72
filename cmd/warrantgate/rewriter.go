package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks/workspace"
)

// Values of --rewrite.
const (
	rewriteByPolicy  = "Policy"
	rewriteByWebhook = "Webhook"
	rewriteAuto      = "Auto"
)

// effectInterval is the time between two canaries.
const effectInterval = 250 * time.Millisecond

// integrityWebhook is the webhook that refuses canaries.
const integrityWebhook = "owner-integrity.warrantgate.dev"

const (
	noSuchPolicies = "This kcp has no MutatingAdmissionPolicies, which kcp has from v0.32 on: the webhook rewrites the owners of all service accounts.\n"
	noEffect       = "kcp has the MutatingAdmissionPolicy \"" + workspace.RewritePolicyName + "\", but does not act on it. Perhaps it runs with " +
		"--feature-gates=MutatingAdmissionPolicy=false"
)

// effect is what a canary says of the policy that rewrites owners.
type effect string

const (
	// effectUnknown is a request that ended before it could tell.
	effectUnknown effect = ""
	// acting is a policy that kcp evaluates.
	acting effect = "acting"
	// notActing is a policy that kcp does not evaluate: there is none, it is too new, or its admission plugin is disabled.
	notActing effect = "not acting"
)

// policyEffect asks whether kcp evaluates the policy that rewrites owners, by a dry run that stores nothing. The client may be that
// of any workspace in which its user may create Workspaces. An error says why it is not known.
func policyEffect(ctx context.Context, c client.Client) (effect, error) {
	canary := workspaceCanary(kcp.PolicyCanary)
	err := c.Create(ctx, canary, client.DryRunAll)
	switch _, kept := canary.GetAnnotations()[kcp.CanaryAnnotation]; {
	case err == nil && !kept:
		return acting, nil
	case err == nil, strings.Contains(err.Error(), fmt.Sprintf("webhook %q", integrityWebhook)): // which is asked after the policy
		return notActing, nil
	}
	return effectUnknown, err
}

// workspaceCanary is a Workspace that is sent as a dry run only. It is unstructured, so that the answer replaces what was sent.
func workspaceCanary(value string) *unstructured.Unstructured {
	canary := &unstructured.Unstructured{Object: map[string]any{
		// Everybody may use this type.
		"spec": map[string]any{"type": map[string]any{"path": kcp.Root.String(), "name": "universal"}},
	}}
	canary.SetGroupVersionKind(tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"))
	canary.SetGenerateName(canaryName)
	canary.SetAnnotations(map[string]string{kcp.CanaryAnnotation: value})
	return canary
}

// awaitPolicy waits until kcp evaluates the policy that was just written. notActing is the answer if it does not in time.
func (o installOptions) awaitPolicy(ctx context.Context) (effect, error) {
	c, err := o.canaryClient()
	if err != nil {
		return effectUnknown, err
	}
	var last effect
	var why error
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(ctx context.Context) (bool, error) {
		found, err := policyEffect(ctx, c)
		if err != nil {
			why = cmp.Or(why, err)
			return apierrors.IsForbidden(err), nil // which waiting does not change
		}
		last = found
		return found == acting, nil
	})
	if last == effectUnknown {
		return effectUnknown, cmp.Or(why, err)
	}
	return last, ctx.Err()
}

// awaitForgotten tells whether the policy exists. If not, it waits until kcp evaluates none: for a moment after a policy was deleted,
// kcp still does, and that would be taken for an effect of the policy that is about to be written.
func (o installOptions) awaitForgotten(ctx context.Context, canary client.Client, policy []client.Object) (present bool, err error) {
	root, err := o.rootClient()
	if err != nil {
		return false, err
	}
	if present, err = install.Present(ctx, root, policy); err != nil || present {
		return present, err
	}
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(ctx context.Context) (bool, error) {
		found, _ := policyEffect(ctx, canary)
		return found != acting, nil
	})
	if err != nil {
		return false, fmt.Errorf("wait until kcp has forgotten the former MutatingAdmissionPolicy %q: %w", workspace.RewritePolicyName, err)
	}
	return false, nil
}

// awaitWebhook waits until kcp asks the webhooks that were just registered, be it in vain: from then on nothing that they have to
// see passes.
func (o installOptions) awaitWebhook(ctx context.Context) error {
	c, err := o.canaryClient()
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, workspaceCanary("true"), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), fmt.Sprintf("webhook %q", integrityWebhook)), nil
	})
	if err != nil {
		return fmt.Errorf("wait until kcp asks webhook %q: %w", integrityWebhook, err)
	}
	return nil
}

func (t kcpTarget) canaryClient() (client.Client, error) {
	config, err := t.rootConfig()
	if err != nil {
		return nil, err
	}
	config.Timeout = requestTimeout
	return kcp.NewClient(config)
}

func (t kcpTarget) rootConfig() (*rest.Config, error) {
	config, err := loadKubeconfig(t.kubeconfig, t.context)
	if err != nil {
		return nil, err
	}
	return kcp.ConfigFor(config, kcp.Root)
}

// hasMutatingPolicies tells whether kcp has the kind. Whether it acts on policies is found out once there is one.
func (t kcpTarget) hasMutatingPolicies() (bool, error) {
	config, err := t.rootConfig()
	if err != nil {
		return false, err
	}
	config.Timeout = requestTimeout
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	return kcp.HasMutatingPolicies(server)
}

func (o installOptions) validateRewrite() error {
	if !slices.Contains([]string{rewriteByPolicy, rewriteByWebhook, rewriteAuto}, o.rewrite) {
		return fmt.Errorf("--rewrite: %q is none of Policy, Webhook and Auto", o.rewrite)
	}
	return nil
}

// withPolicy tells whether to register the policy that rewrites owners.
func (o installOptions) withPolicy(config v1beta1.Workspace, notes io.Writer) (bool, error) {
	switch {
	case len(workspace.RewritePolicy(config)) == 0: // the gate is off, or only warns, which no mutating policy can
		return false, nil
	case o.rewrite != rewriteAuto:
		return o.rewrite == rewriteByPolicy, nil
	}
	has, err := o.hasMutatingPolicies()
	switch {
	case err != nil && o.dryRun:
		_, err = fmt.Fprintf(notes, "--rewrite=Auto: whether this kcp has MutatingAdmissionPolicies could not be told, so none is printed: %v\n", err)
		return false, err
	case err != nil:
		return false, err
	case !has:
		_, err = io.WriteString(notes, noSuchPolicies)
	}
	return has, err
}

// registerPolicy writes the policy, with the webhook for all owners, and finds out whether kcp acts on it. It returns what is to be
// registered in the end, and whether it has written anything. In divided, the webhook leaves to the policy what that rewrites; in all,
// it handles all owners.
func (o installOptions) registerPolicy(ctx context.Context, out, notes io.Writer, policy, all, divided []client.Object) (final []client.Object, written bool, err error) {
	c, err := o.canaryClient()
	if err != nil {
		return nil, false, err
	}
	both := slices.Concat(policy, all)
	present, err := o.awaitForgotten(ctx, c, policy)
	if err != nil {
		return nil, false, err
	}
	if found, _ := policyEffect(ctx, c); !present || found != acting {
		if err := o.registerInRoot(ctx, out, both, false); err != nil {
			return nil, false, err
		}
		written = true
	}
	switch found, unknown := o.awaitPolicy(ctx); {
	case ctx.Err() != nil:
		return nil, written, ctx.Err()
	case found == acting:
		_, err = fmt.Fprintf(out, "root: MutatingAdmissionPolicy %q rewrites the owners of plain service accounts\n", workspace.RewritePolicyName)
		return divided, written, err
	case found == effectUnknown:
		_, err = fmt.Fprintf(notes, "Whether kcp acts on MutatingAdmissionPolicy %q could not be told: %v. The webhook is asked about all owners.\n",
			workspace.RewritePolicyName, unknown)
		return both, written, err
	case o.rewrite == rewriteAuto:
		_, err = io.WriteString(notes, noEffect+". The policy is not used: the webhook rewrites the owners of all service accounts.\n")
		return all, written, err
	default:
		_, err = io.WriteString(notes, "Warning: "+noEffect+". The webhook rewrites the owners of all service accounts; install again once kcp does.\n")
		return both, written, err
	}
}

// checkPolicyAlone is an error unless kcp acts on the policy, as there is no webhook to do it.
func (o installOptions) checkPolicyAlone(ctx context.Context, out io.Writer) error {
	found, err := o.awaitPolicy(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("whether kcp acts on MutatingAdmissionPolicy %q could not be told: %w", workspace.RewritePolicyName, err)
	case found != acting:
		return errors.New(noEffect + "; register the webhooks instead, with --url")
	}
	_, err = fmt.Fprintf(out, "root: MutatingAdmissionPolicy %q rewrites the owners of plain service accounts\n", workspace.RewritePolicyName)
	return err
}

// reportRewrite says which of policy and webhook rewrites the owners of plain service accounts. With --policies-only the policies
// alone decide on the exit status.
func (o *checkAdmissionOptions) reportRewrite(ctx context.Context, out io.Writer, config v1beta1.Workspace) error {
	rest, err := loadKubeconfig(o.kubeconfig, o.context)
	if err != nil {
		return unknownIfError(err)
	}
	rest.Timeout = requestTimeout
	c, err := kcp.NewClient(rest)
	if err != nil {
		return unknownIfError(err)
	}
	var wrong, unknown bool
	if len(workspace.RewritePolicy(config)) > 0 {
		found, err := policyEffect(ctx, c)
		wrong, unknown = found == notActing, found == effectUnknown
		if err := o.printEffect(out, found, err); err != nil {
			return unknownIfError(err)
		}
	}
	if !o.policiesOnly {
		return nil
	}
	if config.OwnerIntegrity.Mode == v1beta1.Enforce {
		refused, err := policyRefuses(ctx, c)
		wrong, unknown = wrong || err == nil && !refused, unknown || err != nil
		text := "ok\n  the admission policy refuses forged owners"
		switch {
		case err != nil:
			text = fmt.Sprintf("NOT KNOWN\n  %v", err)
		case !refused:
			text = "NOT REFUSED\n  an annotation that the admission policy guards was let pass"
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", workspace.IntegrityPolicyName, text); err != nil {
			return unknownIfError(err)
		}
	}
	switch {
	case wrong:
		return exitError{code: exitWrong}
	case unknown:
		return exitError{code: exitUnknown}
	}
	return nil
}

func (o *checkAdmissionOptions) printEffect(out io.Writer, found effect, why error) error {
	text := ""
	switch {
	case found == acting:
		text = "ok\n  the admission policy rewrites the owners of plain service accounts, also while no warrantgate answers"
	case found == effectUnknown:
		text = fmt.Sprintf("NOT KNOWN\n  whether the admission policy or the webhook rewrites the owners of plain service accounts: %v", why)
	case o.policiesOnly:
		text = "NOT ACTING\n  no admission policy rewrites owners. Before v0.32 kcp has no such policies; it may have been started with " +
			"--feature-gates=MutatingAdmissionPolicy=false; or the policy is not installed"
	default:
		text = "not in use\n  no admission policy rewrites owners: the webhook does, while warrantgate answers. If there was a policy before, run install again"
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", workspace.RewritePolicyName, text)
	return err
}

// policyRefuses tells whether the admission policy that guards owners refuses a dry run of what it guards. An error says why that is
// not known.
func policyRefuses(ctx context.Context, c client.Client) (bool, error) {
	canary := workspaceCanary("true")
	canary.SetAnnotations(map[string]string{kcp.CreatedByAnnotation: canaryName})
	err := c.Create(ctx, canary, client.DryRunAll)
	switch {
	case err == nil, strings.Contains(fmt.Sprint(err), fmt.Sprintf("webhook %q", integrityWebhook)): // which is asked after the policy
		return false, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+workspace.IntegrityPolicyName+"'"):
		return true, nil
	}
	return false, err
}
