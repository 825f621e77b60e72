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
	// HelmEnv names the helm to run. Default: the one in the repository's bin.
	HelmEnv = "TEST_ASSET_HELM"
	// Release is the name of the release that the chart is rendered for.
	Release = "warrantgate"
	// Namespace is that of the release.
	Namespace = "warrantgate-system"
	// KubeVersion is what the chart is rendered for where no cluster is asked. A helm that was built without the version of
	// its release takes one for given that the chart does not run on.
	KubeVersion = "1.36.0"
	// hookAnnotation marks what is made at certain times only, and when that is.
	hookAnnotation = "helm.sh/hook"
)

// Root returns the repository's directory: that of go.mod from the working directory upwards.
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

// Helm runs helm with values on its standard input, and returns what it printed. The error says what it printed besides.
func Helm(ctx context.Context, values string, args ...string) (string, error) {
	path := os.Getenv(HelmEnv)
	if path == "" {
		root, err := Root()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, "bin", "helm")
	}
	if _, err := os.Stat(path); err != nil { //nolint:gosec // whoever runs the tests names the helm
		return "", fmt.Errorf("no helm at %s: run `make bin/helm`, or name another one in %s", path, HelmEnv)
	}
	home, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	command := exec.CommandContext(ctx, path, args...) //nolint:gosec // whoever runs the tests names the helm
	// A home of its own, where it keeps what it has learned of servers.
	command.Env = append(os.Environ(), "HOME="+home, "KUBECACHEDIR="+home)
	command.Stdin = strings.NewReader(values)
	var out, errOut bytes.Buffer
	command.Stdout, command.Stderr = &out, &errOut
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s%s", args[0], err, errOut.String(), out.String())
	}
	return out.String(), nil
}

// Rendered is what the chart makes of values.
type Rendered struct {
	// Objects are those of a release, Hooks those that are made at certain times only, but for Tests, which are made by helm test.
	Objects, Hooks, Tests []*unstructured.Unstructured
}

// Token is what Template has the paths of webhooks begin with: without a cluster the chart makes up none.
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

// Decode returns the objects of a file in YAML. A key that stands there twice is an error.
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

// Find returns the only object of a kind, and an error where there is none or more than one.
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
