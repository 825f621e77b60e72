package kcptest

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/internal/kcp"
)

// pollInterval is the interval between two checks of an object.
const pollInterval = 100 * time.Millisecond

// Server is a running kcp: one shard with embedded etcd, or the shards of a Sharded.
type Server struct {
	binary string
	args   []string
	// dir contains the data and the logs. Stop removes it unless keep is set.
	dir  string
	keep bool
	// url is the address for users: that of the shard or, if there are several, that of the front-proxy.
	url      string
	clientCA *access.CA
	// servingCA is the CA of the serving certificates of all programs, in PEM.
	servingCA         []byte
	admin, shardAdmin *clientcmdapi.AuthInfo
	adminKubeconfig   string
	// programs are all programs of kcp, in the order of their start. shards are those that are a shard, root first.
	programs, shards []*program
	shardKubeconfigs []string
	// everywhere are paths of workspaces, one on each shard.
	everywhere []string

	mu        sync.Mutex
	userCerts map[string]access.KeyPair
}

// Start runs kcp with further arguments of "kcp start", and waits until it is ready.
func Start(ctx context.Context, args ...string) (*Server, error) {
	binary, err := asset.Path(asset.KCP)
	if err != nil {
		return nil, err
	}
	s, err := newServer(binary, args...)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.stopPrograms(), s.removeDir())
	}
	return s, nil
}

// newServer prepares everything that does not depend on ports: the directory and the CA of the users.
func newServer(binary string, args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "kcptest-")
	if err != nil {
		return nil, err
	}
	clientCA, err := access.NewCA("kcptest-clients")
	if err != nil {
		return nil, err
	}
	key, err := clientCA.KeyPEM()
	if err != nil {
		return nil, err
	}
	s := &Server{binary: binary, args: args, dir: dir, keep: os.Getenv(process.KeepEnv) != "", clientCA: clientCA, userCerts: map[string]access.KeyPair{}}
	return s, errors.Join(os.WriteFile(s.clientCAFile(), clientCA.PEM(), 0o600), os.WriteFile(s.clientKeyFile(), key, 0o600))
}

func (s *Server) start(ctx context.Context) error {
	ports, err := process.FreePorts(ctx, kcpPorts)
	if err != nil {
		return err
	}
	kcp := s.newKCP("kcp", ports, s.args...)
	s.url = kcp.url
	s.programs, s.shards = []*program{kcp}, []*program{kcp}
	if err := kcp.startNew(); err != nil {
		return err
	}
	return s.enter(ctx, kcp)
}

// Restart stops a kcp of one shard gracefully and starts it again with the same data and port.
func (s *Server) Restart(ctx context.Context) error {
	kcp := s.shards[0]
	if err := kcp.stop(); err != nil {
		return err
	}
	if err := kcp.start(); err != nil {
		return err
	}
	return s.enter(ctx, kcp)
}

// enter waits until kcp is ready and reads the credentials of its administrators. They get new tokens at every start.
func (s *Server) enter(ctx context.Context, kcp *program) error {
	if err := kcp.waitReady(ctx); err != nil {
		return err
	}
	s.adminKubeconfig = filepath.Join(kcp.dir, "admin.kubeconfig") // written by kcp
	s.shardKubeconfigs, s.everywhere = []string{s.adminKubeconfig}, []string{"root"}
	raw, err := clientcmd.LoadFromFile(s.adminKubeconfig)
	if err != nil {
		return err
	}
	s.servingCA = raw.Clusters["root"].CertificateAuthorityData
	s.admin, s.shardAdmin = raw.AuthInfos["kcp-admin"], raw.AuthInfos["shard-admin"]
	return s.waitCreatable(ctx, s.Admin("root"))
}

// newProgram is a program that listens on a port of this machine.
func (s *Server) newProgram(name, binary string, port int, args ...string) *program {
	dir := filepath.Join(s.dir, name)
	return &program{
		name: name, url: "https://" + process.Loopback(port), dir: dir, logFile: dir + ".log", binary: binary,
		args: append(args, "--root-directory="+dir, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port)),
	}
}

// kcpPorts is the number of ports of a kcp with embedded etcd.
const kcpPorts = 3

func (s *Server) newKCP(name string, ports []int, args ...string) *program {
	kcp := s.newProgram(name, s.binary, ports[0], "start")
	kcp.args = append(append(append(kcp.args, etcdArgs(ports)...),
		"--external-hostname=127.0.0.1",
		"--shard-base-url="+kcp.url,
		"--client-ca-file="+s.clientCAFile(),
		// Without a key for tokens, kcp makes one of 4,096 bits, which takes a processor for seconds. Shards must have the same.
		"--service-account-key-file="+s.clientCAFile(),
		"--service-account-private-key-file="+s.clientKeyFile(),
		// The feature gate is on by default since v0.31. Without it, a service account cannot use any workspace other than its own.
		"--feature-gates=GlobalServiceAccount=true",
	), args...)
	return kcp
}

func etcdArgs(ports []int) []string {
	return []string{
		"--embedded-etcd-client-port=" + strconv.Itoa(ports[1]),
		"--embedded-etcd-peer-port=" + strconv.Itoa(ports[2]),
	}
}

func (s *Server) clientCAFile() string { return filepath.Join(s.dir, "client-ca.crt") }

func (s *Server) clientKeyFile() string { return filepath.Join(s.dir, "client-ca.key") }

// waitCreatable waits until workspaces can be created in the cluster of config. kcp is ready shortly before it observes its own
// workspace types.
func (s *Server) waitCreatable(ctx context.Context, config *rest.Config) error {
	c, err := NewClient(config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}}
		OfType("root", "universal")(ws)
		last = c.Create(ctx, ws, client.DryRunAll)
		return last == nil, s.Alive()
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait until workspaces can be created at %s: %w", config.Host, err), last)
	}
	return nil
}

// Stop ends kcp and removes its directory.
func (s *Server) Stop() error {
	return errors.Join(s.stopPrograms(), s.removeDir())
}

// stopPrograms stops the programs in the reverse order of their start.
func (s *Server) stopPrograms() error {
	var errs []error
	for _, p := range slices.Backward(s.programs) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

func (s *Server) removeDir() error {
	if s.keep {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// URL is the address of kcp, without a cluster.
func (s *Server) URL() string { return s.url }

// release matches the version of a release of kcp, of its module or at the end of the version of its server.
var release = regexp.MustCompile(`(?:^|\+kcp-)(v\d+\.\d+)\.\d+$`)

// Release is the minor version of kcp, such as "v0.32", or "main" if it was built from a commit that is no release.
func (s *Server) Release() (string, error) {
	info, err := buildinfo.ReadFile(s.binary) // a server that was built from a module does not know its version
	if err != nil {
		return "", fmt.Errorf("version of kcp: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(s.Admin("root"))
	if err != nil {
		return "", err
	}
	server, err := client.ServerVersion()
	if err != nil {
		return "", err
	}
	for _, version := range []string{info.Main.Version, server.GitVersion} {
		if match := release.FindStringSubmatch(version); match != nil {
			return match[1], nil
		}
	}
	return "main", nil
}

// AdmitsServiceAccounts returns whether kcp accepts service accounts in virtual workspaces. v0.30 rejects all of them, v0.31 fixed
// that.
func (s *Server) AdmitsServiceAccounts() (bool, error) {
	release, err := s.Release()
	return release != "v0.30", err
}

// sayWithoutPolicies prints once that specs about policies test something else.
var sayWithoutPolicies = sync.OnceFunc(func() {
	fmt.Fprintln(os.Stderr, "This kcp has no mutating admission policies, which kcp has from v0.32 on: specs about them test that the webhook rewrites owners instead.")
})

// HasMutatingPolicies returns whether kcp evaluates MutatingAdmissionPolicies: since v0.32, unless the plugin is disabled. If not, it prints
// once that the specs about them test the webhook.
func (s *Server) HasMutatingPolicies() (bool, error) {
	server, err := discovery.NewDiscoveryClientForConfig(s.Admin("root"))
	if err != nil {
		return false, err
	}
	has, err := kcp.HasMutatingPolicies(server)
	if err == nil && !has {
		sayWithoutPolicies()
	}
	return has, err
}

// Dir is the directory of the server. Stop removes it.
func (s *Server) Dir() string { return s.dir }

// LogFile is the log of kcp. If there are several shards, it is the log of the root shard.
func (s *Server) LogFile() string { return s.shards[0].logFile }

// PID is the process ID of kcp. If there are several shards, it is that of the root shard. It changes with a restart.
func (s *Server) PID() int { return s.shards[0].process.PID() }

// AdminKubeconfig is a kubeconfig of Admin with a context "root".
func (s *Server) AdminKubeconfig() string { return s.adminKubeconfig }

// ShardKubeconfigs are kubeconfigs of a user of the group system:masters with a context "system:admin", one for each shard. They
// point at the shard itself.
func (s *Server) ShardKubeconfigs() []string { return slices.Clone(s.shardKubeconfigs) }

// KeepDir keeps the directory after the end, as the environment variable KEEP does.
func (s *Server) KeepDir() { s.keep = true }

// Alive returns an error, with the end of the log, if a program of kcp has ended without a stop.
func (s *Server) Alive() error {
	for _, p := range s.programs {
		if err := p.alive(); err != nil {
			return err
		}
	}
	return nil
}
