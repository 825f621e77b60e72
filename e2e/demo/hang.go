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

// hangsFor is how long a workspace is watched before it is said to hang. A healthy one takes about a second.
const hangsFor = 5 * time.Second

// refusal is what kcp says when the service account is not itself in the new workspace.
const refusal = `User "system:serviceaccount:` + accountNamespace + ":" + accountName + `" cannot create resource "apibindings"`

func hang(ctx context.Context, d *demo) error {
	healthy, err := create(ctx, d.person, ofPerson)
	if err != nil {
		return err
	}
	say("%s creates workspace %q: Ready after %s.", personName, ofPerson, seconds(healthy.took))

	short, cancel := context.WithTimeout(ctx, hangsFor)
	defer cancel()
	if _, err = create(short, d.account, before); err == nil {
		return fmt.Errorf("workspace %q became Ready, so this kcp does not need warrantgate", before)
	}
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	ws, err := d.hanging(ctx)
	if err != nil {
		return err
	}
	say("Service account %s/%s creates workspace %q: still %s after %s.",
		accountNamespace, accountName, before, ws.Status.Phase, seconds(hangsFor))
	for i := range ws.Status.Conditions {
		if condition := &ws.Status.Conditions[i]; condition.Type == tenancyv1alpha1.WorkspaceInitialized {
			say("What its creator sees of it:")
			quote(fmt.Sprintf("%s=%s (%s): %s", condition.Type, condition.Status, condition.Reason, condition.Message))
		}
	}

	reason, err := d.kcp.InitializationError(ctx, ws.Spec.Cluster)
	if err != nil {
		return err
	}
	if !strings.Contains(reason, refusal) {
		return fmt.Errorf("workspace %q hangs for another reason than was expected: %q", before, reason)
	}
	say("Why, in kcp's own words, for which one has to be its operator:")
	quote(reason)
	say("kcp acts as the creator to set the workspace up, but the service account is nobody outside %s.", home)
	return nil
}

// hanging returns the first workspace of the service account, if it hangs.
func (d *demo) hanging(ctx context.Context) (*tenancyv1alpha1.Workspace, error) {
	ws, err := kcptest.GetWorkspace(ctx, d.account, before)
	if err != nil {
		return nil, err
	}
	if ws.Status.Phase != corev1alpha1.LogicalClusterPhaseInitializing {
		return nil, fmt.Errorf("workspace %q does not hang in Initializing, but is %s", before, ws.Status.Phase)
	}
	return ws, nil
}
