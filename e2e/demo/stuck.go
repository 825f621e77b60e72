package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"

	"warrantgate.dev/e2e/env/kcptest"
)

// stuckAfter is the time after which a workspace counts as stuck. kcp takes about a second for other workspaces.
const stuckAfter = 5 * time.Second

// denialMessage is kcp's message when the service account has another identity in the new workspace.
const denialMessage = `User "system:serviceaccount:` + accountNamespace + ":" + accountName + `" cannot create resource "apibindings"`

func stuck(ctx context.Context, d *demo) error {
	if err := d.startKCP(ctx); err != nil {
		return err
	}
	made, err := create(ctx, d.user, ofUser)
	if err != nil {
		return err
	}
	d.say("User %s creates workspace %q: Ready after %s.", userName, ofUser, seconds(made.took))

	short, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	if _, err = create(short, d.account, before); err == nil {
		return fmt.Errorf("workspace %q became Ready, so this kcp does not need warrantgate", before)
	}
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	ws, err := d.initializing(ctx)
	if err != nil {
		return err
	}
	d.say("Service account %s/%s creates workspace %q: still %s after %s. kcp acts as the creator to set it up, but the service "+
		"account has no permissions outside %s. The log of kcp says:", accountNamespace, accountName, before, ws.Status.Phase, seconds(stuckAfter), home)
	reason, err := d.kcp.InitializationError(ctx, ws.Spec.Cluster)
	if err != nil {
		return err
	}
	if !strings.Contains(reason, denialMessage) {
		return fmt.Errorf("workspace %q is stuck for an unexpected reason: %q", before, reason)
	}
	d.quote(reason)
	return nil
}

// initializing returns the first workspace of the service account, if it is Initializing.
func (d *demo) initializing(ctx context.Context) (*tenancyv1alpha1.Workspace, error) {
	ws, err := kcptest.GetWorkspace(ctx, d.account, before)
	if err != nil {
		return nil, err
	}
	if ws.Status.Phase != corev1alpha1.LogicalClusterPhaseInitializing {
		return nil, fmt.Errorf("workspace %q is not stuck in Initializing, but is %s", before, ws.Status.Phase)
	}
	return ws, nil
}
