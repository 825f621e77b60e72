package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/describe"

	"warrantgate.dev/e2e/env/kcptest"
)

// eventReason is the reason of warrantgate's Event on a workspace whose owner it rewrote.
const eventReason = "OwnerRewritten"

func describeWorkspace(ctx context.Context, d *demo) error {
	ws, err := kcptest.GetWorkspace(ctx, d.user, after)
	if err != nil {
		return err
	}
	// warrantgate writes Events asynchronously, so this one can appear a moment after the workspace is Ready.
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		events, err := kcptest.Events(ctx, d.user, ws)
		return slices.ContainsFunc(events, func(event corev1.Event) bool { return event.Reason == eventReason }), err
	})
	if err != nil {
		return fmt.Errorf("wait for the Event %s: %w", eventReason, err)
	}

	text, err := describeObject(d.user, tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"), "workspaces", "", after)
	if err != nil {
		return err
	}
	if !strings.Contains(text, eventReason) || !strings.Contains(text, kcptest.CreatedByAnnotation) {
		return fmt.Errorf("the description has no creator, or no Event of the rewrite:\n%s", text)
	}
	_, event, _ := strings.Cut(text, eventReason)
	d.quote("$ kubectl describe workspace " + after + "\n[...] " + eventReason + " " + strings.Join(strings.Fields(event), " "))
	return nil
}

// describeObject returns the output of "kubectl describe" of an object for the user of config.
func describeObject(config *rest.Config, kind schema.GroupVersionKind, resource, namespace, name string) (string, error) {
	mapping := &meta.RESTMapping{Resource: kind.GroupVersion().WithResource(resource), GroupVersionKind: kind, Scope: meta.RESTScopeRoot}
	if namespace != "" {
		mapping.Scope = meta.RESTScopeNamespace
	}
	describer, ok := describe.GenericDescriberFor(mapping, config)
	if !ok {
		return "", fmt.Errorf("no describer for %s", resource)
	}
	return describer.Describe(namespace, name, describe.DescriberSettings{ShowEvents: true})
}
