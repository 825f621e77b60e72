package install

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
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
		"--feature-gates=MutatingAdmissionPolicy=false: install the webhooks then, with --rewrite=Webhook"
)

// usesPolicy reports whether to register the policy that rewrites owners. With --rewrite=Auto, it is registered where kcp serves its kind.
func (o installOptions) usesPolicy(config v1beta1.Workspace, notes io.Writer) (bool, error) {
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

// hasMutatingPolicies reports whether kcp serves MutatingAdmissionPolicy.
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

// awaitPolicy waits until kcp evaluates the policy that rewrites owners, and then until it does so for all logical clusters.
func (o installOptions) awaitPolicy(ctx context.Context, out io.Writer) error {
	config, err := o.rootConfig()
	if err != nil {
		return err
	}
	config.Timeout = cli.RequestTimeout
	c, err := kcp.NewClient(config)
	if err != nil {
		return err
	}
	unknown := error(nil)
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(context.Context) (bool, error) {
		var acts bool
		acts, unknown = gates.PolicyRewrites(ctx, c) // each request has its own limit
		return acts, nil
	})
	switch {
	case unknown != nil:
		return fmt.Errorf("whether kcp evaluates MutatingAdmissionPolicy %q could not be determined: %w", workspace.RewritePolicyName, unknown)
	case err != nil:
		return fmt.Errorf("%s (%w)", noEffect, err)
	}
	if err := o.settle(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "root: MutatingAdmissionPolicy %q rewrites the owners of plain service accounts\n", workspace.RewritePolicyName)
	return err
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

// checkGates waits until the gates have denied and rewritten their canaries.
func (o installOptions) checkGates(ctx context.Context, config v1beta1.Workspace) error {
	root, err := o.gatedConfig(ctx)
	if err != nil {
		return err
	}
	sender, err := gates.NewSender(root, func(config *rest.Config) (client.Client, error) { return kcp.NewClient(config) })
	if err != nil {
		return err
	}
	var failed []string
	err = wait.PollUntilContextTimeout(ctx, effectInterval, o.wait, true, func(context.Context) (bool, error) {
		failed = nil
		for _, c := range gates.KCPCanaries(config, o.policiesOnly) {
			// Each request has its own limit, so that the last result is not that the time was over.
			if found := sender.Send(ctx, c); found.Verdict != gates.Proven {
				failed = append(failed, fmt.Sprintf("%s: %s\n  Check\n  - %s", c.Name(), found.Message, strings.Join(found.Advice, "\n  - ")))
			}
		}
		return len(failed) == 0, nil
	})
	if err != nil {
		return cli.ExitError{Code: cli.ExitWrong, Err: fmt.Errorf("the gates are installed, but did not work within %s. Until they do, new workspaces whose owners only the webhook can rewrite are "+
			"not scheduled: correct the cause, and run this command again, or `warrantgate uninstall kcp`\n%s", o.wait, strings.Join(failed, "\n"))}
	}
	return nil
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
	config, err := t.Config()
	if err != nil {
		return nil, err
	}
	return kcp.ConfigFor(config, kcp.Root)
}
