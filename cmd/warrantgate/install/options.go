package install

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// serverOptions are the gates to register, and the URL at which the API server reaches them.
type serverOptions struct {
	config string
	url    string
	caFile string
	// pathFile is the file of serve's flag --webhook-path-file.
	pathFile string
	user     string
	// userFlag is the flag with the user.
	userFlag *pflag.Flag
	dryRun   bool
	// failurePolicy is the failure policy of the webhooks, Fail or Ignore. It applies while no serve answers.
	failurePolicy string
	// policiesOnly is whether to write only the admission policies, which the API server evaluates by itself.
	policiesOnly bool
}

func (o *serverOptions) addFlags(cmd *cobra.Command) {
	o.addOptionalFlags(cmd)
	for _, flag := range []string{"url", "ca-file"} {
		if err := cmd.MarkFlagRequired(flag); err != nil {
			panic(err) // a flag that is not defined there
		}
	}
}

// addFlagsOrPoliciesOnly adds the flags, and --policies-only, which replaces --url and --ca-file.
func (o *serverOptions) addFlagsOrPoliciesOnly(cmd *cobra.Command, evaluates string) {
	o.addOptionalFlags(cmd)
	const policiesOnly = "policies-only"
	cmd.Flags().BoolVar(&o.policiesOnly, policiesOnly, false,
		"write only the admission policies, which "+evaluates+" with no warrantgate running; needs no --url")
	cmd.MarkFlagsOneRequired("url", "ca-file", policiesOnly)
	cmd.MarkFlagsRequiredTogether("url", "ca-file")
	cmd.MarkFlagsMutuallyExclusive("url", policiesOnly)
	cmd.MarkFlagsMutuallyExclusive("ca-file", policiesOnly)
}

// addOptionalFlags adds the flags. --url and --ca-file are not required.
func (o *serverOptions) addOptionalFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "configuration file of serve: gates in mode Off are not installed, and gates in mode Warn get the failurePolicy Ignore")
	flags.StringVar(&o.url, "url", "", "https URL, without a path, at which the API server reaches serve (required)")
	flags.StringVar(&o.caFile, "ca-file", "", "CA of the certificate of serve, in PEM (required)")
	flags.StringVar(&o.pathFile, "webhook-path-file", "",
		"file of serve's flag --webhook-path-file; the path of each webhook begins with its first token; required if serve has that flag")
	flags.StringVar(&o.user, "user", "warrantgate", "user that serve's kubeconfig authenticates as; without this flag, that of an installation is kept")
	o.userFlag = flags.Lookup("user")
	flags.StringVar(&o.failurePolicy, "failure-policy", string(admissionregistrationv1.Fail),
		"failurePolicy of the webhooks, while serve does not answer: Fail denies the request; Ignore admits it; gates in mode Warn always have Ignore")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would be written, as YAML, and write nothing")
}

// keepUser sets the user, without --user, to that of an earlier install. registrable are the objects that it may have written.
func (o *serverOptions) keepUser(ctx context.Context, c client.Client, registrable []client.Object) error {
	for _, object := range registrable {
		if _, binds := object.(*rbacv1.ClusterRoleBinding); !binds || o.userFlag.Changed {
			continue
		}
		var held rbacv1.ClusterRoleBinding
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), &held); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read ClusterRoleBinding %q: %w", object.GetName(), err)
		}
		if len(held.Subjects) == 1 && held.Subjects[0].Kind == rbacv1.UserKind {
			o.user = held.Subjects[0].Name
		}
	}
	return nil
}

func (o serverOptions) load() (v1beta1.GateConfiguration, webhooks.Server, error) {
	config, err := config.Load(o.config)
	if err != nil {
		return config, webhooks.Server{}, err
	}
	if err := validateURL(o.url); err != nil {
		return config, webhooks.Server{}, err
	}
	server := webhooks.Server{URL: o.url}
	if o.pathFile != "" {
		tokens, err := cli.LoadTokens(o.pathFile)
		if err != nil {
			return config, server, err
		}
		server.PathToken = tokens.First()
	}
	if server.FailsOpen, err = failsOpen(o.failurePolicy); err != nil {
		return config, server, err
	}
	server.CABundle, err = readCABundle(o.caFile)
	return config, server, err
}

func validateURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("--url: %w", err)
	case u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("--url: %q must be an https URL, such as https://warrantgate.example.com:9443", raw)
	case (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("--url: %q must contain a host and a port only", raw)
	}
	return nil
}

func failsOpen(failurePolicy string) (bool, error) {
	switch admissionregistrationv1.FailurePolicyType(failurePolicy) {
	case admissionregistrationv1.Fail:
		return false, nil
	case admissionregistrationv1.Ignore:
		return true, nil
	}
	return false, fmt.Errorf("--failure-policy: %q is neither Fail nor Ignore", failurePolicy)
}

func readCABundle(path string) ([]byte, error) {
	bundle, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --ca-file: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("--ca-file: %s contains no certificate in PEM", path)
	}
	return bundle, nil
}
