package kcptest

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startAttempts is how often kcp is started when another process takes one of its ports in between.
const startAttempts = 3

// Options say how to run kcp.
type Options struct {
	// Binary is the path of kcp; see Asset.
	Binary string
	// Dir is where the server keeps its data and its log. Default: a new temporary directory.
	Dir string
	// Keep leaves the directory in place at the end, for a look at the log. Default: whether KEEP is set.
	Keep bool
	// Args are further arguments for "kcp start".
	Args []string
}

// Server is a running kcp: one shard with embedded etcd.
type Server struct {
	options  Options
	url      string
	process  *process
	clientCA *authority
	raw      *clientcmdapi.Config

	mu      sync.Mutex
	persons map[string]keyPair
}

// Start runs kcp and waits until it is ready.
func Start(ctx context.Context, options Options) (*Server, error) {
	options.Keep = options.Keep || os.Getenv(KeepEnv) != ""
	if options.Dir == "" {
		dir, err := os.MkdirTemp("", "kcptest-")
		if err != nil {
			return nil, err
		}
		options.Dir = dir
	}
	clientCA, err := newAuthority("kcptest-clients")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(options.Dir, "client-ca.crt"), clientCA.pem(), 0o600); err != nil {
		return nil, err
	}
	s := &Server{options: options, clientCA: clientCA, persons: map[string]keyPair{}}
	for attempt := 1; ; attempt++ {
		err := s.start(ctx)
		if err == nil {
			return s, nil
		}
		if s.process != nil {
			err = errors.Join(err, s.process.stop())
		}
		if attempt == startAttempts || !strings.Contains(err.Error(), "address already in use") {
			return nil, errors.Join(err, s.removeDir())
		}
	}
}

func (s *Server) start(ctx context.Context) error {
	ports, err := freePorts(ctx, 3)
	if err != nil {
		return err
	}
	// What an earlier attempt left behind holds the ports of that attempt.
	root := filepath.Join(s.options.Dir, "kcp")
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	s.url = "https://" + loopback(ports[0])
	s.process, err = startProcess("kcp", s.LogFile(), s.options.Binary, append([]string{
		"start",
		"--root-directory=" + root,
		"--bind-address=127.0.0.1",
		"--external-hostname=127.0.0.1",
		"--secure-port=" + strconv.Itoa(ports[0]),
		"--shard-base-url=" + s.url,
		"--embedded-etcd-client-port=" + strconv.Itoa(ports[1]),
		"--embedded-etcd-peer-port=" + strconv.Itoa(ports[2]),
		"--client-ca-file=" + filepath.Join(s.options.Dir, "client-ca.crt"),
		// On by default from v0.31. Without it a service account cannot use a workspace outside its home at all.
		"--feature-gates=GlobalServiceAccount=true",
	}, s.options.Args...)...)
	if err != nil {
		return err
	}
	probeConfig := &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}} // before its certificate is known
	if err := s.process.waitReady(ctx, s.url+"/readyz", probeConfig); err != nil {
		return err
	}
	if s.raw, err = clientcmd.LoadFromFile(s.AdminKubeconfig()); err != nil {
		return err
	}
	return s.waitBootstrapped(ctx)
}

// waitBootstrapped waits until workspaces can be created under root. kcp is ready somewhat before it has noticed the
// workspace types that it brings along.
func (s *Server) waitBootstrapped(ctx context.Context) error {
	c, err := NewClient(s.Admin("root"))
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
		return errors.Join(fmt.Errorf("wait until workspaces can be created: %w", err), last)
	}
	return nil
}

// Stop ends kcp and removes its directory.
func (s *Server) Stop() error {
	return errors.Join(s.process.stop(), s.removeDir())
}

func (s *Server) removeDir() error {
	if s.options.Keep {
		return nil
	}
	return os.RemoveAll(s.options.Dir)
}

// URL is where kcp listens, without a cluster.
func (s *Server) URL() string { return s.url }

// ModuleVersion is the version of the kcp module that the binary was built from, such as "v0.30.0", and "(devel)" if it was
// built from a source tree.
func (s *Server) ModuleVersion() (string, error) {
	info, err := buildinfo.ReadFile(s.options.Binary)
	if err != nil {
		return "", fmt.Errorf("version of kcp: %w", err)
	}
	return info.Main.Version, nil
}

// AdmitsServiceAccounts tells whether kcp lets service accounts into virtual workspaces. v0.30 refuses all of them, which
// v0.31 mended.
func (s *Server) AdmitsServiceAccounts() (bool, error) {
	version, err := s.ModuleVersion()
	return !strings.HasPrefix(version, "v0.30."), err
}

// Dir is the server's directory. Its content goes with it.
func (s *Server) Dir() string { return s.options.Dir }

// LogFile is the log of kcp.
func (s *Server) LogFile() string { return filepath.Join(s.options.Dir, "kcp.log") }

// AdminKubeconfig is the kubeconfig that kcp wrote itself, with contexts such as "root" and "system:admin".
func (s *Server) AdminKubeconfig() string {
	return filepath.Join(s.options.Dir, "kcp", "admin.kubeconfig")
}

// KeepDir leaves the directory in place at the end, as Options.Keep does.
func (s *Server) KeepDir() { s.options.Keep = true }

// Alive returns an error, with the end of the log, if kcp has ended.
func (s *Server) Alive() error {
	select {
	case <-s.process.ended:
		return fmt.Errorf("kcp ended: %w\n%s", s.process.exitError(), s.process.logTail())
	default:
		return nil
	}
}
