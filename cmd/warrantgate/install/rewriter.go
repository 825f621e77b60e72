package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/canary"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/install"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// Values of the flag --rewrite.
const (
	rewriteByPolicy  = "Policy"
	rewriteByWebhook = "Webhook"
	rewriteAuto      = "Auto"
)

// effectInterval is the time between two canaries.
const effectInterval = 250 * time.Millisecond

// settleTime is how long both the policy and the webhook handle the owners of plain service accounts while one replaces the other. What
// kcp does in root does not show what it does elsewhere: it has an evaluator for each logical cluster, which loads new policies once a
// second, and other shards get policies and webhook configurations from the cache server.
const settleTime = 3 * time.Second

const (
	noSuchPolicies = "This kcp has no MutatingAdmissionPolicies, which kcp has from v0.32 on: the webhook rewrites the owners of all service accounts.\n"
	noEffect       = "kcp has the MutatingAdmissionPolicy \"" + workspace.RewritePolicyName + "\", but does not evaluate it. It may run with " +
		"--feature-gates=MutatingAdmissionPolicy=false"
)

// awaitPolicy waits until kcp evaluates the new policy. It returns canary.NotActing if kcp does not do so in time.
func (o installOptions) awaitPolicy(ctx context.Context) (canary.Effect, error) {
	c, err := o.canaryClient()
	if err != nil {
		return canary.EffectUnknown, err
	}
	var last canary.Effect
	var why error
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(ctx context.Context) (bool, error) {
		found, err := canary.PolicyEffect(ctx, c)
		if err != nil {
			why = cmp.Or(why, err)
			return apierrors.IsForbidden(err), nil // waiting does not change that
		}
		last = found
		return found == canary.Acting, nil
	})
	if last == canary.EffectUnknown {
		return canary.EffectUnknown, cmp.Or(why, err)
	}
	return last, ctx.Err()
}

// awaitForgotten reports whether the policy exists. If it does not, awaitForgotten waits until kcp evaluates none: kcp still evaluates a
// deleted policy for a moment, and that would be taken for an effect of the policy that install is about to write.
func (o installOptions) awaitForgotten(ctx context.Context, c client.Client, policy []client.Object) (present bool, err error) {
	root, err := o.rootClient()
	if err != nil {
		return false, err
	}
	if present, err = install.Present(ctx, root, policy); err != nil || present {
		return present, err
	}
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(ctx context.Context) (bool, error) {
		found, _ := canary.PolicyEffect(ctx, c)
		return found != canary.Acting, nil
	})
	if err != nil {
		return false, fmt.Errorf("wait until kcp no longer evaluates the deleted MutatingAdmissionPolicy %q: %w", workspace.RewritePolicyName, err)
	}
	return false, nil
}

// settle waits until all evaluators of kcp have what was written last.
func (o installOptions) settle(ctx context.Context) error {
	select {
	case <-time.After(min(settleTime, o.wait)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitWebhook waits until kcp calls the new webhooks, even if the calls fail.
func (o installOptions) awaitWebhook(ctx context.Context) error {
	c, err := o.canaryClient()
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, canary.Workspace("true"), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), fmt.Sprintf("webhook %q", canary.IntegrityWebhook)), nil
	})
	if err != nil {
		return fmt.Errorf("wait until kcp calls webhook %q: %w", canary.IntegrityWebhook, err)
	}
	return nil
}

// awaitDenial waits until the new policy denies a canary.
func (o installOptions) awaitDenial(ctx context.Context) error {
	config, err := o.gatedConfig(ctx)
	if err != nil {
		return err
	}
	c, err := kcp.NewClient(config)
	if err != nil {
		return err
	}
	var why error
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(context.Context) (denied bool, _ error) {
		denied, why = canary.PolicyDenies(ctx, c, workspace.IntegrityPolicyName)
		return denied, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait until ValidatingAdmissionPolicy %q denies a forged owner: %w", workspace.IntegrityPolicyName, err), why)
	}
	return nil
}

// checkGates waits until the gates have denied and rewritten their canaries.
func (o installOptions) checkGates(ctx context.Context, config v1beta1.Workspace) error {
	root, err := o.gatedConfig(ctx)
	if err != nil {
		return err
	}
	sender, err := canary.NewSender(root, func(config *rest.Config) (client.Client, error) { return kcp.NewClient(config) })
	if err != nil {
		return err
	}
	var failed []string
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(context.Context) (bool, error) {
		failed = nil
		for _, c := range canary.ForKCP(config) {
			// Each request has its own limit, so that the last result is not that the time was over.
			if found := sender.Send(ctx, c); found.Verdict != canary.Proven {
				failed = append(failed, fmt.Sprintf("%s: %s\n  Check\n  - %s", c.Webhook, found.Message, strings.Join(found.Advice, "\n  - ")))
			}
		}
		return len(failed) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("the gates are installed, but did not work within %s. Until they do, new workspaces whose owners only the webhook can rewrite are "+
			"not scheduled: correct the cause, and run this command again, or `warrantgate uninstall kcp`\n%s", o.wait, strings.Join(failed, "\n"))
	}
	return nil
}

func (t kcpTarget) canaryClient() (client.Client, error) {
	config, err := t.rootConfig()
	if err != nil {
		return nil, err
	}
	config.Timeout = cli.RequestTimeout
	return kcp.NewClient(config)
}

// gatedConfig reaches root as a user whose canaries the gates deny. They exempt system:masters.
func (t kcpTarget) gatedConfig(ctx context.Context) (*rest.Config, error) {
	config, err := t.rootConfig()
	if err != nil {
		return nil, err
	}
	config.Timeout = cli.RequestTimeout
	if slices.Contains(cli.UserOf(ctx, config).Groups, user.SystemPrivilegedGroup) {
		config.Impersonate = rest.ImpersonationConfig{UserName: "warrantgate-canary", Groups: []string{user.AllAuthenticated, "system:kcp:admin"}}
	}
	return config, nil
}

func (t kcpTarget) rootConfig() (*rest.Config, error) {
	config, err := cli.LoadKubeconfig(t.kubeconfig, t.context)
	if err != nil {
		return nil, err
	}
	return kcp.ConfigFor(config, kcp.Root)
}

// hasMutatingPolicies reports whether kcp serves MutatingAdmissionPolicy. Whether kcp also evaluates policies is only known once one
// exists.
func (t kcpTarget) hasMutatingPolicies() (bool, error) {
	config, err := t.rootConfig()
	if err != nil {
		return false, err
	}
	config.Timeout = cli.RequestTimeout
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

// withPolicy reports whether to register the policy that rewrites owners.
func (o installOptions) withPolicy(config v1beta1.Workspace, notes io.Writer) (bool, error) {
	switch {
	case len(workspace.RewritePolicy(config)) == 0: // the gate is off, or only warns, and a mutating policy cannot warn
		return false, nil
	case o.rewrite != rewriteAuto:
		return o.rewrite == rewriteByPolicy, nil
	}
	has, err := o.hasMutatingPolicies()
	switch {
	case err != nil && o.dryRun:
		_, err = fmt.Fprintf(notes, "--rewrite=Auto: whether this kcp has MutatingAdmissionPolicies could not be determined, so none is printed: %v\n", err)
		return false, err
	case err != nil:
		return false, err
	case !has:
		_, err = io.WriteString(notes, noSuchPolicies)
	}
	return has, err
}

// registerPolicy writes the mutating policies, and the webhook for all owners, and determines whether kcp evaluates the one that rewrites
// owners. It returns the objects to register in the end, and whether it has written any. In divided, the webhook does not handle the owners
// that the policy rewrites. In all, it handles all owners.
func (o installOptions) registerPolicy(ctx context.Context, out, notes io.Writer, config v1beta1.Workspace, all, divided []client.Object) (final []client.Object, written bool, err error) {
	c, err := o.canaryClient()
	if err != nil {
		return nil, false, err
	}
	both := append(workspace.MutatingPolicies(config), all...)
	present, err := o.awaitForgotten(ctx, c, workspace.RewritePolicy(config))
	if err != nil {
		return nil, false, err
	}
	divides, err := o.divides(ctx)
	if err != nil {
		return nil, false, err
	}
	// Somebody may have applied the policy a moment ago. Only a webhook that leaves owners to it shows that it has settled.
	if found, _ := canary.PolicyEffect(ctx, c); !present || !divides || found != canary.Acting {
		if err := o.registerInRoot(ctx, out, both, false); err != nil {
			return nil, false, err
		}
		written = true
	}
	switch found, unknown := o.awaitPolicy(ctx); {
	case ctx.Err() != nil:
		return nil, written, ctx.Err()
	case found == canary.Acting:
		if written {
			if err := o.settle(ctx); err != nil {
				return nil, written, err
			}
		}
		_, err = fmt.Fprintf(out, "root: MutatingAdmissionPolicy %q rewrites the owners of plain service accounts\n", workspace.RewritePolicyName)
		return divided, written, err
	case found == canary.EffectUnknown:
		_, err = fmt.Fprintf(notes, "Whether kcp evaluates MutatingAdmissionPolicy %q could not be determined: %v. The webhook evaluates all owners.\n",
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

// divides reports whether the webhook configuration in root leaves owners to the policy.
func (o installOptions) divides(ctx context.Context) (bool, error) {
	root, err := o.rootClient()
	if err != nil {
		return false, err
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err = root.Get(ctx, client.ObjectKey{Name: webhooks.ConfigurationName}, configuration)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read MutatingWebhookConfiguration %q: %w", webhooks.ConfigurationName, err)
	}
	return workspace.LeavesOwnersToPolicy(configuration), nil
}

// checkPolicyAlone returns an error unless kcp evaluates the policy, because there is no webhook to do its work.
func (o installOptions) checkPolicyAlone(ctx context.Context, out io.Writer) error {
	found, err := o.awaitPolicy(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("whether kcp evaluates MutatingAdmissionPolicy %q could not be determined: %w", workspace.RewritePolicyName, err)
	case found != canary.Acting:
		return errors.New(noEffect + "; register the webhooks instead, with --url")
	}
	_, err = fmt.Fprintf(out, "root: MutatingAdmissionPolicy %q rewrites the owners of plain service accounts\n", workspace.RewritePolicyName)
	return err
}
