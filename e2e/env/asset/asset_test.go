package asset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"warrantgate.dev/e2e/env/asset"
)

// write creates a file and its folder.
func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPath(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "elsewhere")
	write(t, elsewhere)
	repository := filepath.Join(dir, "repository")
	write(t, filepath.Join(repository, "go.mod"))
	all := map[string]struct{ name, target string }{
		asset.KCP:               {name: "kcp", target: "servers"},
		asset.FrontProxy:        {name: "kcp-front-proxy", target: "servers"},
		asset.CacheServer:       {name: "cache-server", target: "servers"},
		asset.KubeAPIServer:     {name: "kube-apiserver", target: "servers"},
		asset.Etcd:              {name: "etcd", target: "servers"},
		asset.Warrantgate:       {name: "warrantgate", target: "build"},
		asset.WarrantgateBefore: {name: "before/bin/warrantgate", target: "before"},
		asset.EffectiveUsers:    {name: "kcp-effective-users", target: "servers"},
	}
	folder := filepath.Join(repository, "e2e", "suite")
	write(t, filepath.Join(folder, "suite_test.go"))
	t.Chdir(folder)

	for env, tc := range all {
		t.Run(env, func(t *testing.T) {
			t.Setenv(env, "")
			if _, err := asset.Path(env); err == nil || !strings.Contains(err.Error(), "run `make "+tc.target+"`, or name another one in "+env) {
				t.Errorf("Path() of a binary that is not built: error = %v", err)
			}
			built := filepath.Join(repository, "bin", tc.name)
			write(t, built)
			if got, err := asset.Path(env); err != nil || got != built {
				t.Errorf("Path() = %q, %v, want %q", got, err, built)
			}
			t.Setenv(env, filepath.Join("..", "..", "..", "elsewhere"))
			if got, err := asset.Path(env); err != nil || got != elsewhere {
				t.Errorf("Path() = %q, %v, want %q", got, err, elsewhere)
			}
			t.Setenv(env, dir)
			if _, err := asset.Path(env); err == nil {
				t.Error("Path() accepted a directory")
			}
		})
	}
}

func TestPathReportsWhatIsMissing(t *testing.T) {
	if _, err := asset.Path("TEST_ASSET_KUBECTL"); err == nil || !strings.Contains(err.Error(), `"TEST_ASSET_KUBECTL"`) {
		t.Errorf("Path() of an unknown binary: error = %v", err)
	}
	t.Chdir(t.TempDir())
	t.Setenv(asset.KCP, "")
	if _, err := asset.Path(asset.KCP); err == nil || !strings.Contains(err.Error(), asset.KCP+" is not set: no go.mod") {
		t.Errorf("Path() outside a repository: error = %v", err)
	}
}
