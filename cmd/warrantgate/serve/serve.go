// Package serve has the command that serves the admission webhooks and runs the controllers.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clouds"
	"warrantgate.dev/initializers/owner"
	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/internal/webhookserver"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// serveOptions are addresses, files and kubeconfigs. The decisions of the gates are in the configuration file.
type serveOptions struct {
	clouds.Flags
	certificateFlags
	callerFlags
	config         string
	kubeconfig     string
	leaseNamespace string
	kcpKubeconfig  string
	lcKubeconfig   string
	webhookAddress string
	metricsAddress string
	healthAddress  string
	pprofAddress   string
	drainPeriod    time.Duration
	logLevel       string
	logFormat      string
}

// NewCommand returns the command serve.
func NewCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the admission webhooks and repair stuck workspaces",
		Long: `Serve the admission webhooks with TLS, and /healthz, /readyz and Prometheus metrics on separate addresses.

Only API servers get answers: requests must have a path that begins with a token of --webhook-path-file, which install writes
into the webhook configurations, or a client certificate of --client-ca-file. If both flags are set, both are required. All other
requests get 404.

The certificate is reloaded when its files change. On SIGTERM serve fails /readyz, keeps serving for --drain-period, and then
waits for requests in flight.

serve needs no administrator permissions. It writes Events as the user of "warrantgate install --user". With
--logical-cluster-kubeconfig one replica, which holds a Lease, repairs workspaces that are stuck because of their owner.

With --kubeconfig it serves the gates on machines, clusters, controller managers and Keystone policies of a Kubernetes API
server, and audits the existing machines. With audit.providers in the configuration it also audits those of providers on kcp.
Flags, or the environment variables of CloudSigma's own controllers, configure the access to CloudSigma: impersonation of the users of
clusters (at cloudSigma.api), legacy credentials (at cloudSigma.legacyAPI), or both. "warrantgate check cloudsigma" tests it. Requests
to OpenStack use the credentials of the clusters, at the Keystone URLs of the configuration.`,
		Example: `  openssl rand -hex 32 >webhook-path
  warrantgate serve --webhook-path-file=webhook-path \
    --tls-cert-file=tls.crt --tls-private-key-file=tls.key \
    --kcp-kubeconfig=warrantgate.kubeconfig
  warrantgate serve --client-ca-file=api-servers.crt \
    --client-names=kube-apiserver --tls-cert-file=tls.crt \
    --tls-private-key-file=tls.key --kubeconfig=warrantgate.kubeconfig \
    --config=config.yaml --impersonation-enabled \
    --impersonation-secret=capcs-system/cloudsigma-impersonation`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "configuration file (GateConfiguration of "+v1beta1.APIVersion+"); default: all defaults")
	flags.StringVar(&o.kcpKubeconfig, "kcp-kubeconfig", "", "kubeconfig for kcp, to write Events and read workspaces; without it Events and the repair are off")
	flags.StringVar(&o.lcKubeconfig, "logical-cluster-kubeconfig", "",
		"kubeconfig of a member of the group system:kcp:external-logical-cluster-admin, to write the owners of LogicalClusters; without it the repair is off")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig for the Kubernetes API server; without it its gates are off")
	flags.StringVar(&o.leaseNamespace, "lease-namespace", metav1.NamespaceSystem, "namespace of the Lease that the auditing replica holds")
	o.AddFlags(flags)
	flags.StringVar(&o.webhookAddress, "webhook-address", ":9443", "address of the webhooks, with TLS")
	flags.StringVar(&o.metricsAddress, "metrics-address", ":8080", "address of /metrics; 0 turns it off")
	flags.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	flags.DurationVar(&o.drainPeriod, "drain-period", 0,
		"how long it keeps serving after SIGTERM, while /readyz fails and each connection is closed after its answer; with 100s and other replicas "+
			"no admission fails, if the termination grace period is longer; not needed with one replica")
	flags.StringVar(&o.pprofAddress, "pprof-address", "", "address of /debug/pprof, or a port of 127.0.0.1; off by default")
	o.certificateFlags.addFlags(cmd)
	o.callerFlags.addFlags(flags)
	flags.StringVar(&o.logLevel, "log-level", "info", "minimum level of log messages: debug, info, warn, error")
	flags.StringVar(&o.logFormat, "log-format", "json", "format of the log: json, text")
	return cmd
}

// run serves until ctx ends or a server fails.
func (o serveOptions) run(ctx context.Context, logs io.Writer) error {
	hidden := &tokenHider{out: logs}
	logger, err := cli.NewLogger(hidden, o.logLevel, o.logFormat)
	if err != nil {
		return err
	}
	logf.SetLogger(logger)
	klog.SetLogger(logger)
	// Messages that net/http and other packages log by themselves, such as failed TLS handshakes, become structured too.
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger)))
	ctx = logf.IntoContext(ctx, logger)
	limitMemory(logger, memlimit.FromCgroup)

	config, err := config.Load(o.config)
	if err != nil {
		return err
	}
	connections, err := o.connections()
	if err != nil {
		return err
	}
	recorder, err := newEventRecorder(connections.kcp)
	if err != nil {
		return err
	}
	if _, _, err := splitAddress(o.webhookAddress); err != nil {
		return fmt.Errorf("--webhook-address: %w", err)
	}
	clients, tokens, err := o.callerFlags.load()
	if err != nil {
		return err
	}
	hidden.tokens.Store(tokens)
	certificate, err := o.certificateFlags.load()
	if err != nil {
		return err
	}
	webhookServer := webhookserver.New(o.webhookAddress, certificate.GetCertificate, clients, tokens)
	registerWorkspaceGates(webhookServer, config, recorder)
	gates, err := o.machineGates(connections, config, webhookServer, recorder, logger)
	if err != nil {
		return err
	}
	servers, err := o.servers(certificate, webhookServer, gates)
	if err != nil {
		return err
	}
	repair, err := repairController(connections, config, recorder, logger)
	if err != nil {
		return err
	}
	servers = slices.Concat(servers, callerFiles(clients, tokens), repair)
	logger.Info("starting", "version", cli.Version, "webhookAddress", o.webhookAddress,
		"ownerRewrite", config.Workspace.OwnerRewrite.Mode, "ownerIntegrity", config.Workspace.OwnerIntegrity.Mode)
	recorders := []manager.Runnable{recorder}
	if gates.recorder != nil {
		recorders = append(recorders, gates.recorder)
	}
	return runAll(webhookServer.Drain(ctx, o.drainPeriod), servers, recorders)
}

// callerFiles returns runnables that reload the files which define the clients of the webhooks. Both arguments may be nil.
func callerFiles(clients *webhookserver.Clients, tokens *webhookserver.Tokens) []manager.Runnable {
	var files []manager.Runnable
	if clients != nil {
		files = append(files, clients)
	}
	if tokens != nil {
		files = append(files, tokens)
	}
	return files
}

// servers returns all runnables except the repair.
func (o serveOptions) servers(
	certificate manager.Runnable, webhookServer webhook.Server, gates kubernetesGates,
) ([]manager.Runnable, error) {
	pprofServer, err := newPprofServer(o.pprofAddress)
	if err != nil {
		return nil, fmt.Errorf("--pprof-address: %w", err)
	}
	ready := map[string]healthz.Checker{"webhooks": webhookServer.StartedChecker()}
	if gates.objects != nil {
		ready["objects"] = gates.synced
	}
	servers := slices.Concat(gates.runnables, []manager.Runnable{certificate, webhookServer, o.healthServer(ready)})
	if o.metricsAddress != "0" {
		servers = append(servers, newPlainServer("metrics", o.metricsAddress, newMetricsHandler()))
	}
	if pprofServer != nil {
		servers = append(servers, pprofServer)
	}
	return servers, nil
}

// connections are the API servers of the kubeconfigs, nil without the flag.
type connections struct {
	kubernetes, kcp *rest.Config
	// logicalClusters writes LogicalClusters of kcp.
	logicalClusters *rest.Config
}

func (o serveOptions) connections() (c connections, err error) {
	for _, kubeconfig := range []struct {
		flag, path string
		into       **rest.Config
	}{
		{"kubeconfig", o.kubeconfig, &c.kubernetes},
		{"kcp-kubeconfig", o.kcpKubeconfig, &c.kcp},
		{"logical-cluster-kubeconfig", o.lcKubeconfig, &c.logicalClusters},
	} {
		if kubeconfig.path == "" {
			continue
		}
		if *kubeconfig.into, err = cli.LoadKubeconfig(kubeconfig.path, ""); err != nil {
			return c, fmt.Errorf("--%s: %w", kubeconfig.flag, err)
		}
	}
	return c, nil
}

// machineGates returns the gates of the API server of --kubeconfig, or none without one. It registers the gates of providers on kcp if a
// cloud is configured.
func (o serveOptions) machineGates(
	reached connections, config v1beta1.GateConfiguration, server webhook.Server, recorder webhooks.EventRecorder, logger logr.Logger,
) (gates kubernetesGates, err error) {
	owners, err := clouds.NewOwners(reached.kubernetes, config, o.Flags, logger)
	if err := errors.Join(err, owners.RequireDeny(config.Machine)); err != nil {
		return kubernetesGates{}, err
	}
	if reached.kubernetes != nil {
		if gates, err = newKubernetesGates(reached.kubernetes, config, owners, o.leaseNamespace); err != nil {
			return kubernetesGates{}, err
		}
		gates.register(server)
		reportInactive(config, owners, logger)
	}
	if reached.kubernetes == nil && config.Audit.Reports {
		return kubernetesGates{}, errors.New("audit.reports needs --kubeconfig, because reports are written on Kubernetes only, and not in workspaces of kcp: " +
			"give --kubeconfig, or remove audit.reports from the configuration")
	}
	if err := needsKCP(config, owners, reached.kcp); err != nil {
		return kubernetesGates{}, err
	}
	if owners.Gate == nil {
		return gates, nil
	}
	gates.runnables = append(gates.runnables, owners)
	if reached.kcp == nil {
		return gates, nil
	}
	audited, err := newProviderAudit(reached.kcp, config, owners, recorder)
	if err != nil {
		return kubernetesGates{}, err
	}
	if audited != nil {
		gates.runnables = append(gates.runnables, audited)
	}
	return gates, registerProviderGates(server, reached.kcp, config, owners, recorder)
}

// runAll runs until a server fails or ctx ends, and then waits until all have ended. The recorders end last, because requests that a server
// finishes at shutdown have Events too.
func runAll(ctx context.Context, servers, recorders []manager.Runnable) error {
	recorderCtx, stopRecorders := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecorders()
	var recording errgroup.Group
	for _, recorder := range recorders {
		recording.Go(func() error { return recorder.Start(recorderCtx) })
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range servers {
		group.Go(func() error { return server.Start(ctx) })
	}
	err := group.Wait()
	stopRecorders()
	return errors.Join(err, recording.Wait())
}

func newEventRecorder(reached *rest.Config) (*events.Recorder, error) {
	if reached == nil {
		return events.NewRecorder(nil), nil
	}
	writer, err := events.NewKCPWriter(reached)
	if err != nil {
		return nil, err
	}
	return events.NewRecorder(writer), nil
}

// repairController returns no controller if the repair is off.
func repairController(
	reached connections, config v1beta1.GateConfiguration, recorder owner.EventRecorder, logger logr.Logger,
) ([]manager.Runnable, error) {
	off := ""
	switch {
	case config.Repair.Mode == v1beta1.Off:
		off = "repair.mode is Off"
	case reached.kcp == nil:
		off = "--kcp-kubeconfig is not set"
	case reached.logicalClusters == nil:
		off = "--logical-cluster-kubeconfig is not set"
	}
	if off != "" {
		logger.Info("the repair of stuck workspaces is off", "reason", off)
		return nil, nil
	}
	repair, err := cli.NewRepair(reached.kcp, reached.logicalClusters, config)
	if err != nil {
		return nil, err
	}
	repair.Steps.DryRun = config.Repair.Mode == v1beta1.Warn
	root, err := kcp.ConfigFor(reached.kcp, kcp.Root)
	if err != nil {
		return nil, err
	}
	election, err := newElection(root, metav1.NamespaceDefault, owner.LeaseName)
	if err != nil {
		return nil, err
	}
	return []manager.Runnable{owner.NewController(repair, recorder, election)}, nil
}

func registerWorkspaceGates(server webhook.Server, config v1beta1.GateConfiguration, recorder webhooks.EventRecorder) {
	rewrite, integrity := config.Workspace.OwnerRewrite.Mode, config.Workspace.OwnerIntegrity.Mode
	server.Register(workspace.OwnerRewritePath,
		webhooks.Handler(workspace.NewOwnerRewrite(config.Policy()), rewrite, recorder))
	server.Register(workspace.OwnerNoticePath, webhooks.Handler(workspace.NewOwnerNotice(), rewrite, recorder))
	server.Register(workspace.DenialNoticePath, webhooks.Handler(workspace.NewDenialNotice(), integrity, recorder))
}

// healthServer answers /healthz as long as the process lives, and /readyz once the checks pass.
func (o serveOptions) healthServer(ready map[string]healthz.Checker) manager.Runnable {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{
		"/healthz": {"ping": healthz.Ping},
		"/readyz":  ready,
	} {
		// Each check has a path of its own below.
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return newPlainServer("health", o.healthAddress, mux)
}

// newPlainServer serves small requests of any client, without TLS. With net/http's limit, the header of each could take more than a MiB of memory.
func newPlainServer(name, address string, handler http.Handler) manager.Runnable {
	return &manager.Server{Name: name, Server: &http.Server{
		Addr: address, Handler: handler, ConnContext: new(webhookserver.Strangers).Accept, MaxHeaderBytes: 8 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}}
}

func splitAddress(address string) (host string, port int, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(service)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("%q is not a port", service)
	}
	return host, port, nil
}
