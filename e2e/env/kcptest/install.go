package kcptest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/kcp"
)

// Install runs "warrantgate install kcp" with optional further arguments, waits until the admission policies are active in kcp, and
// returns the output. It also installs the permission to write Events.
func (w *Warrantgate) Install(ctx context.Context, args ...string) (string, error) {
	output, err := w.InstallOnly(ctx, args...)
	if err != nil {
		return output, err
	}
	return output, w.waitGuarded(ctx, true)
}

// InstallOnly runs "warrantgate install kcp" and does not wait. Use it for configurations that install no admission policy. install needs a
// serve that answers.
func (w *Warrantgate) InstallOnly(ctx context.Context, args ...string) (output string, err error) {
	serving := w.WhileServing(ctx, func() error {
		output, err = w.InstallIn(ctx, "kcp", w.adminArgs(), args)
		return nil
	})
	return output, errors.Join(err, serving)
}

// Uninstall runs "warrantgate uninstall kcp", waits until the admission policies, validating and mutating, are inactive, and returns
// the output.
func (w *Warrantgate) Uninstall(ctx context.Context, args ...string) (string, error) {
	output, err := w.Run(ctx, slices.Concat([]string{"uninstall", "kcp"}, w.adminArgs(), args)...)
	if err != nil {
		return output, err
	}
	return output, w.waitGuarded(ctx, false)
}

// adminArgs are the flags for the kubeconfigs of the administrator: in root, and on every shard, where install creates the RBAC rules
// that apply to all workspaces of the shard.
func (w *Warrantgate) adminArgs() []string {
	args := []string{"--kubeconfig=" + w.kcp.AdminKubeconfig(), "--context=root", "--shard-context=system:admin"}
	for _, kubeconfig := range w.kcp.ShardKubeconfigs() {
		args = append(args, "--shard-kubeconfig="+kubeconfig)
	}
	return args
}

// WaitInstalled waits until the admission policies of an installation are active in kcp. Install calls it.
func (w *Warrantgate) WaitInstalled(ctx context.Context) error { return w.waitGuarded(ctx, true) }

// waitGuarded waits until every shard of kcp protects, or no longer protects, warrantgate's annotations. An API server activates
// admission policies with a delay, and later than webhooks. The check is a dry run that only the policy denies.
func (w *Warrantgate) waitGuarded(ctx context.Context, want bool) error {
	for _, path := range w.kcp.everywhere {
		if err := waitGuardedAt(ctx, w.kcp.Admin(path), want); err != nil {
			return err
		}
	}
	return nil
}

func waitGuardedAt(ctx context.Context, config *rest.Config, want bool) error {
	c, err := NewClient(config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}
		OfType("root", "universal")(ws)
		WithAnnotation("warrantgate.dev/probe", "true")(ws)
		if !want {
			WithAnnotation(kcp.CanaryAnnotation, kcp.PolicyCanary)(ws)
		}
		last = c.Create(ctx, ws, client.DryRunAll)
		if last != nil && !apierrors.IsForbidden(last) && !apierrors.IsInternalError(last) {
			return false, last
		}
		if !want && last == nil {
			// The mutating policy removes its canary. kcp can stop applying it after the validating one, and rewrites owners until then.
			return ws.Annotations[kcp.CanaryAnnotation] != "", nil
		}
		return (last != nil) == want, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait until kcp guards annotations at %s (%t): %w", config.Host, want, err), last)
	}
	return nil
}
