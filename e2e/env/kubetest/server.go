package kubetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/process"
)

// patience limits one step of a start, if the context has no deadline or a later one.
const patience = time.Minute

// Server is a running kube-apiserver with its etcd. Authorization is by RBAC. The admission plugin ServiceAccount is disabled, so
// that Pods need no service account.
type Server struct {
	// kubeAPIServer and etcd are the paths of the binaries, args the further arguments of kube-apiserver.
	kubeAPIServer, etcd string
	args                []string
	// dir contains the data and the logs. Stop removes it, unless the environment variable KEEP is set.
	dir         string
	environment *envtest.Environment
	guard       *guard
	logs        []*os.File
	admin       *rest.Config
	// client is that of the administrator. direct is one that does not wait for the watch cache.
	client, direct  client.Client
	adminKubeconfig string

	mu sync.Mutex
}

// Start runs etcd and kube-apiserver, with further arguments as --name=value, and waits until the API server is healthy and serves all kinds.
// The end of ctx ends a start, but not a server that has started.
func Start(ctx context.Context, args ...string) (*Server, error) {
	paths, err := asset.Paths(asset.KubeAPIServer, asset.Etcd)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kubetest-")
	if err != nil {
		return nil, err
	}
	s := &Server{kubeAPIServer: paths[0], etcd: paths[1], args: args, dir: dir}
	if err := s.start(ctx); err != nil {
		err = fmt.Errorf("start kube-apiserver: %w\n%s\n%s", err, process.LogTail(s.LogFile()), process.LogTail(s.file("etcd.log")))
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) (err error) {
	if s.guard, err = newGuard(s.dir); err != nil {
		return err
	}
	if s.environment, err = s.newEnvironment(ctx); err != nil {
		return err
	}
	// envtest has no contexts. It returns when its servers have ended.
	stopWatching := context.AfterFunc(ctx, func() { _ = s.guard.close() })
	_, err = s.environment.Start()
	if !stopWatching() {
		return errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return err
	}
	if s.admin, err = s.User("kubetest-admin", "system:masters"); err != nil {
		return err
	}
	if s.direct, err = client.New(s.admin, client.Options{}); err != nil {
		return err
	}
	if s.client, err = s.NewClient(s.admin); err != nil {
		return err
	}
	if s.adminKubeconfig, err = s.KubeconfigFile("admin", s.admin); err != nil {
		return err
	}
	crds, err := CRDs()
	if err != nil {
		return err
	}
	return s.ApplyCRDs(ctx, crds...)
}

// newEnvironment sets every option of envtest, so that no environment variable has an effect.
func (s *Server) newEnvironment(ctx context.Context) (*envtest.Environment, error) {
	ports, err := process.FreePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	apiServer, err := s.newAPIServer(ports[0])
	if err != nil {
		return nil, err
	}
	etcd, err := s.newEtcd(ports[1])
	if err != nil {
		return nil, err
	}
	return &envtest.Environment{
		ControlPlane:             envtest.ControlPlane{APIServer: apiServer, Etcd: etcd},
		UseExistingCluster:       ptr.To(false),
		ControlPlaneStartTimeout: remaining(ctx),
	}, nil
}

func (s *Server) newAPIServer(port int) (*envtest.APIServer, error) {
	path, log, err := s.prepare("kube-apiserver", s.kubeAPIServer)
	if err != nil {
		return nil, err
	}
	apiServer := &envtest.APIServer{Path: path, CertDir: s.file("kube-apiserver"), Out: log, Err: log}
	apiServer.ListenAddr = envtest.ListenAddr{Address: "127.0.0.1", Port: strconv.Itoa(port)}
	args := apiServer.Configure().
		// Without this flag, it uses the address of an interface of this machine, and does not start if there is none.
		Set("advertise-address", "127.0.0.1").
		// No client looks for the API server in the Endpoints of its Service, which cannot contain a loopback address.
		Set("endpoint-reconciler-type", "none")
	for _, arg := range s.args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		args.Append(name, value)
	}
	return apiServer, nil
}

func (s *Server) newEtcd(port int) (*envtest.Etcd, error) {
	path, log, err := s.prepare("etcd", s.etcd)
	if err != nil {
		return nil, err
	}
	address := &url.URL{Scheme: "http", Host: process.Loopback(port)}
	return &envtest.Etcd{Path: path, DataDir: s.file("etcd"), URL: address, Out: log, Err: log}, nil
}

// prepare creates the directory for the data of a server and opens its log. The returned path is that of a script that runs the
// server under the guard.
func (s *Server) prepare(name, binary string) (path string, log *os.File, err error) {
	for _, dir := range []string{s.file("bin"), s.file(name)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", nil, err
		}
	}
	if log, err = os.OpenFile(s.file(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return "", nil, err
	}
	s.logs = append(s.logs, log)
	path = filepath.Join(s.file("bin"), name)
	return path, log, s.guard.watch(path, binary)
}

// Stop ends kube-apiserver and etcd, if they run, and removes their directory.
func (s *Server) Stop() error {
	var errs []error
	if s.environment != nil {
		errs = append(errs, s.environment.Stop())
	}
	if s.guard != nil {
		errs = append(errs, s.guard.close())
	}
	for _, log := range s.logs {
		errs = append(errs, log.Close())
	}
	if os.Getenv(process.KeepEnv) == "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// Dir is the directory of the server. Stop removes it.
func (s *Server) Dir() string { return s.dir }

// LogFile is the log of kube-apiserver.
func (s *Server) LogFile() string { return s.file("kube-apiserver.log") }

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// remaining returns the time until the deadline of ctx, for libraries that take a timeout instead of a context.
func remaining(ctx context.Context) time.Duration {
	if deadline, limited := ctx.Deadline(); limited {
		return min(patience, time.Until(deadline))
	}
	return patience
}
