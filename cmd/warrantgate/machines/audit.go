// Package machines has the commands about machines of Cluster API providers: audit and explain.
package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/ownership"
)

// syncTimeout limits how long reading all machines and clusters may take.
const syncTimeout = time.Minute

type auditOptions struct {
	clouds.Flags
	cli.Connection
	config    string
	namespace string
	rate      int32
	output    string
}

// NewAuditCommand returns the command audit.
func NewAuditCommand() *cobra.Command {
	var o auditOptions
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Report machines with another user's server, and orphaned servers",
		Long: `Check all machines and clusters once. Report machines that name a server of another user, machines whose cluster is not that of
the Machine that owns them, clusters whose identity is unknown, and servers that were created for a machine but that no machine names (orphans,
duplicates). It changes nothing. "warrantgate serve" does the same at an interval, and writes Events.

A provider may be about to correct some problems: a server that was created for a machine which names none yet, and status.instanceID and
spec.providerID that name different servers. If there are any, audit checks a second time after a minute, and reports those that are still there.

With -o html it prints a page that needs no network and no script, with counts, filters, and what to do for each reason; with -o markdown a list of
tasks for each namespace.

The exit status is 0 if nothing is wrong, 1 if something is, 2 if not everything could be checked.`,
		Example: `  warrantgate audit --kubeconfig=admin.kubeconfig --config=config.yaml \
    --impersonation-enabled \
    --impersonation-secret=capcs-system/cloudsigma-impersonation \
    -o html > audit.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wrong, err := o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			switch {
			case err != nil:
				return err
			case wrong:
				return cli.ExitError{Code: cli.ExitWrong}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "configuration file of serve, for the kinds of machines and the cloud")
	o.Connection.AddFlags(flags, "kubeconfig for the Kubernetes API server")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "report only what is wrong in this namespace, and ask the clouds only for its accounts")
	flags.Int32Var(&o.rate, "rate", 0, "limit of requests per second to each cloud (default: audit.requestsPerSecond of the configuration)")
	flags.StringVarP(&o.output, "output", "o", "table", "table, json with one object per line, html (a page with filters), or markdown (for tickets)")
	o.Flags.AddFlags(flags)
	return cmd
}

// run prints the findings, and returns whether there are any.
func (o auditOptions) run(ctx context.Context, out, notes io.Writer) (wrong bool, err error) {
	if formats := []string{"table", "json", formatHTML, formatMarkdown}; !slices.Contains(formats, o.output) {
		return false, fmt.Errorf("--output: %q must be one of %s", o.output, strings.Join(formats, ", "))
	}
	logger, err := cli.NewLogger(notes, "warn", "text")
	if err != nil {
		return false, err
	}
	ctx, stop := context.WithCancel(log.IntoContext(ctx, logger))
	defer stop()
	progress := cli.NewProgress(notes)
	pass, err := o.prepare(ctx, notes, progress)
	if err != nil {
		return false, err
	}
	result, err := pass(ctx)
	progress.Clear()
	if err := errors.Join(o.print(out, result, err), err); err != nil {
		return false, err
	}
	_, err = fmt.Fprintf(notes, "machines: %d, accounts: %d, requests to the cloud: %d, findings: %d\n",
		result.Machines, result.Accounts, result.Requests, len(result.Findings))
	return len(result.Findings) > 0, err
}

// prepare reads all machines and clusters, and returns the audit of them.
func (o auditOptions) prepare(ctx context.Context, notes io.Writer, progress *cli.Progress) (func(context.Context) (audit.Result, error), error) {
	config, err := config.Load(o.config)
	if err != nil {
		return nil, err
	}
	if o.rate < 0 {
		return nil, fmt.Errorf("--rate: %d is less than 1", o.rate)
	}
	if o.rate > 0 {
		config.Audit.RequestsPerSecond = o.rate
	}
	kubernetes, err := o.Config()
	if err != nil {
		return nil, err
	}
	owners, err := clouds.NewOwners(kubernetes, config, o.Flags, log.FromContext(ctx))
	if err != nil {
		return nil, err
	}
	if owners.Gate == nil {
		return nil, errors.New("there is no access to a cloud: give --impersonation-enabled and the flags for the CloudSigma credentials, or configure " +
			"openStack.authURLs, or machine.kinds of an external provider")
	}
	owners.Gate.Close() // the audit sends requests by itself
	objects, err := clusterapi.NewObjects(kubernetes, owners.Options(config))
	if err != nil {
		return nil, err
	}
	go func() { _ = objects.Start(ctx) }() // it ends with ctx, and never fails
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, syncTimeout, true, func(context.Context) (bool, error) {
		err := objects.Synced()
		if apierrors.IsForbidden(err) {
			return false, err // waiting grants no permissions
		}
		return err == nil, nil
	}); err != nil {
		return nil, fmt.Errorf("read machines and clusters: %w", errors.Join(objects.Synced(), err))
	}
	a := clouds.NewAudit(objects, owners, config)
	a.Namespace = o.namespace
	a.Progress = func(accounts, all, requests int) {
		progress.Show("%d of %d accounts are checked, requests to the cloud: %d", accounts, all, requests)
	}
	return again(a, notes, progress), nil
}

// again runs the audit a second time, after audit.Lasting, if the first one saw problems that a provider may be about to correct.
func again(a *audit.Audit, notes io.Writer, progress *cli.Progress) func(context.Context) (audit.Result, error) {
	return func(ctx context.Context) (audit.Result, error) {
		result, err := a.Run(ctx)
		young := result.NotNamed + result.Young
		if young == 0 {
			return result, err
		}
		progress.Clear()
		fmt.Fprintf(notes, "problems that a provider may be about to correct: %d, checking again in %s\n", young, audit.Lasting)
		select {
		case <-time.After(audit.Lasting):
		case <-ctx.Done():
			return result, ctx.Err()
		}
		requests := result.Requests
		result, err = a.Run(ctx)
		result.Requests += requests
		return result, err
	}
}

// found is one line of the output.
type found struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
	Instance  string `json:"instance,omitempty"`
	User      string `json:"user,omitempty"`
	Identity  string `json:"identity,omitempty"`
	Region    string `json:"region,omitempty"`
	Message   string `json:"message"`
	// Others are other machines that name the instance.
	Others []string `json:"others,omitempty"`
}

// identityOf returns the name of an account's credentials, namespace/Secret/entry, or "" if clusters bring none.
func identityOf(account ownership.Account) string {
	if (account.Identity == ownership.Identity{}) {
		return ""
	}
	return path.Join(account.Identity.Namespace, account.Identity.Secret, account.Identity.Entry)
}

// print prints a result. failed is why not everything could be checked.
func (o auditOptions) print(out io.Writer, result audit.Result, failed error) error {
	if o.output != formatHTML && o.output != formatMarkdown {
		return printAudited(out, o.output, result.Findings)
	}
	kubernetes, err := o.Config() // which prepare loaded before
	if err != nil {
		return err
	}
	report := newAuditReport(kubernetes.Host, time.Now(), result, failed)
	if o.output == formatHTML {
		return report.html(out)
	}
	return report.markdown(out)
}

func printAudited(out io.Writer, format string, findings []audit.Finding) error {
	lines, err := cli.NewLines(out, format, "NAMESPACE", "OBJECT", "REASON", "INSTANCE", "MESSAGE")
	if err != nil {
		return err
	}
	for _, f := range findings {
		lines.Add(found{
			f.Object.Kind, f.Object.Namespace, f.Object.Name, f.Reason, f.Instance, f.Account.User,
			identityOf(f.Account), f.Account.Region, f.Message, f.Others,
		}, f.Object.Namespace, f.Object.Kind+"/"+f.Object.Name, f.Reason, f.Instance, f.Message)
	}
	return lines.Flush()
}
