package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/internal/identity"
)

// namespaceName is the namespace that the service account creates in its new workspace.
const namespaceName = "made-by-" + accountName

func becomeReady(ctx context.Context, d *demo) error {
	made, err := create(ctx, d.account, after)
	if err != nil {
		return err
	}
	d.say("Service account %s/%s creates workspace %q: Ready after %s.", accountNamespace, accountName, after, seconds(made.took))

	owner, err := identity.ParseOwner(made.owner)
	if err != nil {
		return fmt.Errorf("the recorded owner: %w", err)
	}
	lived := made.workspace.Annotations[logicalcluster.AnnotationKey]
	if want := fmt.Sprintf("system:kcp:serviceaccount:%s:%s:%s", lived, accountNamespace, accountName); owner.Username != want {
		return fmt.Errorf("the recorded owner is %q, not %q", owner.Username, want)
	}
	warrants := owner.Extra[identity.WarrantKey]
	if len(warrants) == 0 {
		return errors.New("the recorded owner has no warrant")
	}
	d.say("Its recorded owner is valid in every workspace, and contains the home of the service account (%s is %s). The warrant has "+
		"the identity of the service account there:", lived, home)
	warrant, err := identity.ParseWarrant(warrants[0])
	if err != nil {
		return fmt.Errorf("the warrant: %w", err)
	}
	d.quote(fmt.Sprintf("username: %s\nwarrant of: %s", owner.Username, warrant.User))
	return d.useWorkspace(ctx, d.account, after)
}

// useWorkspace creates a namespace in a workspace as the service account, with its old token. It retries after a denial, because kcp's
// authorizer observes new RBAC rules with a short delay.
func (d *demo) useWorkspace(ctx context.Context, account *rest.Config, name string) error {
	within := kcptest.In(account, home+":"+name)
	err := wait.PollUntilContextTimeout(ctx, pollInterval, stuckAfter, true, func(ctx context.Context) (bool, error) {
		err := kcptest.EnsureNamespace(ctx, within, namespaceName)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("service account creates a namespace in its own workspace: %w", err)
	}
	d.say("With the same token it creates namespace %q in %s:%s.", namespaceName, home, name)
	return nil
}
