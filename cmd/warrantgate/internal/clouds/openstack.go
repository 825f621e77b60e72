package clouds

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/openstack"
)

// newOpenStack returns the access to OpenStack, or nil if none is configured. Its credentials are in the Secrets of the API server that
// kubernetes reaches.
func newOpenStack(config v1beta1.OpenStack, kubernetes *rest.Config) (*openstack.Cloud, error) {
	if !config.Enabled() {
		return nil, nil
	}
	if kubernetes == nil {
		return nil, errors.New("openStack is configured, so --kubeconfig is required: the credentials of clusters are in Secrets of that API server")
	}
	core, err := newCore(kubernetes)
	if err != nil {
		return nil, err
	}
	return NewOpenStack(config, func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
		secret, err := core.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return secret.Data, nil
	})
}

// NewOpenStack returns the access to the OpenStack of the configuration. A function reads the Secrets with the credentials.
func NewOpenStack(
	config v1beta1.OpenStack, secrets func(ctx context.Context, namespace, name string) (map[string][]byte, error),
) (*openstack.Cloud, error) {
	rootCAs, err := readRootCAs("openStack.caFile", config.CAFile)
	if err != nil {
		return nil, err
	}
	return openstack.New(openstack.Options{
		AuthURLs: config.AuthURLs, RootCAs: rootCAs, UserAgent: cli.UserAgent(), Secrets: secrets,
	})
}
