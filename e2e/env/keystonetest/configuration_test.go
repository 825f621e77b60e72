package keystonetest

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filesIn returns the files in a directory and their modes, by their relative paths.
func filesIn(t *testing.T, dir string) map[string]os.FileMode {
	t.Helper()
	found := map[string]os.FileMode{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found[name] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWriteFiles(t *testing.T) {
	dir := t.TempDir()
	if err := writeFiles(dir, AdminProject); err != nil {
		t.Fatal(err)
	}
	const folder, file = os.ModeDir | 0o700, os.FileMode(0o600)
	want := map[string]os.FileMode{
		"keystone.conf": file, "serve.py": file, "policy.d": folder,
		"fernet-keys": folder, "fernet-keys/0": file, "fernet-keys/1": file,
		"credential-keys": folder, "credential-keys/0": file, "credential-keys/1": file,
	}
	if diff := cmp.Diff(want, filesIn(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	conf, err := os.ReadFile(filepath.Join(dir, "keystone.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(conf), "enforce_new_defaults = false\n"+AdminProject) {
		t.Errorf("keystone.conf does not end with the extra part:\n%s", conf)
	}
	if strings.Contains(string(conf), "%") || !strings.Contains(string(conf), "sqlite:///"+dir+"/keystone.db\n") {
		t.Errorf("keystone.conf does not name the directory:\n%s", conf)
	}
}

func TestWriteKeys(t *testing.T) {
	dir := t.TempDir()
	if err := writeKeys(dir); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, name := range []string{"0", "1"} {
		key, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if decoded, err := base64.URLEncoding.DecodeString(string(key)); err != nil || len(decoded) != keyBytes {
			t.Errorf("key %s has %d bytes, error %v", name, len(decoded), err)
		}
		keys[string(key)] = true
	}
	if len(keys) != 2 {
		t.Error("the keys are the same")
	}
}

func TestWriteFilesReturnsErrors(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"policy.d", "fernet-keys"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeFiles(dir, ""); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("writeFiles() error = %v, want one that names %s", err, name)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
