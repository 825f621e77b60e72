package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/keystonetest"
)

const (
	// policyNamespace is where a ConfigMap holds the policy for Keystone.
	policyNamespace = "keystone"

	// openStackConfiguration is what has to be added to a configuration. The URL of Keystone is missing.
	openStackConfiguration = `openStack: {authURLs: [%q]}
keystonePolicy: {selector: {matchLabels: {holds: keystone-policy}}}
`
)

// startOpenStack starts a Keystone beside the API server of the machines, and has warrantgate know it.
func startOpenStack(ctx context.Context, d *demo) (err error) {
	start := time.Now()
	if d.keystone, err = keystonetest.Start(ctx, keystonetest.Options{}); err != nil {
		return err
	}
	say("A real Keystone is ready at %s after %s.", d.keystone.AuthURL(), seconds(time.Since(start)))
	m := &d.machines
	if err := m.api.ApplyCRDs(ctx, openStackKinds()...); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: policyNamespace}}
	if err := m.api.Client().Create(ctx, namespace); err != nil {
		return err
	}
	added := fmt.Sprintf(openStackConfiguration, d.keystone.AuthURL())
	say("The API server gets the kinds of the provider for OpenStack. An administrator adds to the configuration of warrantgate which " +
		"Keystone may be believed and which ConfigMaps hold a policy for it, installs it once more and starts it again:")
	quote(added)
	if err := m.extend(ctx, added); err != nil {
		return err
	}
	return m.awaitDelegation(ctx)
}

// extend adds to warrantgate's configuration and has everybody take it up.
func (m *machines) extend(ctx context.Context, added string) error {
	configuration, err := os.ReadFile(m.warrantgate.ConfigFile())
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.warrantgate.ConfigFile(), append(configuration, added...), 0o600); err != nil {
		return err
	}
	if _, err := m.warrantgate.Install(ctx); err != nil {
		return err
	}
	if err := m.warrantgate.Stop(); err != nil {
		return err
	}
	return m.warrantgate.Start(ctx)
}

// awaitDelegation waits until the API server asks the gates that are new. They are registered together.
func (m *machines) awaitDelegation(ctx context.Context) error {
	canary := openStackCluster("canary")
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := m.api.Client().Create(ctx, canary.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "delegation.warrantgate.dev"), nil
	})
}
