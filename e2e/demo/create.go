package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
)

// created is a workspace that became Ready.
type created struct {
	workspace *tenancyv1alpha1.Workspace
	took      time.Duration
	// owner is the recorded owner while kcp sets the workspace up. When the workspace is Ready, kcp reduces the owner to its name.
	owner string
}

// create creates a workspace in home and watches it until it is Ready.
func create(ctx context.Context, as *rest.Config, name string) (created, error) {
	watch, err := kcptest.WatchWorkspaces(ctx, as)
	if err != nil {
		return created{}, err
	}
	defer watch.Stop()

	var c created
	start := time.Now()
	if _, err := kcptest.CreateWorkspace(ctx, as, name); err != nil {
		return created{}, err
	}
	for event := range watch.ResultChan() {
		ws, ok := event.Object.(*tenancyv1alpha1.Workspace)
		switch {
		case !ok:
			return created{}, fmt.Errorf("watch workspaces: %s: %v", event.Type, event.Object)
		case ws.Name != name:
		case ws.Status.Phase == corev1alpha1.LogicalClusterPhaseReady:
			c.workspace, c.took = ws, time.Since(start)
			return c, nil
		default:
			c.owner = ws.Annotations[kcptest.OwnerAnnotation]
		}
	}
	if ctx.Err() == nil {
		return created{}, errors.New("the watch of workspaces ended")
	}
	return created{}, fmt.Errorf("workspace %s is not Ready: %w\n%s", name, ctx.Err(),
		kcptest.Describe(context.WithoutCancel(ctx), as, name))
}
