package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
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

// Connection is the API server that a command sends requests to, and the user that it sends them as.
type Connection struct {
	// Kubeconfig is the path of the kubeconfig, or empty for $KUBECONFIG.
	Kubeconfig string
	// Overrides replace what the kubeconfig says. CurrentContext is the context, or empty for the current one.
	Overrides clientcmd.ConfigOverrides
}

// NewConnection returns the connection of a kubeconfig and one of its contexts. Both may be empty.
func NewConnection(kubeconfig, kubeContext string) Connection {
	return Connection{Kubeconfig: kubeconfig, Overrides: clientcmd.ConfigOverrides{CurrentContext: kubeContext}}
}

// AddFlags adds --kubeconfig, which usage describes, --context, and the flags of kubectl that replace what the kubeconfig says. Those that are
// left out belong into a kubeconfig; kubectl's --user has another meaning in "install".
func (c *Connection) AddFlags(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&c.Kubeconfig, clientcmd.RecommendedConfigPathFlag, "", usage+" (default $KUBECONFIG)")
	clientcmd.BindOverrideFlags(&c.Overrides, flags, clientcmd.ConfigOverrideFlags{
		CurrentContext: clientcmd.FlagInfo{LongName: clientcmd.FlagContext, Description: "context of --kubeconfig (default: the current one)"},
		AuthOverrideFlags: clientcmd.AuthOverrideFlags{
			Token:             clientcmd.FlagInfo{LongName: clientcmd.FlagBearerToken, Description: "bearer token for the API server"},
			Impersonate:       clientcmd.FlagInfo{LongName: clientcmd.FlagImpersonate, Description: "user to impersonate"},
			ImpersonateGroups: clientcmd.FlagInfo{LongName: clientcmd.FlagImpersonateGroup, Description: "group to impersonate; may be given again"},
		},
		ClusterOverrideFlags: clientcmd.ClusterOverrideFlags{
			APIServer:             clientcmd.FlagInfo{LongName: clientcmd.FlagAPIServer, Description: "URL of the API server"},
			CertificateAuthority:  clientcmd.FlagInfo{LongName: clientcmd.FlagCAFile, Description: "file with the CA of the API server"},
			InsecureSkipTLSVerify: clientcmd.FlagInfo{LongName: clientcmd.FlagInsecure, Description: "do not verify the certificate of the API server"},
		},
	})
}

// Config returns the configuration of clients.
func (c Connection) Config() (*rest.Config, error) {
	config, err := c.load().ClientConfig()
	if err != nil {
		return nil, c.explain(err)
	}
	config.UserAgent = UserAgent()
	return config, nil
}

// Namespace returns the namespace of the context, or default, as kubectl.
func (c Connection) Namespace() (string, error) {
	namespace, _, err := c.load().Namespace()
	if err != nil {
		return "", c.explain(err)
	}
	return namespace, nil
}

// explain says which kubeconfig an error is about.
func (c Connection) explain(err error) error {
	variable, set := os.LookupEnv(clientcmd.RecommendedConfigPathEnvVar)
	switch {
	case c.Kubeconfig != "" || !clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("read kubeconfig %q: %w", cmp.Or(c.Kubeconfig, variable), err)
	case !set || variable == "":
		return errors.New("there is no kubeconfig: set --kubeconfig to its file, or the variable KUBECONFIG")
	}
	directory, _ := os.Getwd() // only for the message
	return fmt.Errorf("there is no kubeconfig, or an empty one, in the file %q (variable KUBECONFIG, in the directory %q): correct it, or set --kubeconfig",
		variable, directory)
}

// HasContext reports whether the kubeconfig has a context of a name.
func (c Connection) HasContext(name string) bool {
	raw, err := c.load().RawConfig()
	return err == nil && raw.Contexts[name] != nil
}

// Flags returns --kubeconfig and --context as a POSIX shell reads them, without what is empty.
func (c Connection) Flags() string {
	return KubeconfigFlags("", c.Kubeconfig, c.Overrides.CurrentContext)
}

func (c Connection) load() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &c.Overrides)
}

// LoadKubeconfig reads the kubeconfig at path, or $KUBECONFIG where it is empty. The context may be empty, too.
func LoadKubeconfig(path, kubeContext string) (*rest.Config, error) {
	return NewConnection(path, kubeContext).Config()
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
