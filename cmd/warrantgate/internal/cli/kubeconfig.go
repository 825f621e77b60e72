package cli

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"warrantgate.dev/internal/impersonation"
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

// HasContext reports whether the same kubeconfig has a context of a name.
func HasContext(path, name string) bool {
	raw, err := kubeconfig(path, "").RawConfig()
	return err == nil && raw.Contexts[name] != nil
}

// KubeconfigFlags returns the flags for a kubeconfig and a context, --kubeconfig and --context if kind is "", as a POSIX shell reads them. It
// returns none for what is empty.
func KubeconfigFlags(kind, path, kubeContext string) string {
	flags := ""
	if path != "" {
		flags += " --" + kind + "kubeconfig=" + impersonation.ShellWord(path)
	}
	if kubeContext != "" {
		flags += " --" + kind + "context=" + impersonation.ShellWord(kubeContext)
	}
	return flags
}

// UserOf returns the user of a kubeconfig for kcp. It is empty if kcp does not report it.
func UserOf(ctx context.Context, config *rest.Config) authenticationv1.UserInfo {
	config, err := kcp.ConfigFor(config, kcp.Root)
	if err != nil {
		return authenticationv1.UserInfo{}
	}
	config.Timeout = RequestTimeout
	c, err := authenticationv1client.NewForConfig(config)
	if err != nil {
		return authenticationv1.UserInfo{}
	}
	review, err := c.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}
	}
	return review.Status.UserInfo
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
