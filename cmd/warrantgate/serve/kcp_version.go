package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/kcp"
)

// versionInterval is the time between two attempts of serve to read the version of kcp.
const versionInterval = time.Minute

// warnOfOldKCP returns a runnable that logs the warning once, as soon as kcp answers, or nil without a kcp.
func (o serveOptions) warnOfOldKCP(logger logr.Logger) (manager.Runnable, error) {
	if o.kcpKubeconfig == "" {
		return nil, nil //nolint:nilnil // there is nothing to warn of
	}
	config, err := cli.LoadKubeconfig(o.kcpKubeconfig, "")
	if err == nil {
		config, err = kcp.ConfigFor(config, kcp.Root)
	}
	if err != nil {
		return nil, fmt.Errorf("--kcp-kubeconfig: %w", err)
	}
	return manager.RunnableFunc(func(ctx context.Context) error {
		_ = wait.PollUntilContextCancel(ctx, versionInterval, true, func(context.Context) (bool, error) {
			warning, err := cli.OwnerWarning(config)
			if err != nil {
				logger.V(1).Info("the version of kcp is not known", "error", err.Error())
				return false, nil
			}
			if warning != "" {
				logger.Info("warning: " + warning)
			}
			return true, nil
		}) // ends without it when serve ends
		return nil
	}), nil
}
