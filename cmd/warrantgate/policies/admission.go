package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/kcp"
)

// checkAdmissionOptions are the API server to check, the kubeconfig to use, and the requests that its gates have to deny.
type checkAdmissionOptions struct {
	cli.Connection
	config    string
	namespace string
	output    string
	// policiesOnly is whether kcp has only the admission policies, and no webhooks.
	policiesOnly bool
	// wait is how long to repeat the check until it succeeds.
	wait time.Duration
}

func (o *checkAdmissionOptions) addFlags(flags *pflag.FlagSet) {
	o.AddFlags(flags, "kubeconfig of a user who may create the objects")
	flags.StringVar(&o.config, "config", "", "configuration file of serve: gates in mode Off are not tested, gates in mode Warn must warn")
	addOutputFlag(flags, &o.output)
	flags.DurationVar(&o.wait, "wait", 0,
		"how long to repeat the check until it succeeds: API servers call a new webhook or policy only after some seconds")
}

// repeat runs a check until it succeeds or the time to wait is over. It prints and returns the last result.
func (o *checkAdmissionOptions) repeat(ctx context.Context, out io.Writer, check func(context.Context, *checks) error) error {
	if err := cli.CheckFormat(o.output); err != nil {
		return err
	}
	var all checks
	var result error
	// Without a time to wait, the check runs once. Each of its requests has its own limit.
	err := wait.PollUntilContextTimeout(ctx, repeatInterval, o.wait, true, func(context.Context) (bool, error) {
		all = checks{}
		result = check(ctx, &all)
		return result == nil, nil
	})
	if err != nil && !wait.Interrupted(err) {
		return err
	}
	if _, failure := cli.ExitCode(result); failure != nil {
		return failure
	}
	if err := all.print(out, o.output); err != nil {
		return err
	}
	return result
}

// repeatInterval is the interval between two checks.
const repeatInterval = time.Second

const checkAdmissionExits = `

Nothing is written: the objects are sent as dry runs. Only a denial by warrantgate counts, or its warning where the gate is in
mode Warn.

The exit status is 0 if warrantgate denied or rewrote the objects, 1 if not, or if warrantgate was not reached, 2 if neither could be determined.`

func newCheckAdmissionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admission",
		Short: "Check that an API server denies what warrantgate must deny",
	}
	var inKubernetes, inKCP checkAdmissionOptions
	kubernetes := &cobra.Command{
		Use:   "kubernetes",
		Short: "Check that Kubernetes denies what warrantgate must deny",
		Long: `Send an object that must be denied to a Kubernetes API server, for each enabled gate that can be tested in this way: a machine
whose provider ID is not a UUID, and a ConfigMap with a policy that Keystone would not load.

Not tested are the gate on Keystone policies without keystonePolicy.selector, because it evaluates only the objects of
keystonePolicy.objects, where this user may lack permissions, and the admission policy on spec.userEmail of CloudSigmaClusters, because
it admits administrators, who may impersonate everybody.` + checkAdmissionExits,
		Example: `  warrantgate check admission kubernetes --kubeconfig=admin.kubeconfig \
    --config=config.yaml`,
	}
	kubernetes.Flags().StringVar(&inKubernetes.namespace, "namespace", metav1.NamespaceDefault,
		"namespace of the objects, which must not be exempt from the gates")
	inWorkspace := &cobra.Command{
		Use:   "kcp",
		Short: "Check that kcp denies what warrantgate must deny",
		Long: `Send a Workspace with an annotation that only warrantgate may write to kcp, in the workspace of the kubeconfig: the admission policy
that protects owners must deny it. From a second one the webhook that rewrites owners must remove the annotation, which shows that kcp reaches
warrantgate.

It also prints whether the policy or the webhook rewrites the owners of plain service accounts: on kcp v0.32 and later the admission
policy removes an annotation from a dry run. A missing policy is not an error if the webhook answers, unless the webhook leaves these
owners to it: that is reported if the user may read the webhook configuration in root.

Where the policy acts, it also tests the one for restored Workspaces: a dry run as a backup contains it must lose an annotation of
warrantgate.

With --policies-only, for "install kcp --policies-only", all admission policies are tested, and no webhook.` + checkAdmissionExits,
		Example: `  warrantgate check admission kcp --kubeconfig=admin.kubeconfig \
    --context=root`,
	}
	inWorkspace.Flags().BoolVar(&inKCP.policiesOnly, "policies-only", false, "test the admission policies, and no webhook")
	inKubernetes.addFlags(kubernetes.Flags())
	inKCP.addFlags(inWorkspace.Flags())
	for sub, run := range map[*cobra.Command]func(context.Context, io.Writer) error{
		kubernetes: func(ctx context.Context, out io.Writer) error {
			return inKubernetes.repeat(ctx, out, inKubernetes.inKubernetes)
		},
		inWorkspace: func(ctx context.Context, out io.Writer) error { return inKCP.repeat(ctx, out, inKCP.inKCP) },
	} {
		sub.Args = cobra.NoArgs
		sub.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), cmd.OutOrStdout()) }
		cmd.AddCommand(sub)
	}
	return cmd
}

func (o *checkAdmissionOptions) inKubernetes(ctx context.Context, all *checks) error {
	config, err := config.Load(o.config)
	if err != nil {
		return err
	}
	canaries, err := gates.KubernetesCanaries(config, o.namespace)
	if err != nil {
		return err
	}
	return o.send(ctx, all, canaries, func(config *rest.Config) (client.Client, error) {
		return client.New(config, client.Options{})
	})
}

func (o *checkAdmissionOptions) inKCP(ctx context.Context, all *checks) error {
	config, err := config.Load(o.config)
	if err != nil {
		return err
	}
	rewrite := o.reportRewrite(ctx, all, config.Workspace)
	if _, message := cli.ExitCode(rewrite); message != nil {
		return rewrite
	}
	canaries := gates.KCPCanaries(config.Workspace, o.policiesOnly)
	if o.policiesOnly && len(canaries) == 0 {
		return rewrite
	}
	status := cmp.Or(rewrite, o.send(ctx, all, canaries, func(config *rest.Config) (client.Client, error) {
		if warning, err := cli.OwnerWarning(config); err == nil && warning != "" { // the canaries show whether kcp answers
			all.add("Warning", resultOK, warning+".")
		}
		return kcp.NewClient(config)
	}))
	if config.Workspace.OwnerRewrite.Mode != v1beta1.Off {
		status = cmp.Or(o.reportInstallation(ctx, all), status)
	}
	return status
}

// reportInstallation says first if no gate answered because nothing of warrantgate is registered. The error is about the kubeconfig.
func (o *checkAdmissionOptions) reportInstallation(ctx context.Context, all *checks) error {
	if slices.ContainsFunc(all.Checks, func(one checked) bool { return one.Answer == "ok" }) {
		return nil
	}
	server, err := o.Config()
	if err != nil {
		return err
	}
	server.Timeout = cli.RequestTimeout
	if registered, err := cli.RewritesOwners(ctx, server); !registered && err == nil {
		all.Checks = slices.Insert(all.Checks, 0, checked{
			Name: "warrantgate", Result: resultWrong, Answer: "not installed in root: run `warrantgate install kcp`, or apply the admission policies",
		})
	}
	return nil
}

// send sends the canaries, reports each, and returns the error for the exit status: a gate that is missing outweighs proven
// ones, and a proven one outweighs unknown results.
func (o *checkAdmissionOptions) send(
	ctx context.Context, all *checks, canaries []gates.Canary, newClient func(*rest.Config) (client.Client, error),
) error {
	if len(canaries) == 0 {
		return errors.New("the configuration enables no gate that can be tested with an object that it must deny")
	}
	config, err := o.Config()
	if err != nil {
		return err
	}
	config.Timeout = cli.RequestTimeout
	sender, err := gates.NewSender(config, newClient)
	if err != nil {
		return fmt.Errorf("client for the API server: %w", err)
	}
	seen := map[gates.Verdict]bool{}
	for _, c := range canaries {
		found := sender.Send(ctx, c)
		seen[found.Verdict] = true
		all.addCanary(config.Host, c, found)
	}
	switch {
	case seen[gates.Missing]:
		return cli.ExitError{Code: cli.ExitWrong}
	case seen[gates.Proven]:
		return nil
	}
	return cli.ExitError{Code: cli.ExitUnknown}
}

// addCanary adds which canary was sent where, the result, and what to check.
func (c *checks) addCanary(server string, sent gates.Canary, found gates.Result) {
	results := map[gates.Verdict]string{gates.Proven: resultOK, gates.Missing: resultWrong, gates.Unknown: resultUnknown}
	words := map[gates.Verdict]string{gates.Proven: "ok", gates.Missing: "NOT DENIED", gates.Unknown: "UNKNOWN"}
	must := "denied as " + sent.Reason
	if sent.Rewrites {
		words[gates.Missing], must = "NOT REWRITTEN", "rewritten"
	}
	where := ""
	if namespace := sent.Object.GetNamespace(); namespace != "" {
		where = fmt.Sprintf(" in namespace %q", namespace)
	}
	text := fmt.Sprintf("%s\n  sent %s a %s%s, as a dry run, that must be %s\n  %s", words[found.Verdict],
		server, sent.Object.GetObjectKind().GroupVersionKind().Kind, where, must, found.Message)
	if len(found.Advice) > 0 {
		text += "\n  Check\n  - " + strings.Join(found.Advice, "\n  - ")
	}
	c.add(sent.Name(), results[found.Verdict], text)
}
