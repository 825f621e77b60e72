package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
)

const (
	// cloudsFile is the name of the file with credentials, and the key of a Secret with its content. caKey is the key of the CA certificates.
	cloudsFile, caKey = "clouds.yaml", "cacert"
	// noKeystone is a URL without a Keystone (RFC 2606).
	noKeystone = "https://keystone.invalid/v3"
)

// checkDelegationOptions are the credentials to check, and the rules to check them by.
type checkDelegationOptions struct {
	osCloud, cloudsYAML, caCert string
	config                      string
	through, output             string
}

func newCheckDelegationCommand() *cobra.Command {
	var o checkDelegationOptions
	cmd := &cobra.Command{
		Use:   "delegation",
		Short: "Check that a cluster on OpenStack may use credentials",
		Long: `Check that a cluster on OpenStack may use credentials, before you create a Secret or a cluster with them. The rules and messages are
those of the gate on credentials. The command requests one token for each cloud from Keystone, and creates and changes nothing.

--clouds-yaml is the file that the Secret will contain. All its clouds are checked, as when the Secret is created: if they are more than the
gate checks in one write, the file is denied. With --os-cloud, only this cloud is checked. Without --clouds-yaml, --os-cloud (default
$OS_CLOUD) is a cloud of the file that the openstack command reads: $OS_CLIENT_CONFIG_FILE, or the first clouds.yaml in the working
directory, ~/.config/openstack and /etc/openstack. secure.yaml, other environment variables and files to which a cloud refers are not read,
because a provider cannot read them. Give the certificates of a private CA with --cacert; they belong into the key cacert of the Secret.

--config is the configuration file of serve. Without it, the default rules apply, and all Keystones of the file are allowed.

The exit status is 0 if a cluster may use each cloud (warnings do not count), 1 if it must not use one of them, 2 if that is unknown, for
example because Keystone cannot be reached or the file has no cloud of the name.`,
		Example: `  warrantgate check delegation --os-cloud acme-prod
  warrantgate check delegation --clouds-yaml clouds.yaml --config \
    config.yaml --through Trust`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.osCloud, "os-cloud", "", "name of the cloud (default: all clouds of --clouds-yaml, or $OS_CLOUD)")
	flags.StringVar(&o.cloudsYAML, "clouds-yaml", "", "clouds.yaml file")
	flags.StringVar(&o.caCert, "cacert", "", "file of the CA certificates that the Secret will contain in its key cacert, in PEM")
	flags.StringVar(&o.config, "config", "", "configuration file of serve")
	addOutputFlag(flags, &o.output)
	flags.StringVar(&o.through, "through", "",
		"how roles are delegated to the cluster: ApplicationCredential or Trust (default: that of the configuration)")
	return cmd
}

func (o checkDelegationOptions) run(ctx context.Context, out io.Writer) error {
	if err := cli.CheckFormat(o.output); err != nil {
		return err
	}
	all, err := o.check(ctx)
	if err != nil {
		return err
	}
	if err := all.print(out, o.output); err != nil {
		return err
	}
	return all.status()
}

func (o checkDelegationOptions) check(ctx context.Context) (all checks, err error) {
	config, err := o.configuration()
	if err != nil {
		return all, err
	}
	file, err := o.file()
	if err != nil {
		return all, err
	}
	data, err := o.secret(file)
	if err != nil {
		return all, err
	}
	authURLs := openstack.CloudsIn(data)
	names := slices.Sorted(maps.Keys(authURLs))
	if o.osCloud != "" || len(names) == 0 {
		if _, found := authURLs[o.osCloud]; !found && len(names) > 0 {
			return all, fmt.Errorf("%s has no cloud %q; its clouds are %q", file, o.osCloud, names)
		}
		names = []string{o.osCloud}
	}
	if denial := cluster.TooManyClouds(len(names)); denial != nil {
		all.add(file, resultWrong, fmt.Sprintf("DENIED\n  %s: %s", denial.Reason, denial.Message))
		return all, nil
	}
	if o.config == "" {
		config.OpenStack.AuthURLs = slices.DeleteFunc(slices.Compact(slices.Sorted(maps.Values(authURLs))), func(url string) bool { return url == "" })
	}
	if len(config.OpenStack.AuthURLs) == 0 { // the file names no usable URL; the check reports it for each cloud
		config.OpenStack.AuthURLs = []string{noKeystone}
	}
	cloud, err := clouds.NewOpenStack(config.OpenStack, func(context.Context, string, string) (map[string][]byte, error) { return data, nil })
	if err != nil {
		return all, err
	}
	defer cloud.Stop()
	for _, name := range names {
		all.addCredentials(ctx, &heard{Delegations: cloud, authURL: authURLs[name]}, ownership.Identity{Secret: file, Entry: name}, config)
	}
	return all, nil
}

// configuration returns the configuration with the values of the flags.
func (o checkDelegationOptions) configuration() (v1beta1.GateConfiguration, error) {
	loaded, err := config.Load(o.config)
	if err != nil {
		return loaded, err
	}
	if o.config != "" && !loaded.OpenStack.Enabled() {
		return loaded, fmt.Errorf("%s has no openStack.authURLs, so that no credentials are checked", o.config)
	}
	switch way := v1beta1.DelegationWay(o.through); way {
	case "":
	case v1beta1.ApplicationCredential, v1beta1.Trust:
		loaded.Cluster.Delegation.Through = way
	default:
		return loaded, fmt.Errorf("--through: %q must be %s or %s", o.through, v1beta1.ApplicationCredential, v1beta1.Trust)
	}
	return loaded, nil
}

// file returns the path of the clouds.yaml.
func (o *checkDelegationOptions) file() (string, error) {
	if o.cloudsYAML != "" {
		return o.cloudsYAML, nil
	}
	o.osCloud = cmp.Or(o.osCloud, os.Getenv("OS_CLOUD"))
	if o.osCloud == "" {
		return "", errors.New("give --os-cloud, --clouds-yaml or both, such as --os-cloud acme-prod")
	}
	if named := os.Getenv("OS_CLIENT_CONFIG_FILE"); named != "" {
		return named, nil
	}
	paths := []string{cloudsFile}
	if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "openstack", cloudsFile))
	}
	paths = append(paths, "/etc/openstack/"+cloudsFile)
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil { //nolint:gosec // the user of the command names the folders
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s", strings.Join(paths, ", "))
}

// secret returns the data of the Secret that the files would become.
func (o checkDelegationOptions) secret(file string) (map[string][]byte, error) {
	data := map[string][]byte{}
	for key, path := range map[string]string{cloudsFile: file, caKey: o.caCert} {
		if path == "" {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		data[key] = content
	}
	return data, nil
}

// heard keeps the answer of Keystone for credentials.
type heard struct {
	cluster.Delegations
	// authURL is the URL of Keystone, token the token that it issued, and err the error if there is none.
	authURL string
	token   openstack.Token
	err     error
}

// Delegation implements cluster.Delegations.
func (h *heard) Delegation(ctx context.Context, credentials ownership.Identity, policy identity.CredentialPolicy) (openstack.Token, error) {
	h.token, h.err = h.Delegations.Delegation(ctx, credentials, policy)
	return h.token, h.err
}

// failure describes why Keystone gave no answer. The gate leaves that to its log, and the user of the command has no log.
func (h *heard) failure() string {
	var unknown *ownership.UnknownError
	if !errors.As(h.err, &unknown) {
		return ""
	}
	return fmt.Sprintf("Keystone at %s: %v", h.authURL, unknown.Err)
}

// addCredentials adds the gate's decision on credentials.
func (c *checks) addCredentials(ctx context.Context, keystone *heard, credentials ownership.Identity, config v1beta1.GateConfiguration) {
	ctx, cancel := context.WithTimeout(ctx, cli.RequestTimeout)
	defer cancel()
	answer := cluster.MayActWith(ctx, keystone, credentials, config.CredentialPolicy(), config.Cluster.Delegation.Through)
	name := fmt.Sprintf("cloud %q of %s", credentials.Entry, credentials.Secret)
	result, text := resultOK, "ok"
	switch answer.Decision {
	case webhooks.Allowed:
	case webhooks.Warned:
		text = "ok, with a warning"
	case webhooks.Denied:
		result, text = resultWrong, "DENIED"
	default:
		result, text = resultUnknown, "UNKNOWN"
	}
	if result == resultOK {
		text += "\n  " + oneTableCell(keystone.token.Carries())
	}
	if answer.Decision != webhooks.Allowed {
		// The gate names the Secret, which does not exist yet.
		message := strings.ReplaceAll(answer.Message, credentials.String(), name)
		text += fmt.Sprintf("\n  %s: %s", answer.Reason, oneTableCell(message))
	}
	if failure := keystone.failure(); failure != "" {
		text += "\n  " + oneTableCell(failure)
	}
	c.add(name, result, text)
}
