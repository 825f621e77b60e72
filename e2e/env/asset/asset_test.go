package asset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/e2e/env/asset"
)

// write creates a file and its folder.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

// printing is a program that prints a text if it is asked for its version.
func printing(text string) string {
	return "#!/bin/sh\n[ \"$1\" = --version ] && echo '" + text + "'\n"
}

// repository makes a repository with the module files of the servers the working directory, and an empty folder PATH. No environment
// variable names a program.
func repository(t *testing.T) (root, path string) {
	t.Helper()
	root, path = t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "")
	write(t, filepath.Join(root, "e2e", "servers", "kcp", "go.mod"), "require github.com/kcp-dev/kcp v0.30.0 // indirect\n")
	write(t, filepath.Join(root, "e2e", "servers", "kubernetes", "go.mod"), "require k8s.io/kubernetes v1.36.0\n\nrequire go.etcd.io/etcd/server/v3 v3.6.8\n")
	write(t, filepath.Join(root, "e2e", "servers", "prometheus", "go.mod"), "require github.com/prometheus/prometheus v0.316.0\n")
	write(t, filepath.Join(root, "e2e", "suite", "suite_test.go"), "")
	t.Chdir(filepath.Join(root, "e2e", "suite"))
	t.Setenv("PATH", path)
	for _, env := range []string{
		asset.KCP, asset.FrontProxy, asset.CacheServer, asset.KubeAPIServer, asset.Etcd, asset.Warrantgate, asset.WarrantgateBefore, asset.EffectiveUsers, asset.Prometheus,
	} {
		t.Setenv(env, "")
	}
	return root, path
}

func TestServers(t *testing.T) {
	const current, old = "kcp version v1.36.0+kcp-v0.32.3", "kcp version v1.31.0+kcp-v0.29.1"
	sharded := []string{asset.KCP, asset.FrontProxy, asset.CacheServer}
	for name, tc := range map[string]struct {
		// path and named are the versions that programs in PATH, and programs in environment variables, print.
		path, named map[string]string
		envs        []string
		// want are lines "NAME VERSION FROM".
		want    []string
		passed  string
		wantErr string
	}{
		"nothing is there": {
			envs: []string{asset.Etcd, asset.KubeAPIServer, asset.KCP},
			want: []string{"kcp v0.30.0 modules", "kube-apiserver v1.36.0 modules", "etcd v3.6.8 modules"}, passed: "no etcd in PATH",
		},
		"PATH has them": {
			path: map[string]string{"kcp": current, "kube-apiserver": "Kubernetes v1.35.1", "etcd": "etcd Version: 3.5.9\nGit SHA: 1"},
			envs: []string{asset.KCP, asset.KubeAPIServer, asset.Etcd},
			want: []string{"kcp v0.32.3 PATH", "kube-apiserver v1.35.1 PATH", "etcd v3.5.9 PATH"},
		},
		"an environment variable comes before PATH": {
			path: map[string]string{"kcp": current}, named: map[string]string{asset.KCP: "kcp version v1.33.3+kcp-v0.31.2"},
			envs: []string{asset.KCP}, want: []string{"kcp v0.31.2 " + asset.KCP},
		},
		"kcp in PATH is too old": {
			path: map[string]string{"kcp": old}, envs: []string{asset.KCP},
			want: []string{"kcp v0.30.0 modules"}, passed: "/kcp is v0.29.1, older than v0.30.0: it is not used",
		},
		"kcp in PATH does not print its version": {
			path: map[string]string{"kcp": "?"}, envs: []string{asset.KCP},
			want: []string{"kcp v0.30.0 modules"}, passed: "/kcp is of an unknown version: it is not used",
		},
		"all programs of a kcp with several shards": {
			path: map[string]string{"kcp": current, "kcp-front-proxy": current, "cache-server": current}, envs: sharded,
			want: []string{"kcp v0.32.3 PATH", "kcp-front-proxy v0.32.3 PATH", "cache-server v0.32.3 PATH"},
		},
		"PATH lacks one of them": {
			path: map[string]string{"kcp": current, "cache-server": current}, envs: sharded,
			want:   []string{"kcp v0.30.0 modules", "kcp-front-proxy v0.30.0 modules", "cache-server v0.30.0 modules"},
			passed: "/kcp in PATH is not used, because no kcp-front-proxy is there",
		},
		"PATH has them in two versions": {
			path: map[string]string{"kcp": current, "kcp-front-proxy": "v1.33.3+kcp-v0.31.0", "cache-server": current}, envs: sharded,
			want:   []string{"kcp v0.30.0 modules", "kcp-front-proxy v0.30.0 modules", "cache-server v0.30.0 modules"},
			passed: "/kcp-front-proxy is v0.31.0: neither is used",
		},
		"one is named, PATH has the others": {
			path: map[string]string{"kcp-front-proxy": current, "cache-server": current}, named: map[string]string{asset.KCP: current}, envs: sharded,
			want: []string{"kcp v0.32.3 " + asset.KCP, "kcp-front-proxy v0.32.3 PATH", "cache-server v0.32.3 PATH"},
		},
		"one is named in the version of the modules": {
			named: map[string]string{asset.KCP: "v1.33.3+kcp-v0.30.0"}, envs: []string{asset.KCP, asset.CacheServer},
			want: []string{"kcp v0.30.0 " + asset.KCP, "cache-server v0.30.0 modules"}, passed: "no cache-server in PATH",
		},
		"no other program has the version of the one that is named": {
			named: map[string]string{asset.KCP: current}, envs: sharded,
			wantErr: asset.KCP + " is kcp of v0.32.3, but there is no kcp-front-proxy of that version: name it in " + asset.FrontProxy + ", or put it in PATH",
		},
		"two versions are named": {
			named: map[string]string{asset.KCP: current, asset.CacheServer: "v1.33.3+kcp-v0.31.0"}, envs: sharded,
			wantErr: asset.KCP + " is kcp of v0.32.3, but " + asset.CacheServer + " is cache-server of v0.31.0: all programs of one kcp must have the same version",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, path := repository(t)
			for program, text := range tc.path {
				write(t, filepath.Join(path, program), printing(text))
			}
			for env, text := range tc.named {
				file := filepath.Join(root, env)
				write(t, file, printing(text))
				t.Setenv(env, file)
			}
			servers, err := asset.Servers(tc.envs...)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Fatalf("Servers() error = %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range servers {
				got = append(got, s.Name+" "+s.Version+" "+s.From)
				if s.From == asset.FromModules && s.Path != filepath.Join(root, "bin", s.Name) {
					t.Errorf("%s is built at %s", s.Name, s.Path)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Servers() (-want +got):\n%s", diff)
			}
			if last := servers[len(servers)-1].Passed; !strings.HasSuffix(last, tc.passed) || tc.passed == "" && last != "" {
				t.Errorf("the reason is %q, want %q", last, tc.passed)
			}
		})
	}
}
