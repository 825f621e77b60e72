//go:build e2e

package readme_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
)

// certManager does the work of cert-manager that the chart needs: it writes the Secret of each Certificate, and the CA into the webhook
// configurations that name a Certificate.
type certManager struct {
	client client.Client
	ca     *access.CA
}

// run writes Secrets and CAs until ctx is canceled. It returns the first error.
func (m *certManager) run(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := m.issue(ctx); err != nil {
			return false, err
		}
		return false, m.inject(ctx)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end of ctx is not an error
	}
	return err
}

// issue writes the Secrets of the serving certificates. That of the chart's CA is not needed, because ca signs them.
func (m *certManager) issue(ctx context.Context) error {
	certificates := &unstructured.UnstructuredList{}
	certificates.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateList"})
	if err := m.client.List(ctx, certificates, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range certificates.Items {
		names, found, err := unstructured.NestedStringSlice(certificates.Items[i].Object, "spec", "dnsNames")
		if err != nil || !found {
			continue
		}
		name, _, err := unstructured.NestedString(certificates.Items[i].Object, "spec", "secretName")
		if err != nil || name == "" {
			return fmt.Errorf("Certificate %s has no secretName", certificates.Items[i].GetName())
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS}
		if err := m.client.Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			if err != nil {
				return err
			}
			continue
		}
		pair, err := m.ca.ServingPair(name, func(c *x509.Certificate) { c.DNSNames = names })
		if err != nil {
			return err
		}
		secret.Data = map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key, "ca.crt": m.ca.PEM()}
		if err := m.client.Create(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

// inject writes the CA into the webhook configurations.
func (m *certManager) inject(ctx context.Context) error {
	validating, mutating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}, &admissionregistrationv1.MutatingWebhookConfigurationList{}
	for _, list := range []client.ObjectList{validating, mutating} {
		if err := m.client.List(ctx, list); err != nil {
			return err
		}
	}
	for i := range validating.Items {
		var configs []*admissionregistrationv1.WebhookClientConfig
		for j := range validating.Items[i].Webhooks {
			configs = append(configs, &validating.Items[i].Webhooks[j].ClientConfig)
		}
		if err := m.trust(ctx, &validating.Items[i], configs); err != nil {
			return err
		}
	}
	for i := range mutating.Items {
		var configs []*admissionregistrationv1.WebhookClientConfig
		for j := range mutating.Items[i].Webhooks {
			configs = append(configs, &mutating.Items[i].Webhooks[j].ClientConfig)
		}
		if err := m.trust(ctx, &mutating.Items[i], configs); err != nil {
			return err
		}
	}
	return nil
}

// trust writes the CA into a webhook configuration that names a Certificate, unless it is there.
func (m *certManager) trust(ctx context.Context, configuration client.Object, configs []*admissionregistrationv1.WebhookClientConfig) error {
	if configuration.GetAnnotations()["cert-manager.io/inject-ca-from"] == "" {
		return nil
	}
	changed := false
	for _, config := range configs {
		changed = changed || len(config.CABundle) == 0
		config.CABundle = m.ca.PEM()
	}
	if !changed {
		return nil
	}
	err := m.client.Update(ctx, configuration)
	if apierrors.IsConflict(err) {
		return nil // another run will write it
	}
	return client.IgnoreNotFound(err)
}
