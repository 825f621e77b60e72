package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/preflight"
)

type explainOptions struct {
	clouds.ReportFlags
	namespace, kind string
	watch           bool
}

// NewExplainCommand returns the command explain machine.
func NewExplainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "machine [NAMESPACE/]NAME",
		Short: "Explain whose server a machine names, and what to do",
		Long: `Explain a machine of a Cluster API provider: the account and the API that its provider uses, the server that the machine names, what the cloud
answers for it now, other servers of the user with the name of the machine, other machines that name the server, what a write of the ID would get
from the gate, and what to do.

Of an external provider (machine.kinds), whose cloud cannot be asked, it shows only who names the ID.

It writes nothing, and needs no running serve. It reads with the permissions of the kubeconfig; what these do not allow is reported as unknown, with the
permission that is missing. It asks CloudSigma only with the credentials of serve: their flags, or their environment variables. It asks OpenStack if
openStack.authURLs of the configuration names the Keystone, with the Secret of the cluster. Without them, the server's owner is reported as unknown.

The exit status is 0 if nothing is wrong, 1 if something is, 2 if that is unknown.`,
		Example: `  warrantgate explain machine worker-1 --namespace=tenant \
    --config=config.yaml
  warrantgate explain machine tenant/worker-1 --config=config.yaml \
    --impersonation-enabled \
    --impersonation-secret=capcs-system/cloudsigma-impersonation
  warrantgate explain machine tenant/worker-1 --kind=OpenStackMachine \
    --config=config.yaml -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the machine (default: that of the context)")
	flags.BoolVarP(&o.watch, "watch", "w", false, "print it again after each change of the machine, until nothing is wrong with it")
	flags.StringVar(&o.kind, "kind", "", "kind of the machine, such as OpenStackMachine, if machines of several kinds have the name")
	o.AddFlags(flags)
	return cmd
}

func (o explainOptions) run(ctx context.Context, name string, out, notes io.Writer) error {
	logger, err := cli.NewLogger(notes, "warn", "text")
	if err != nil {
		return err
	}
	ctx = log.IntoContext(ctx, logger)
	var explained explanation
	watched := cli.Watched{
		Make: func() (_ any, done bool, err error) {
			explained, err = o.explain(ctx, name)
			return explained, !o.watch || preflight.Verdict(explained.Findings) == preflight.Yes, err
		},
		Print: func() error {
			return cli.PrintReport(out, o.Output, explained, func(out io.Writer) error { return printMachine(out, explained) })
		},
		Start: func() (watch.Interface, error) { return o.start(ctx, explained) },
	}
	if err := watched.Run(ctx, out, o.Output); err != nil {
		return err
	}
	return cli.Status(preflight.Verdict(explained.Findings))
}

// start watches the machine.
func (o explainOptions) start(ctx context.Context, explained explanation) (watch.Interface, error) {
	config, err := o.Connection.Config()
	if err != nil {
		return nil, err
	}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return c.Resource(explained.resource).Namespace(explained.Machine.Namespace).
		Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + explained.Machine.Name})
}

func (o explainOptions) explain(ctx context.Context, name string) (explanation, error) {
	if err := cli.CheckFormat(o.Output); err != nil {
		return explanation{}, err
	}
	namespace, name, err := o.place(name)
	if err != nil {
		return explanation{}, err
	}
	config, err := config.Load(o.Config)
	if err != nil {
		return explanation{}, err
	}
	kubernetes, err := o.Connection.Config()
	if err != nil {
		return explanation{}, err
	}
	kubernetes.Timeout = cli.RequestTimeout
	owners, _ := clouds.NewOwners(kubernetes, config, o.Flags, log.FromContext(ctx)) // the report has the error about the cloud of the machine
	if owners.Gate != nil {
		defer owners.Gate.Close()
	}
	objects, err := clusterapi.NewObjects(kubernetes, owners.Options(config))
	if err != nil {
		return explanation{}, err
	}
	kind, object, err := find(ctx, objects, clouds.Kinds(config), o.kind, namespace, name)
	if err != nil {
		return explanation{}, err
	}
	cloud := &cloudOnce{}
	reached, err := owners.Reaches(string(kind.Provider))
	if cloud.unasked = err; reached {
		cloud.gate = owners.Gate
	}
	gate := config.Machine
	gate.Unknown = gate.UnknownPolicy(config.Audit.Mode != v1beta1.Off) // as serve, on Kubernetes
	e := explainer{objects: objects, kinds: clouds.Kinds(config), gate: gate, cloud: cloud, api: owners.API}
	explained, err := e.explain(ctx, kind, object)
	explained.resource = kind.Resource()
	return explained, err
}

// place returns the namespace and the name of the machine.
func (o explainOptions) place(name string) (namespace, plain string, err error) {
	namespace, plain, qualified := strings.Cut(name, "/")
	switch {
	case !qualified:
		namespace, plain = o.namespace, name
	case o.namespace != "" && o.namespace != namespace:
		return "", "", fmt.Errorf("the namespace in %q is not %q (--namespace)", name, o.namespace)
	case namespace == "":
		return "", "", fmt.Errorf("%q is not of the form NAMESPACE/NAME", name)
	}
	if namespace == "" {
		if namespace, err = o.Connection.Namespace(); err != nil {
			return "", "", err
		}
	}
	if !clusterapi.IsName(plain) || !clusterapi.IsName(namespace) {
		return "", "", fmt.Errorf("%q is not the name of a machine, such as tenant/worker-1", name)
	}
	return namespace, plain, nil
}

// find returns the machine of that name, of one kind.
func find(
	ctx context.Context, objects *clusterapi.Objects, kinds []clusterapi.Kind, only, namespace, name string,
) (kind clusterapi.Kind, machine *unstructured.Unstructured, err error) {
	var names, found []string
	var unread error
	for _, candidate := range kinds {
		names = append(names, candidate.Kind)
		if only != "" && !strings.EqualFold(only, candidate.Kind) && !strings.EqualFold(only, candidate.MachineKind.Resource) {
			continue
		}
		object, err := objects.Object(ctx, candidate.Resource(), namespace, name)
		switch {
		case err != nil && !apierrors.IsForbidden(err):
			return kind, nil, err
		case err != nil:
			unread = errors.Join(unread, err)
		case object != nil:
			kind, machine, found = candidate, object, append(found, candidate.Kind)
		}
	}
	known := strings.Join(names, ", ")
	switch {
	case len(found) == 1:
		return kind, machine, nil
	case len(found) > 1:
		return kind, nil, fmt.Errorf("machines of several kinds are named %q in namespace %q: choose one with --kind=%s", name, namespace, strings.Join(found, " or --kind="))
	case unread != nil:
		return kind, nil, unread
	case only != "" && !slices.ContainsFunc(kinds, func(k clusterapi.Kind) bool {
		return strings.EqualFold(only, k.Kind) || strings.EqualFold(only, k.MachineKind.Resource)
	}):
		return kind, nil, fmt.Errorf("--kind: %q is none of the kinds of machines (%s); machine.kinds and openStack of the configuration (--config) add others", only, known)
	}
	return kind, nil, fmt.Errorf("there is no machine %q in namespace %q (kinds: %s); machine.kinds and openStack of the configuration (--config) add others", name, namespace, known)
}
