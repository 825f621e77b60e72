package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubectl/pkg/describe"

	"warrantgate.dev/e2e/kcptest"
)

// eventReason is the reason of the Event that warrantgate leaves on a workspace whose owner it rewrote.
const eventReason = "OwnerRewritten"

func describeWorkspace(ctx context.Context, d *demo) error {
	ws, err := kcptest.GetWorkspace(ctx, d.person, after)
	if err != nil {
		return err
	}
	// Events are written off the path of requests, so this one may come a moment after the workspace is Ready.
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		events, err := kcptest.Events(ctx, d.person, ws)
		return slices.ContainsFunc(events, func(event corev1.Event) bool { return event.Reason == eventReason }), err
	})
	if err != nil {
		return fmt.Errorf("wait for the Event %s: %w", eventReason, err)
	}

	describer, ok := describe.GenericDescriberFor(&meta.RESTMapping{
		Resource:         tenancyv1alpha1.SchemeGroupVersion.WithResource("workspaces"),
		GroupVersionKind: tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"),
		Scope:            meta.RESTScopeRoot,
	}, d.person)
	if !ok {
		return errors.New("no describer for workspaces")
	}
	text, err := describer.Describe("", after, describe.DescriberSettings{ShowEvents: true})
	if err != nil {
		return err
	}
	if !strings.Contains(text, eventReason) || !strings.Contains(text, kcptest.CreatedByAnnotation) {
		return fmt.Errorf("the description does not tell who created the workspace and what was done:\n%s", text)
	}
	say("%s looks at the workspace of the service account (long lines are folded):", personName)
	quote("$ kubectl describe workspace " + after + "\n" + text)
	return nil
}
