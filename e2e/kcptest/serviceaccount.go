package kcptest

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServiceAccount creates a service account in the workspace of admin, with its namespace if that is missing, and returns
// a config that acts as it there.
func ServiceAccount(ctx context.Context, admin *rest.Config, namespace, name string) (*rest.Config, error) {
	c, account, err := createServiceAccount(ctx, admin, namespace, name)
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
	}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	return withToken(admin, request.Status.Token), nil
}

// ServiceAccountOfAllShards is ServiceAccount with the token of a Secret, which every shard accepts for its signature. A token
// that was requested is no good on other shards with v0.30: they look for its service account among their own.
func ServiceAccountOfAllShards(ctx context.Context, admin *rest.Config, namespace, name string) (*rest.Config, error) {
	c, account, err := createServiceAccount(ctx, admin, namespace, name)
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
	return withToken(admin, string(secret.Data[corev1.ServiceAccountTokenKey])), nil
}

func createServiceAccount(ctx context.Context, admin *rest.Config, namespace, name string) (client.Client, *corev1.ServiceAccount, error) {
	c, err := NewClient(admin)
	if err != nil {
		return nil, nil, err
	}
	if err := EnsureNamespace(ctx, admin, namespace); err != nil {
		return nil, nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Create(ctx, account); err != nil {
		return nil, nil, fmt.Errorf("create service account: %w", err)
	}
	return c, account, nil
}

// withToken is whoever the token is of, where admin is.
func withToken(admin *rest.Config, token string) *rest.Config {
	return &rest.Config{
		Host:            admin.Host,
		TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData},
		BearerToken:     token,
		QPS:             admin.QPS,
	}
}

// EnsureNamespace creates a namespace that is not there.
func EnsureNamespace(ctx context.Context, config *rest.Config, name string) error {
	c, err := NewClient(config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}
