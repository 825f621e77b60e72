// Package charttest renders the chart, as helm does, for the tests of the chart and the end-to-end suite.
package charttest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	// HelmEnv is the environment variable with the path of helm. Default: the one in the repository's bin.
	HelmEnv = "TEST_ASSET_HELM"
	// Release is the name of the release that the chart is rendered for.
	Release = "warrantgate"
	// Namespace is the namespace of the release.
	Namespace = "warrantgate-system"
	// KubeVersion is the version of Kubernetes for which the chart is rendered without a cluster. A helm that was built without the version of
	// its release assumes one that the chart does not support.
	KubeVersion = "1.36.0"
	// hookAnnotation marks objects that are only created at certain times, and names these times.
	hookAnnotation = "helm.sh/hook"
)

// Root returns the repository's directory: the nearest parent of the working directory with a go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in the working directory or above it")
		}
		dir = parent
	}
}

// Chart returns the chart's directory.
func Chart() (string, error) {
	root, err := Root()
	return filepath.Join(root, "charts", "warrantgate"), err
}

// Helm runs helm with values on its standard input, and returns its standard output. The error contains its standard error.
func Helm(ctx context.Context, values string, args ...string) (string, error) {
	path := os.Getenv(HelmEnv)
	if path == "" {
		root, err := Root()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, "bin", "helm")
	}
	if _, err := os.Stat(path); err != nil { //nolint:gosec // the environment of the tests names the binary
		return "", fmt.Errorf("no helm at %s: run `make bin/helm`, or name another one in %s", path, HelmEnv)
	}
	home, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	command := exec.CommandContext(ctx, path, args...) //nolint:gosec // the environment of the tests names the binary
	// Its own home directory, with its discovery cache.
	command.Env = append(os.Environ(), "HOME="+home, "KUBECACHEDIR="+home)
	command.Stdin = strings.NewReader(values)
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s%s", args[0], err, errOut.String(), out.String())
	}
	return out.String(), nil
}

// Rendered is the result of rendering the chart with values.
type Rendered struct {
	// Objects are the objects of a release. Hooks are only created at certain times. Tests are the hooks that helm test creates.
	Objects, Hooks, Tests []*unstructured.Unstructured
}

// Token is the token in the webhook paths that Template renders: without a cluster the chart generates none.
const Token = "0123456789abcdef0123456789abcdef"

// Template renders the chart with values, in YAML, and the Token. Further arguments may be given, such as --values=FILE.
func Template(ctx context.Context, values string, args ...string) (Rendered, error) {
	chart, err := Chart()
	if err != nil {
		return Rendered{}, err
	}
	return TemplateOf(ctx, chart, values, append([]string{"--set=webhookPath.tokens={" + Token + "}"}, args...)...)
}

// TemplateOf is Template for the chart in a directory, such as that of an earlier release.
func TemplateOf(ctx context.Context, chart, values string, args ...string) (Rendered, error) {
	printed, err := Helm(ctx, values, append([]string{
		"template", Release, chart, "--namespace=" + Namespace, "--kube-version=" + KubeVersion, "--values=-",
	}, args...)...)
	if err != nil {
		return Rendered{}, err
	}
	objects, err := Decode(printed)
	if err != nil {
		return Rendered{}, err
	}
	var rendered Rendered
	for _, object := range objects {
		switch object.GetAnnotations()[hookAnnotation] {
		case "":
			rendered.Objects = append(rendered.Objects, object)
		case "test":
			rendered.Tests = append(rendered.Tests, object)
		default:
			rendered.Hooks = append(rendered.Hooks, object)
		}
	}
	return rendered, nil
}

// Decode returns the objects of a YAML file. A repeated key is an error.
func Decode(file string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(file)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Find returns the only object of a kind. It returns an error if there is none or more than one.
func Find(objects []*unstructured.Unstructured, kind string) (*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d objects of kind %s, want 1", len(found), kind)
	}
	return found[0], nil
}
