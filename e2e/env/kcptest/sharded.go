package kcptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/process"
)

// The shards of a Sharded.
const (
	// RootShard has the workspace root.
	RootShard = "root"
	// SecondShard has what is put there, see OnShard.
	SecondShard = "shard-1"
)

// ShardedOptions say how to run a kcp of several shards.
type ShardedOptions struct {
	// KCP, FrontProxy and CacheServer are the paths of the binaries; see package asset.
	KCP, FrontProxy, CacheServer string
	// Dir is where the programs keep their data and their logs. Default: a new temporary directory.
	Dir string
	// Keep leaves the directory in place at the end, for a look at the logs. Default: whether KEEP is set.
	Keep bool
}

// Sharded is a running kcp of two shards, a front-proxy and a cache server.
//
// Its Server is kcp as persons see it: they come in at the front-proxy, which knows on which shard a workspace is. What
// the front-proxy lets nobody do, ShardAdmin does on one shard.
type Sharded struct {
	*Server
	setup ShardedOptions
}

// StartSharded runs kcp and waits until workspaces can be created on every shard. It leaves one of an administrator on each,
// such as root:on-shard-1.
func StartSharded(ctx context.Context, options ShardedOptions) (*Sharded, error) {
	server, err := newServer(Options{Binary: options.KCP, Dir: options.Dir, Keep: options.Keep})
	if err != nil {
		return nil, err
	}
	s := &Sharded{Server: server, setup: options}
	if err := s.writeCertificates(); err != nil {
		return nil, errors.Join(err, s.removeDir())
	}
	if err := s.launch(ctx, s.start); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Sharded) start(ctx context.Context) error {
	ports, err := process.FreePorts(ctx, 3*kcpPorts+1)
	if err != nil {
		return err
	}
	cache, err := s.newCacheServer(ctx, ports[:kcpPorts])
	if err != nil {
		return err
	}
	frontProxy := s.newFrontProxy(ports[3*kcpPorts])
	root := s.newShard(RootShard, frontProxy, ports[kcpPorts:2*kcpPorts])
	second := s.newShard(SecondShard, frontProxy, ports[2*kcpPorts:3*kcpPorts], "--root-shard-kubeconfig-file="+s.file("root.kubeconfig"))
	s.url = frontProxy.url
	s.programs, s.shards = []*program{cache, root, second, frontProxy}, []*program{root, second}
	if err := s.writeMapping(root); err != nil {
		return err
	}
	if err := s.writeKubeconfigs(cache); err != nil {
		return err
	}
	// One after the other: a shard that does not find yet what it needs of root asks again at intervals that grow to half a
	// minute, so that all at once are ready no sooner.
	for _, p := range s.programs {
		if err := p.startNew(); err != nil {
			return err
		}
		if err := p.waitReady(ctx); err != nil {
			return err
		}
	}
	return s.settle(ctx)
}

func (s *Sharded) newCacheServer(ctx context.Context, ports []int) (*program, error) {
	cache := s.newProgram("cache-server", s.setup.CacheServer, ports[0])
	cache.args = append(append(cache.args, s.servingArgs()...), etcdArgs(ports)...)
	// Later releases want to know who asks; v0.30 asks nobody, and has no such flag.
	help, err := exec.CommandContext(ctx, s.setup.CacheServer, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("flags of the cache server: %w", err)
	}
	if bytes.Contains(help, []byte("--client-ca-file")) {
		cache.args = append(cache.args, "--client-ca-file="+s.clientCAFile())
	}
	return cache, nil
}

func (s *Sharded) newFrontProxy(port int) *program {
	frontProxy := s.newProgram("front-proxy", s.setup.FrontProxy, port)
	frontProxy.args = append(append(frontProxy.args, s.servingArgs()...),
		"--mapping-file="+s.file("mapping.yaml"),
		"--client-ca-file="+s.clientCAFile(),
		"--root-kubeconfig="+s.file("root.kubeconfig"),
		// It takes the user from here only: it finds the shards in root.
		"--shards-kubeconfig="+s.file("root.kubeconfig"),
	)
	return frontProxy
}

func (s *Sharded) newShard(name string, frontProxy *program, ports []int, args ...string) *program {
	return s.newKCP(name, ports, append(append(args, s.servingArgs()...),
		"--shard-name="+name,
		"--shard-external-url="+frontProxy.url,
		"--cache-kubeconfig="+s.file("cache.kubeconfig"),
		"--logical-cluster-admin-kubeconfig="+s.file("logical-cluster-admin.kubeconfig"),
		"--external-logical-cluster-admin-kubeconfig="+s.file("external-logical-cluster-admin.kubeconfig"),
		// Whom the front-proxy names is believed.
		"--requestheader-client-ca-file="+s.file("requestheader-ca.crt"),
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		// A service account is known on every shard. None can look up those of another.
		"--service-account-key-file="+s.file("service-account.crt"),
		"--service-account-private-key-file="+s.file("service-account.key"),
		"--service-account-lookup=false",
	)...)
}

// servingArgs are for every program: they have one certificate, as they are on one machine.
func (s *Sharded) servingArgs() []string {
	return []string{"--tls-cert-file=" + s.file("serving.crt"), "--tls-private-key-file=" + s.file("serving.key")}
}

// Shards are the names of all shards, root first.
func (s *Sharded) Shards() []string {
	names := make([]string, 0, len(s.shards))
	for _, shard := range s.shards {
		names = append(names, shard.name)
	}
	return names
}

// ShardAdmin is of group system:masters, on one shard, which knows its own clusters only. The cluster may be "system:admin" as
// well or, for all that are there, "*": that is for kcp's own kinds such as LogicalClusters; Workspaces, which are bound, take
// the identity of their APIExport.
func (s *Sharded) ShardAdmin(shard, cluster string) *rest.Config {
	return s.adminAt(s.shard(shard), cluster)
}

// ShardLogFile is the log of one shard.
func (s *Sharded) ShardLogFile(shard string) string { return s.shard(shard).logFile }

// ShardOf is the name of the shard that has a logical cluster, which is given by its name.
func (s *Sharded) ShardOf(ctx context.Context, clusterName string) (string, error) {
	shard, _, err := s.shardOf(ctx, clusterName)
	if err != nil {
		return "", err
	}
	return shard.name, nil
}

// KillShard takes one shard down, as a crash would. In order it takes a minute: kcp ends its etcd, and then waits for the
// watches of the others to end.
func (s *Sharded) KillShard(shard string) { s.shard(shard).kill() }

// StartShard brings a shard up again, as it was when it was killed, and waits until a workspace becomes Ready there. It may be
// called for a shard that runs.
//
// That takes up to a minute or so, as the front-proxy asks a shard that is down less and less often. It may take longer for
// what waits for the shard meanwhile, for the same reason.
func (s *Sharded) StartShard(ctx context.Context, shard string) error {
	p := s.shard(shard)
	if p.process != nil {
		return p.alive()
	}
	if err := p.start(); err != nil {
		return err
	}
	if err := p.waitReady(ctx); err != nil {
		return err
	}
	// With parent and child on this shard, whether the others run does not matter.
	admin := s.Admin("root:" + settlement(p))
	if err := s.waitCreatable(ctx, admin); err != nil {
		return err
	}
	ws, err := CreateWorkspace(ctx, admin, "probe-"+rand.String(6), OnShard(shard))
	if err != nil {
		return err
	}
	if _, err := WaitReady(ctx, admin, ws.Name); err != nil {
		return err
	}
	c, err := NewClient(admin)
	if err != nil {
		return err
	}
	return c.Delete(ctx, ws)
}

// SuspendCacheServer keeps the cache server from answering anybody, so that no shard learns of what is new on another, until
// the function that it returns is called.
func (s *Sharded) SuspendCacheServer() (resume func()) {
	cache := s.programs[0].process
	_ = cache.Signal(syscall.SIGSTOP) // fails only if it has ended, which Alive tells
	return func() { _ = cache.Signal(syscall.SIGCONT) }
}

func (s *Sharded) shard(name string) *program {
	i := slices.IndexFunc(s.shards, func(p *program) bool { return p.name == name })
	if i < 0 {
		panic(fmt.Sprintf("no shard is named %q", name))
	}
	return s.shards[i]
}

// shardOf finds the shard that has a logical cluster. Each knows its own only.
func (s *Server) shardOf(ctx context.Context, clusterName string) (*program, *corev1alpha1.LogicalCluster, error) {
	var errs []error
	for _, shard := range s.shards {
		lc, err := GetLogicalCluster(ctx, s.adminAt(shard, clusterName))
		if err == nil {
			return shard, lc, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

// settle waits until workspaces can be created on every shard and, once more, in what was created there. It leaves a workspace
// of an administrator on each.
func (s *Sharded) settle(ctx context.Context) error {
	root := s.Admin("root")
	if err := s.waitCreatable(ctx, root); err != nil {
		return err
	}
	s.everywhere = nil
	for _, shard := range s.shards {
		if _, err := CreateWorkspace(ctx, root, settlement(shard), OnShard(shard.name)); err != nil {
			return err
		}
		s.everywhere = append(s.everywhere, "root:"+settlement(shard))
	}
	for _, shard := range s.shards {
		if _, err := WaitReady(ctx, root, settlement(shard)); err != nil {
			return err
		}
		if err := s.waitCreatable(ctx, s.Admin("root:"+settlement(shard))); err != nil {
			return err
		}
	}
	return nil
}

// settlement is the name of the workspace that settle leaves on a shard.
func settlement(shard *program) string { return "on-" + shard.name }
