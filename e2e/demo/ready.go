package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/internal/identity"
)

// namespaceName is what the service account creates in its new workspace.
const namespaceName = "made-by-" + accountName

func becomeReady(ctx context.Context, d *demo) error {
	made, err := create(ctx, d.account, after)
	if err != nil {
		return err
	}
	say("Service account %s/%s creates workspace %q: Ready after %s.", accountNamespace, accountName, after, seconds(made.took))

	owner, err := identity.ParseOwner(made.owner)
	if err != nil {
		return fmt.Errorf("the recorded owner: %w", err)
	}
	lived := made.workspace.Annotations[logicalcluster.AnnotationKey]
	if want := fmt.Sprintf("system:kcp:serviceaccount:%s:%s:%s", lived, accountNamespace, accountName); owner.Username != want {
		return fmt.Errorf("the recorded owner is %q, not %q", owner.Username, want)
	}
	text, err := pretty(owner)
	if err != nil {
		return err
	}
	say("The owner that kcp recorded for it (a warrant is text within the text, and unfolded here):")
	quote(text)
	say("The name holds in every workspace and says where the service account comes from (%s is %s). The warrant lends "+
		"what the service account may do there, and nothing beyond.", lived, home)
	return useWorkspace(ctx, d.account, after)
}

// pretty unfolds the warrants of an owner.
func pretty(owner identity.Owner) (string, error) {
	warrants := owner.Extra[identity.WarrantKey]
	if len(warrants) == 0 {
		return "", errors.New("the recorded owner carries no warrant")
	}
	unfolded := struct {
		Username string         `json:"username"`
		Groups   []string       `json:"groups"`
		Extra    map[string]any `json:"extra"`
	}{owner.Username, owner.Groups, map[string]any{}}
	for key, values := range owner.Extra {
		unfolded.Extra[key] = values
	}
	texts := make([]json.RawMessage, 0, len(warrants))
	for _, warrant := range warrants {
		texts = append(texts, json.RawMessage(warrant))
	}
	unfolded.Extra[identity.WarrantKey] = texts
	text, err := json.MarshalIndent(unfolded, "", "  ")
	return string(text), err
}

// useWorkspace creates a namespace in a workspace as the service account, with the token that it had before. kcp's authorizer follows
// its storage with a short delay, so a refusal in the first moments is not the last word.
func useWorkspace(ctx context.Context, account *rest.Config, name string) error {
	within := kcptest.In(account, home+":"+name)
	err := wait.PollUntilContextTimeout(ctx, pollInterval, hangsFor, true, func(ctx context.Context) (bool, error) {
		err := kcptest.EnsureNamespace(ctx, within, namespaceName)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("service account creates a namespace in its own workspace: %w", err)
	}
	say("It works in it, with the same token: it created namespace %q in %s:%s.", namespaceName, home, name)
	return nil
}
