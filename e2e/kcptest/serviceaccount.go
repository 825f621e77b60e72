package kcptest

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServiceAccount creates a service account in the workspace of admin, with its namespace if that is missing, and returns
// a config that acts as it there.
func ServiceAccount(ctx context.Context, admin *rest.Config, namespace, name string) (*rest.Config, error) {
	c, err := NewClient(admin)
	if err != nil {
		return nil, err
	}
	if err := EnsureNamespace(ctx, admin, namespace); err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Create(ctx, account); err != nil {
		return nil, fmt.Errorf("create service account: %w", err)
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
	}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	return &rest.Config{
		Host:            admin.Host,
		TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData},
		BearerToken:     request.Status.Token,
		QPS:             admin.QPS,
	}, nil
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
