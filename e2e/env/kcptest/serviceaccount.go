package kcptest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
)

// ServiceAccount creates a service account in the workspace of admin, and its namespace if it does not exist. It returns a config
// that acts as the service account there.
func ServiceAccount(ctx context.Context, admin *rest.Config, namespace, name string) (*rest.Config, error) {
	c, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	return access.ServiceAccount(ctx, c, admin, namespace, name)
}

// ServiceAccountOfAllShards creates a service account with a token in a Secret. Every shard accepts that token, because it verifies
// only the signature. In v0.30, other shards reject a requested token, because they look for the service account in their own
// storage.
func ServiceAccountOfAllShards(ctx context.Context, admin *rest.Config, namespace, name string) (*rest.Config, error) {
	c, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	account, err := access.CreateServiceAccount(ctx, c, namespace, name)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-token",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	if err := c.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("secret of service account %s/%s: %w", namespace, name, err)
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		return len(secret.Data[corev1.ServiceAccountTokenKey]) > 0, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the token of service account %s/%s: %w", namespace, name, err)
	}
	return access.WithToken(admin, string(secret.Data[corev1.ServiceAccountTokenKey])), nil
}

// EnsureNamespace creates a namespace if it does not exist.
func EnsureNamespace(ctx context.Context, config *rest.Config, name string) error {
	c, err := NewClient(config)
	if err != nil {
		return err
	}
	return access.EnsureNamespace(ctx, c, name)
}
