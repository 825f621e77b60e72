// Package asset finds the programs that the end-to-end suites, the demo and the benchmarks run.
package asset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"warrantgate.dev/charts/charttest"
)

// Environment variables with the paths of binaries. An empty variable means the server in PATH, or else the binary in the folder bin of the
// repository.
const (
	// KCP is the kcp to run, as in kcp's own test framework.
	KCP = "TEST_ASSET_KCP"
	// FrontProxy is the kcp-front-proxy to run, for a kcp with several shards.
	FrontProxy = "TEST_ASSET_KCP_FRONT_PROXY"
	// CacheServer is the cache-server to run, for a kcp with several shards.
	CacheServer = "TEST_ASSET_CACHE_SERVER"
	// KubeAPIServer is the kube-apiserver to run, as in controller-runtime's envtest.
	KubeAPIServer = "TEST_ASSET_KUBE_APISERVER"
	// Etcd is the etcd to run, as in controller-runtime's envtest.
	Etcd = "TEST_ASSET_ETCD"
	// Prometheus is the Prometheus to run.
	Prometheus = "TEST_ASSET_PROMETHEUS"
	// Warrantgate is the warrantgate to run.
	Warrantgate = "TEST_ASSET_WARRANTGATE"
	// WarrantgateBefore is the earlier warrantgate that an upgrade starts from. It is in the folder bin of its own source tree,
	// which also contains its chart.
	WarrantgateBefore = "TEST_ASSET_WARRANTGATE_BEFORE"
	// EffectiveUsers is the program that evaluates kcp's own scope rules (e2e/servers/kcp/kcp-effective-users).
	EffectiveUsers = "TEST_ASSET_EFFECTIVE_USERS"
)

// built returns the target of make that builds a program of this repository, and the name of the program in the folder bin.
func built(env string) (target, name string, err error) {
	switch env {
	case Warrantgate:
		return "build", "warrantgate", nil
	case WarrantgateBefore:
		return "before", "before/bin/warrantgate", nil
	default:
		return "", "", fmt.Errorf("no binary belongs to %q: use a constant of package asset", env)
	}
}

// Path returns the path of a binary: the value of the environment variable or, if it is empty, the server in PATH (see Servers) or the
// binary in the repository's folder bin. It returns an error if the file does not exist.
func Path(env string) (string, error) {
	paths, err := Paths(env)
	if err != nil {
		return "", err
	}
	return paths[0], nil
}

// Paths returns the paths of several binaries. The programs of one kcp have the same version.
func Paths(envs ...string) ([]string, error) {
	servers, err := Servers(envs...)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, env := range envs {
		path, target := "", "servers"
		if i := slices.IndexFunc(servers, func(s Server) bool { return s.Env == env }); i >= 0 {
			path = servers[i].Path
		} else if path, target, err = own(env); err != nil {
			return nil, err
		}
		if path, err = existing(path); err != nil {
			return nil, fmt.Errorf("%w: run `make %s`, or name another one in %s", err, target, env)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// own returns the path of a program of this repository, and the target of make that builds it.
func own(env string) (path, target string, err error) {
	target, name, err := built(env)
	if err != nil {
		return "", "", err
	}
	if path = os.Getenv(env); path != "" {
		return path, target, nil
	}
	root, err := charttest.Root()
	if err != nil {
		return "", "", fmt.Errorf("%s is not set: %w", env, err)
	}
	return filepath.Join(root, "bin", name), target, nil
}

// Default sets an empty path to the path of a binary.
func Default(env string, path *string) (err error) {
	if *path == "" {
		*path, err = Path(env)
	}
	return err
}
