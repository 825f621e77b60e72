package clouds

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/cloudsigma/impersonation"
	"warrantgate.dev/internal/config/v1beta1"
)

// Flags are the credentials with which warrantgate sends requests to CloudSigma.
type Flags struct {
	impersonationEnabled bool
	oauthURL             string
	clientID             string
	clientSecret         string
	clientSecretFile     string
	secret               string
}

// AddFlags adds them to the flags of a command.
func (f *Flags) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.impersonationEnabled, "impersonation-enabled", false, "impersonate the user of each cluster in CloudSigma (default $"+cloudsigma.EnvImpersonationEnabled+")")
	flags.StringVar(&f.oauthURL, "oauth-url", "", "base URL of CloudSigma's identity provider (default $"+cloudsigma.EnvOAuthURL+")")
	flags.StringVar(&f.clientID, "client-id", "", "client ID of warrantgate's service account at the identity provider (default $"+cloudsigma.EnvClientID+")")
	flags.StringVar(&f.clientSecret, "client-secret", "",
		"client secret; the list of processes shows it, so prefer --client-secret-file or $"+cloudsigma.EnvClientSecret)
	flags.StringVar(&f.clientSecretFile, "client-secret-file", "", "file with the client secret; reloaded when it changes")
	flags.StringVar(&f.secret, "impersonation-secret", "",
		"namespace/name of a Secret with the keys oauth-url, client-id and client-secret, instead of --oauth-url, --client-id, --client-secret and --client-secret-file; reloaded when it changes")
}

// ReportFlags are the flags of a command that reads a Kubernetes API server, asks the cloud with the credentials of Flags, and prints a report.
type ReportFlags struct {
	Flags
	Connection     cli.Connection
	Config, Output string
}

// AddFlags adds them to the flags of a command.
func (f *ReportFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Config, "config", "", "configuration file of serve, for the kinds of machines and the cloud")
	f.Connection.AddFlags(flags, "kubeconfig for the Kubernetes API server")
	flags.StringVarP(&f.Output, "output", "o", "text", "text, json or yaml")
	f.Flags.AddFlags(flags)
}

// fromEnvironment sets the fields for which no flag was given.
func (f Flags) fromEnvironment() (Flags, error) {
	if !f.impersonationEnabled {
		enabled, err := boolVariable(cloudsigma.EnvImpersonationEnabled)
		if err != nil {
			return f, err
		}
		f.impersonationEnabled = enabled
	}
	f.oauthURL = cmp.Or(f.oauthURL, os.Getenv(cloudsigma.EnvOAuthURL))
	f.clientID = cmp.Or(f.clientID, os.Getenv(cloudsigma.EnvClientID))
	if f.clientSecret == "" && f.clientSecretFile == "" {
		f.clientSecret = os.Getenv(cloudsigma.EnvClientSecret)
	}
	return f, nil
}

func boolVariable(name string) (bool, error) {
	value := os.Getenv(name)
	if value == "" {
		return false, nil
	}
	parsed, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("$%s: %q is neither true nor false", name, value)
	}
	return parsed, nil
}

// Access is the access to CloudSigma.
type Access struct {
	// Cloud is nil if there is no access.
	Cloud *cloudsigma.Cloud
	// Impersonating is true if requests about clusters are sent as the users of the clusters.
	Impersonating bool
	// credentials reads the credentials of the service account that impersonates. It is nil unless Impersonating.
	credentials func(context.Context) (impersonation.Credentials, error)
	// Legacy is true if one account is used for clusters without a user and, unless Impersonating, for all clusters.
	Legacy bool
}

// RequireDeny returns an error if a tenant could claim a server of another tenant in an outage, because both use one account.
func (a Access) RequireDeny(config v1beta1.Machine) error {
	if !a.Legacy || config.Mode != v1beta1.Enforce || config.Unknown == v1beta1.Deny {
		return nil
	}
	return fmt.Errorf("machine.unknown: Required value: legacy credentials are enabled ($%s), and one account serves several tenants; set machine.unknown: %s, "+
		"and install again with this configuration, so that no tenant can claim a server of another one while the cloud or warrantgate is away",
		cloudsigma.EnvLegacyEnabled, v1beta1.Deny)
}

// CloudSigma returns the access to CloudSigma that the flags and the environment configure. The Secret of --impersonation-secret is read through
// kubernetes, which may be nil. With an error, the access has no Cloud.
func (f Flags) CloudSigma(config v1beta1.CloudSigma, kubernetes *rest.Config, log logr.Logger) (Access, error) {
	f, err := f.fromEnvironment()
	if err != nil {
		return Access{}, err
	}
	legacy, err := boolVariable(cloudsigma.EnvLegacyEnabled)
	if err != nil {
		return Access{}, err
	}
	access := Access{Impersonating: f.impersonationEnabled, Legacy: legacy}
	rootCAs, err := readRootCAs("cloudSigma.caFile", config.CAFile)
	if err != nil || !f.impersonationEnabled && !legacy {
		return access, err
	}
	if err := config.RequireRegions(); err != nil {
		return access, err
	}
	options := cloudsigma.Options{
		Regions: config.Regions, API: config.API, LegacyAPI: config.LegacyAPI, RootCAs: rootCAs, UserAgent: cli.UserAgent(),
	}
	if f.impersonationEnabled {
		if access.credentials, err = f.credentials(kubernetes); err != nil {
			return access, err
		}
		options.Tokens = impersonation.New(impersonation.Options{
			Flow: config.Flow, TokenPath: config.TokenPath, ServiceProviderAPI: config.ServiceProviderAPI, Audience: config.Audience,
			RootCAs: rootCAs, Credentials: access.credentials,
		})
	}
	if legacy {
		if _, err := legacyCredentials(); err != nil { // the environment does not change, so it would never work
			return access, err
		}
		whose := "requests to CloudSigma use legacy credentials: one account for all"
		if f.impersonationEnabled {
			whose = "requests to CloudSigma for clusters without a user use legacy credentials: one account for all of them"
		}
		log.Info(whose + ", whose password can do everything that the account can; use impersonation instead")
		options.Legacy = legacyCredentials
	}
	access.Cloud = cloudsigma.New(options)
	return access, nil
}

func legacyCredentials() (cloudsigma.LegacyCredentials, error) {
	credentials := cloudsigma.LegacyCredentials{Username: os.Getenv(cloudsigma.EnvUsername), Password: os.Getenv(cloudsigma.EnvPassword)}
	if credentials.Username == "" || credentials.Password == "" {
		return cloudsigma.LegacyCredentials{}, fmt.Errorf("legacy credentials are enabled ($%s), but $%s or $%s is empty", cloudsigma.EnvLegacyEnabled, cloudsigma.EnvUsername, cloudsigma.EnvPassword)
	}
	return credentials, nil
}

// credentials returns the source of the service account's credentials.
func (f Flags) credentials(kubernetes *rest.Config) (func(context.Context) (impersonation.Credentials, error), error) {
	if f.secret != "" {
		if kubernetes == nil {
			return nil, errors.New("--impersonation-secret is a Secret of the API server of --kubeconfig, which was not given")
		}
		namespace, name, ok := strings.Cut(f.secret, "/")
		if !ok || namespace == "" || name == "" {
			return nil, fmt.Errorf("--impersonation-secret: %q is not of the form namespace/name", f.secret)
		}
		return credentialsFromSecret(kubernetes, namespace, name)
	}
	var missing []string
	for _, needed := range []struct{ value, name string }{
		{f.oauthURL, "--oauth-url"}, {f.clientID, "--client-id"}, {f.clientSecret + f.clientSecretFile, "--client-secret-file"},
	} {
		if needed.value == "" {
			missing = append(missing, needed.name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("impersonation is enabled, but neither --impersonation-secret nor %s was given", strings.Join(missing, ", "))
	}
	if f.clientSecretFile != "" {
		return impersonation.FromFile(f.oauthURL, f.clientID, f.clientSecretFile), nil
	}
	return impersonation.Fixed(impersonation.Credentials{OAuthURL: f.oauthURL, ClientID: f.clientID, ClientSecret: f.clientSecret}), nil
}

// credentialsFromSecret reads the Secret at each call. Calls are rare: only a token that is not cached needs them.
func credentialsFromSecret(kubernetes *rest.Config, namespace, name string) (func(context.Context) (impersonation.Credentials, error), error) {
	core, err := newCore(kubernetes)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (impersonation.Credentials, error) {
		secret, err := core.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return impersonation.Credentials{}, fmt.Errorf("there is no Secret %q in namespace %q (--impersonation-secret): create it, with the keys "+
				"oauth-url, client-id and client-secret", name, namespace)
		case err != nil:
			return impersonation.Credentials{}, fmt.Errorf("read the Secret %q of namespace %q: %w", name, namespace, err)
		}
		value := func(key string) string {
			text := strings.TrimSpace(string(secret.Data[key]))
			if text == "" {
				err = fmt.Errorf("the Secret %q in namespace %q (--impersonation-secret) has no key %q, or it is empty: add it", name, namespace, key)
			}
			return text
		}
		found := impersonation.Credentials{OAuthURL: value("oauth-url"), ClientID: value("client-id"), ClientSecret: value("client-secret")}
		return found, err
	}, nil
}

// newCore returns a client for Secrets without a limit of requests: otherwise admission requests would wait for each other, at 5 a second.
func newCore(kubernetes *rest.Config) (*corev1client.CoreV1Client, error) {
	kubernetes = rest.CopyConfig(kubernetes)
	kubernetes.QPS = -1
	core, err := corev1client.NewForConfig(kubernetes)
	if err != nil {
		return nil, fmt.Errorf("client for secrets: %w", err)
	}
	return core, nil
}

// readRootCAs returns nil, which means the CAs of the system, if field names no file.
func readRootCAs(field, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	bundle, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s: %s contains no certificate in PEM", field, file)
	}
	return pool, nil
}
