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

// ServiceAccount creates a service account in the workspace of admin, with its namespace if that is missing, and returns
// a config that acts as it there.
func ServiceAccount(ctx context.Context, admin *rest.Config, namespace, name string) (*rest.Config, error) {
	c, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	return access.ServiceAccount(ctx, c, admin, namespace, name)
}

// ServiceAccountOfAllShards is ServiceAccount with the token of a Secret, which every shard accepts for its signature. A token
// that was requested is no good on other shards with v0.30: they look for its service account among their own.
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

// EnsureNamespace creates a namespace that is not there.
func EnsureNamespace(ctx context.Context, config *rest.Config, name string) error {
	c, err := NewClient(config)
	if err != nil {
		return err
	}
	return access.EnsureNamespace(ctx, c, name)
}
