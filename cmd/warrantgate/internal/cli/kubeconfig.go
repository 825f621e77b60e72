package cli

import (
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"warrantgate.dev/internal/kcp"
)

// RequestTimeout limits each request of a command that reports a result.
const RequestTimeout = 15 * time.Second

// LoadKubeconfig reads the kubeconfig at path, or $KUBECONFIG where it is empty. The context may be empty, too.
func LoadKubeconfig(path, kubeContext string) (*rest.Config, error) {
	config, err := kubeconfig(path, kubeContext).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %q: %w", path, err)
	}
	config.UserAgent = UserAgent()
	return config, nil
}

// LoadNamespace returns the namespace of a context of the same kubeconfig, or default, as kubectl.
func LoadNamespace(path, kubeContext string) (string, error) {
	namespace, _, err := kubeconfig(path, kubeContext).Namespace()
	if err != nil {
		return "", fmt.Errorf("read kubeconfig %q: %w", path, err)
	}
	return namespace, nil
}

func kubeconfig(path, kubeContext string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
}

// OwnerWarning returns the warning for operators of a kcp before v0.32, or "" for a newer kcp. It reads the version in the workspace of
// config.
func OwnerWarning(config *rest.Config) (string, error) {
	config = rest.CopyConfig(config)
	config.Timeout = RequestTimeout
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("client for %s: %w", config.Host, err)
	}
	if immutable, err := kcp.OwnerIsImmutable(server); err != nil || immutable {
		return "", err
	}
	return kcp.OwnerWarning, nil
}
