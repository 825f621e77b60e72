package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/keystonetest"
	"warrantgate.dev/e2e/env/kubetest"
)

const (
	// policyNamespace is the namespace of the ConfigMap with the policy for Keystone.
	policyNamespace = "keystone"

	// policyConfiguration selects the ConfigMaps with a policy for Keystone.
	policyConfiguration = "keystonePolicy: {selector: {matchLabels: {holds: keystone-policy}}}\n"
	// withKeystone is the configuration for a Keystone, with a placeholder for its URL. withoutKeystone is the configuration without a cloud.
	withKeystone    = "openStack: {authURLs: [%q]}\n"
	withoutKeystone = "machine: {mode: Off}\naudit: {mode: Off}\n"
)

// startOpenStack starts an API server, a Keystone if there is one, and a warrantgate.
func startOpenStack(ctx context.Context, d *demo) (err error) {
	start := time.Now()
	m := &d.machines
	if err := m.startAPI(ctx); err != nil {
		return err
	}
	d.say("A kube-apiserver is ready at %s after %s.", m.api.Config().Host, seconds(time.Since(start)))
	configuration := policyConfiguration
	if missing := keystonetest.Find(ctx); missing != nil {
		d.say("There is no Keystone on this machine, so the step that needs it is skipped:")
		d.quote(missing.Error())
		configuration += withoutKeystone
	} else {
		start = time.Now()
		if d.keystone, err = keystonetest.Start(ctx); err != nil {
			return err
		}
		d.say("A real Keystone is ready at %s after %s.", d.keystone.AuthURL(), seconds(time.Since(start)))
		configuration += fmt.Sprintf(withKeystone, d.keystone.AuthURL())
	}
	if err := m.api.ApplyCRDs(ctx,
		kubetest.OpenCRD(infrastructure.WithKind("OpenStackCluster")), kubetest.OpenCRD(infrastructure.WithKind("OpenStackMachine"))); err != nil {
		return err
	}
	for _, name := range []string{tenant, policyNamespace} {
		if err := m.api.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	d.say("The configuration of warrantgate selects the ConfigMaps with a policy for Keystone, and the Keystones that clusters may use:")
	d.quote(configuration)
	if err := d.startGates(ctx, configuration); err != nil {
		return err
	}
	return m.awaitPolicyGate(ctx)
}

// awaitPolicyGate waits until the API server calls the gates. They are in the same webhook configuration.
func (m *machines) awaitPolicyGate(ctx context.Context) error {
	canary := keystonePolicy(deadAttribute)
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := m.api.Client().Create(ctx, canary.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "keystone.warrantgate.dev"), nil
	})
}
