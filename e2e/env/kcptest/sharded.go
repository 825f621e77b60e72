package kcptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/process"
)

// The names of the shards.
const (
	// RootShard contains the workspace root.
	RootShard = "root"
	// SecondShard contains the workspaces that OnShard puts there.
	SecondShard = "shard-1"
)

// touchInterval is the time after which a workspace of a shard that was started again is changed. kcp tries to initialize it with growing delays, of
// up to 1000 seconds, while the front-proxy has not observed the shard, and at once after a change.
const touchInterval = 15 * time.Second

// Sharded is a running kcp of two shards, a front-proxy and a cache server.
//
// Its Server connects to the front-proxy, as users do. The front-proxy forwards each request to the shard of the workspace.
// ShardAdmin connects to one shard and can do what the front-proxy rejects.
type Sharded struct {
	*Server
	// frontProxyBinary and cacheServerBinary are the paths of the programs.
	frontProxyBinary, cacheServerBinary string
}

// StartSharded runs kcp and waits until workspaces can be created on every shard. It leaves a workspace of an administrator on each
// shard, such as root:on-shard-1.
func StartSharded(ctx context.Context) (*Sharded, error) {
	paths, err := asset.Paths(asset.KCP, asset.FrontProxy, asset.CacheServer)
	if err != nil {
		return nil, err
	}
	server, err := newServer(paths[0])
	if err != nil {
		return nil, err
	}
	s := &Sharded{Server: server, frontProxyBinary: paths[1], cacheServerBinary: paths[2]}
	if err := s.writeCertificates(); err != nil {
		return nil, errors.Join(err, s.removeDir())
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.stopPrograms(), s.removeDir())
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
	// The shards start one after the other. A shard that does not find the objects that it needs of root tries again with a delay of
	// up to half a minute, so that a start of all at the same time takes longer.
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
	cache := s.newProgram("cache-server", s.cacheServerBinary, ports[0])
	cache.args = append(append(cache.args, s.servingArgs()...), etcdArgs(ports)...)
	// Later releases authenticate requests. v0.30 does not, and has no such flag.
	help, err := exec.CommandContext(ctx, s.cacheServerBinary, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("flags of the cache server: %w", err)
	}
	if bytes.Contains(help, []byte("--client-ca-file")) {
		cache.args = append(cache.args, "--client-ca-file="+s.clientCAFile())
	}
	return cache, nil
}

func (s *Sharded) newFrontProxy(port int) *program {
	frontProxy := s.newProgram("front-proxy", s.frontProxyBinary, port)
	frontProxy.args = append(append(frontProxy.args, s.servingArgs()...),
		"--mapping-file="+s.file("mapping.yaml"),
		"--client-ca-file="+s.clientCAFile(),
		"--root-kubeconfig="+s.file("root.kubeconfig"),
		// The front-proxy takes only the user from this kubeconfig. It reads the shards in root.
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
		// The shard trusts the user that the front-proxy names.
		"--requestheader-client-ca-file="+s.file("requestheader-ca.crt"),
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		// Every shard accepts the token of a service account, and none can look up those of another.
		"--service-account-lookup=false",
	)...)
}

// servingArgs are for every program. All share one certificate, because they run on one machine.
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

// ShardAdmin is a user of the group system:masters on one shard, which only knows its own clusters. The cluster can also be
// "system:admin" or, for all clusters of the shard, "*". The latter works for kcp's own kinds such as LogicalClusters. Workspaces
// are bound, so a request for them needs the identity of their APIExport.
func (s *Sharded) ShardAdmin(shard, cluster string) *rest.Config {
	return s.adminAt(s.shard(shard), cluster)
}

// ShardOf is the name of the shard that contains a logical cluster, by the cluster's name.
func (s *Sharded) ShardOf(ctx context.Context, clusterName string) (string, error) {
	shard, _, err := s.shardOf(ctx, clusterName)
	if err != nil {
		return "", err
	}
	return shard.name, nil
}

// KillShard kills one shard, as a crash does. A graceful stop takes a minute: kcp stops its etcd and then waits until the watches of
// the other shards end.
func (s *Sharded) KillShard(shard string) { s.shard(shard).kill() }

// StartShard starts a killed shard again with its data, and waits until a workspace becomes Ready there. It does nothing to a shard
// that runs.
//
// This takes up to about a minute, because the front-proxy calls a shard that is down with growing delays. Objects that wait for the
// shard can take longer, for the same reason.
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
	// With the parent and the child on this shard, the state of the other shards does not matter.
	admin := s.Admin("root:" + settlement(p))
	if err := s.waitCreatable(ctx, admin); err != nil {
		return err
	}
	ws, err := CreateWorkspace(ctx, admin, "probe-"+rand.String(6), OnShard(shard))
	if err != nil {
		return err
	}
	c, err := NewClient(admin)
	if err != nil {
		return err
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, touchInterval)
		_, err := WaitReady(attempt, admin, ws.Name)
		cancel()
		if err == nil {
			return c.Delete(ctx, ws)
		}
		touch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"annotations": {"touched": %q}}}`, rand.String(6)))
		if ctx.Err() != nil || c.Patch(ctx, ws, touch) != nil {
			return err
		}
	}
}

// SuspendCacheServer suspends the cache server, so that no shard observes new objects of another, until the caller calls the
// returned function.
func (s *Sharded) SuspendCacheServer() (resume func()) {
	cache := s.programs[0].process
	_ = cache.Signal(syscall.SIGSTOP) // fails only if it has ended, which Alive reports
	return func() { _ = cache.Signal(syscall.SIGCONT) }
}

func (s *Sharded) shard(name string) *program {
	i := slices.IndexFunc(s.shards, func(p *program) bool { return p.name == name })
	if i < 0 {
		panic(fmt.Sprintf("no shard is named %q", name))
	}
	return s.shards[i]
}

// shardOf finds the shard that contains a logical cluster. Each shard only knows its own.
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

// settle waits until workspaces can be created on every shard and in the new workspaces there. It leaves a workspace of an
// administrator on each shard.
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
