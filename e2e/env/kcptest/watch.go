package kcptest

import (
	"context"
	"fmt"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WatchWorkspaces watches the Workspaces in the cluster of config. Use it to see every state, or the time of a state. The watch is
// active when the call returns, and ends with ctx.
func WatchWorkspaces(ctx context.Context, config *rest.Config) (watch.Interface, error) {
	c, err := client.NewWithWatch(config, client.Options{Scheme: Scheme(), Mapper: restMapper()})
	if err != nil {
		return nil, err
	}
	// A new workspace is Ready shortly before kcp serves the bound kinds there. The context of the poll ends with the poll.
	var w watch.Interface
	err = wait.PollUntilContextTimeout(ctx, pollInterval, cacheTimeout, true, func(context.Context) (bool, error) {
		var err error
		w, err = c.Watch(ctx, &tenancyv1alpha1.WorkspaceList{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return nil, fmt.Errorf("watch workspaces at %s: %w", config.Host, err)
	}
	return w, nil
}
