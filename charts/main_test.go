// Package charts_test checks that the chart creates the same objects as warrantgate, and that its README is current.
package charts_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/charts/charttest"
)

// warrantgate is the path of the program, built from the current sources.
var warrantgate string

func TestMain(m *testing.M) {
	code, err := withWarrantgate(context.Background(), m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withWarrantgate(ctx context.Context, run func() int) (code int, err error) {
	dir, err := os.MkdirTemp("", "charts-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	warrantgate = filepath.Join(dir, "warrantgate")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", warrantgate, "warrantgate.dev/cmd/warrantgate").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build warrantgate: %w\n%s", err, out)
	}
	return run(), nil
}

// certificate are the values without which the chart renders nothing.
const certificate = "certificates: {secret: {name: tls, caBundle: \"-----BEGIN CERTIFICATE-----\"}}\n"

func template(t *testing.T, values string, args ...string) charttest.Rendered {
	t.Helper()
	rendered, err := charttest.Template(t.Context(), values, args...)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

// find decodes the only object of a kind. It returns false if there is none.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) (found T, exists bool) {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		if exists {
			t.Errorf("there is more than one %s", kind)
		}
		exists = true
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &found, true); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	return found, exists
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
