package access

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenSeconds is the lifetime of a token of ServiceAccount.
const tokenSeconds = 3600

const (
	// unavailableTimeout limits how long an API server may respond that it is unavailable, or that it does not accept a new token.
	unavailableTimeout = 2 * time.Minute
	pollInterval       = 100 * time.Millisecond
)

// ServiceAccount creates a service account and its namespace, if they do not exist, and returns a config that acts as the service
// account on the server of admin for an hour, once the server accepts its token. The client c is that of the administrator.
func ServiceAccount(ctx context.Context, c client.Client, admin *rest.Config, namespace, name string) (*rest.Config, error) {
	account, err := CreateServiceAccount(ctx, c, namespace, name)
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)},
	}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	config := WithToken(admin, request.Status.Token)
	own, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// A busy kcp observes a service account a moment later, and rejects its token until then.
	err = wait.PollUntilContextTimeout(ctx, pollInterval, unavailableTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := own.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return !apierrors.IsUnauthorized(err), nil // it may be denied, too
	})
	if err != nil {
		return nil, fmt.Errorf("token of service account %s/%s is not accepted: %w", namespace, name, err)
	}
	return config, nil
}

// CreateServiceAccount creates a service account and its namespace, if they do not exist.
func CreateServiceAccount(ctx context.Context, c client.Client, namespace, name string) (*corev1.ServiceAccount, error) {
	if err := EnsureNamespace(ctx, c, namespace); err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Create(ctx, account); err != nil {
		return nil, fmt.Errorf("create service account: %w", err)
	}
	return account, nil
}

// WithToken returns a config for the server of config and the user of a token.
func WithToken(config *rest.Config, token string) *rest.Config {
	return &rest.Config{
		Host:            config.Host,
		TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData},
		BearerToken:     token,
		QPS:             config.QPS,
	}
}

// EnsureNamespace creates a namespace if it does not exist. A kcp on a busy machine reports a workspace as Ready shortly before it
// serves writes there.
func EnsureNamespace(ctx context.Context, c client.Client, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, unavailableTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, namespace)
		return !apierrors.IsServiceUnavailable(err), client.IgnoreAlreadyExists(ignoreUnavailable(err))
	})
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

func ignoreUnavailable(err error) error {
	if apierrors.IsServiceUnavailable(err) {
		return nil
	}
	return err
}
