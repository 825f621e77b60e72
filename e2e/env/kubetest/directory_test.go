package kubetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStartReportsProblemsOfItsDirectory(t *testing.T) {
	for name, tc := range map[string]struct {
		file, folder, want string
	}{
		"it does not exist":                  {want: "make pipe"},
		"the data directory is a file":       {file: "etcd", want: "etcd: not a directory"},
		"the directory of scripts is a file": {file: "bin", want: "bin: not a directory"},
		"the log is a directory":             {folder: "kube-apiserver.log", want: "kube-apiserver.log: is a directory"},
		"a script is a directory":            {folder: filepath.Join("bin", "etcd"), want: "etcd: is a directory"},
		"the pipe of the guard exists":       {file: "guard", want: "guard: file exists"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "server")
			if tc.folder != "" || tc.file != "" {
				if err := os.MkdirAll(filepath.Join(dir, tc.folder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if tc.file != "" {
				if err := os.WriteFile(filepath.Join(dir, tc.file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Start(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Start() error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestStopRemovesTheDirectoryUnlessItIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		keep bool
	}{
		"it is removed": {keep: false},
		"it is kept":    {keep: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{options: Options{Dir: t.TempDir(), Keep: tc.keep}}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(s.Dir()); (err == nil) != tc.keep {
				t.Errorf("directory after Stop(): %v, kept = %t", err, tc.keep)
			}
		})
	}
}
