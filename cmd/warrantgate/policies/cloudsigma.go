package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
)

type checkCloudSigmaOptions struct {
	clouds.ReportFlags
	region string
}

func newCheckCloudSigmaCommand() *cobra.Command {
	var o checkCloudSigmaOptions
	cmd := &cobra.Command{
		Use:   "cloudsigma NAMESPACE/NAME | EMAIL",
		Short: "Check that CloudSigma treats a token as its user",
		Long: `Ask the API of CloudSigma as which user it treats a token of the user of a CloudSigmaCluster, NAMESPACE/NAME, or of the user with an email
address. At another host than that of cloudSigma.api a token can act as the service account's own user, so that each server of the user
looks like another user's.

The credentials are those of serve: give the same flags and environment variables, and its configuration file. A cluster that uses legacy
credentials is checked with these. The kubeconfig is that of a user who may read the cluster, the Secret that names its user, and the
Secret of --impersonation-secret. An email address needs none, unless the credentials are in a Secret.

The command reads objects, requests a token and asks for its profile. It changes nothing.

The exit status is 0 if the API treats the credentials as the user, 1 if it treats them as another user or the identity provider does not permit
to impersonate the user, 2 if that could not be determined.`,
		Example: `  warrantgate check cloudsigma tenant/metal \
    --kubeconfig=admin.kubeconfig --config=config.yaml \
    --impersonation-enabled \
    --impersonation-secret=capcs-system/cloudsigma-impersonation
  warrantgate check cloudsigma tenant@example.com --region=zrh \
    --config=config.yaml --impersonation-enabled \
    --oauth-url=https://oauth.example.com --client-id=partner \
    --client-secret-file=secret`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.region, "region", "", "region for an email address (default: cloudSigma.defaultRegion of the configuration)")
	o.AddFlags(flags)
	return cmd
}

// cloudSigmaReport is the result of the check, with what it was made with.
type cloudSigmaReport struct {
	// Cluster is the namespace/name of the cluster, "" for an email address. User is "" if the cluster uses the shared account.
	Cluster string `json:"cluster,omitempty"`
	User    string `json:"user,omitempty"`
	Region  string `json:"region"`
	// Credentials are impersonation or legacy.
	Credentials string `json:"credentials,omitempty"`
	API         string `json:"api,omitempty"`
	// Profile is the user that the API treats the credentials as.
	Profile   *cloudSigmaProfile `json:"profile,omitempty"`
	RequestID string             `json:"requestID,omitempty"`
	Result    string             `json:"result"`
	// Reason is the cause if the result is not ok, such as WrongUser.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Advice is what to set or to do.
	Advice string `json:"advice,omitempty"`
}

type cloudSigmaProfile struct {
	UUID  string `json:"uuid"`
	Email string `json:"email"`
}

func (o *checkCloudSigmaOptions) run(ctx context.Context, target string, out, notes io.Writer) error {
	report, err := o.report(ctx, target, notes)
	if err != nil {
		return err
	}
	if err := cli.PrintReport(out, o.Output, report, func(out io.Writer) error { return printCloudSigma(out, report) }); err != nil {
		return err
	}
	return cli.Status(verdicts[report.Result])
}

func (o *checkCloudSigmaOptions) report(ctx context.Context, target string, notes io.Writer) (cloudSigmaReport, error) {
	if err := cli.CheckFormat(o.Output); err != nil {
		return cloudSigmaReport{}, err
	}
	config, err := config.Load(o.Config)
	if err != nil {
		return cloudSigmaReport{}, err
	}
	logger, err := cli.NewLogger(notes, "warn", "text")
	if err != nil {
		return cloudSigmaReport{}, err
	}
	isUser := strings.Contains(target, "@") // the name of no object contains it
	kubernetes, err := o.Connection.Config()
	switch {
	case err != nil && isUser && o.Connection.Flags() == "":
		kubernetes = nil // only a Secret with the credentials needs it
	case err != nil:
		return cloudSigmaReport{}, err
	default:
		kubernetes.Timeout = cli.RequestTimeout
	}
	access, err := o.CloudSigma(config.CloudSigma, kubernetes, logger)
	switch {
	case err != nil:
		return cloudSigmaReport{}, err
	case access.Cloud == nil:
		return cloudSigmaReport{}, fmt.Errorf("there is no access to CloudSigma: give --impersonation-enabled and the flags for the credentials, or legacy credentials ($%s)",
			cloudsigma.EnvLegacyEnabled)
	}
	defer access.Cloud.Stop()
	ctx, cancel := context.WithTimeout(ctx, cli.RequestTimeout)
	defer cancel()
	account := ownership.Account{User: target, Region: cmp.Or(o.region, config.CloudSigma.DefaultRegion)}
	report := cloudSigmaReport{}
	if !isUser {
		report.Cluster = target
		if account, err = o.accountOf(ctx, target, access, config, kubernetes); err != nil {
			return cloudSigmaReport{}, err
		}
	}
	report.User, report.Region = account.User, account.Region
	identity, err := access.Cloud.Identify(ctx, account)
	report.judge(identity, err, config.CloudSigma, access)
	return report, nil
}

// accountOf returns the account that the provider of a cluster acts with.
func (o *checkCloudSigmaOptions) accountOf(
	ctx context.Context, target string, access clouds.Access, config v1beta1.GateConfiguration, kubernetes *rest.Config,
) (ownership.Account, error) {
	namespace, name, ok := strings.Cut(target, "/")
	switch {
	case !ok || namespace == "" || name == "" || !clusterapi.IsName(name):
		return ownership.Account{}, fmt.Errorf("%q is neither the NAMESPACE/NAME of a CloudSigmaCluster nor an email address", target)
	case o.region != "":
		return ownership.Account{}, errors.New("--region is the region for an email address; that of a cluster is in its spec.region")
	}
	options := clouds.Owners{Access: access}.Options(config)
	options.ClustersOnly = true
	objects, err := clusterapi.NewObjects(kubernetes, options)
	if err != nil {
		return ownership.Account{}, err
	}
	return objects.Account(ctx, clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: namespace, Name: name})
}

// judge sets the result and what follows from it. The error is that of the request.
func (r *cloudSigmaReport) judge(identity cloudsigma.Identity, err error, config v1beta1.CloudSigma, access clouds.Access) {
	r.API, r.RequestID, r.Result = identity.API, identity.RequestID, resultUnknown
	if r.API != "" {
		r.Credentials = "impersonation"
		if identity.Legacy {
			r.Credentials = "legacy"
		}
	}
	if err != nil {
		r.Message, r.Reason = err.Error(), string(ownership.CauseRegion)
		if unknown, ok := errors.AsType[*ownership.UnknownError](err); ok {
			r.Reason, r.RequestID = string(unknown.Cause), unknown.RequestID
			r.Message = fmt.Sprintf("%s (%v)", unknown.Explain(), unknown.Err)
			if unknown.Cause == ownership.CauseNotImpersonable {
				r.Result = resultWrong
			}
		}
		return
	}
	what := "token"
	if identity.Legacy {
		what = "user name and password"
	}
	r.Profile = &cloudSigmaProfile{UUID: identity.UserID, Email: identity.Email}
	r.Result, r.Message = resultOK, fmt.Sprintf("%s treats the %s as user %.100q (%s)", r.API, what, identity.Email, identity.UserID)
	if identity.Claimed {
		return
	}
	r.Result, r.Reason = resultWrong, string(ownership.CauseWrongUser)
	r.Message += fmt.Sprintf(", and not as %.100q", r.User)
	usual := v1beta1.Default().CloudSigma.API
	switch {
	case !access.Impersonating:
		r.Advice = "legacy credentials are used for every user; to act as this one, give --impersonation-enabled and its credentials"
	case config.API != usual:
		r.Advice = fmt.Sprintf("set cloudSigma.api, which is %s, to the URL at which the token acts as its user: %s (the default), or a proxy of it",
			config.API, usual)
	default:
		r.Advice = "ask CloudSigma, with the request id, at which host the tokens of this service account act as their users, and set cloudSigma.api to it"
	}
}

func printCloudSigma(out io.Writer, r cloudSigmaReport) error {
	who := "the shared account (legacy credentials)"
	if r.User != "" {
		who = fmt.Sprintf("user %q", r.User)
	}
	if r.Cluster != "" {
		who = fmt.Sprintf("cluster %q, %s", r.Cluster, who)
	}
	words := map[string]string{resultOK: resultOK, resultWrong: "WRONG", resultUnknown: "UNKNOWN"}
	text := &strings.Builder{}
	fmt.Fprintf(text, "%s, region %q: %s\n", who, r.Region, cli.Color(out, verdicts[r.Result], words[r.Result]))
	line := oneTableCell(r.Message)
	if r.Reason != "" {
		line = r.Reason + ": " + line
	}
	if r.RequestID != "" {
		line += ", request id " + r.RequestID
	}
	fmt.Fprintf(text, "  %s\n", line)
	if r.Advice != "" {
		fmt.Fprintf(text, "  %s\n", r.Advice)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
