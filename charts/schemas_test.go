package charts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"warrantgate.dev/charts/charttest"
)

// minors are the releases of Kubernetes with whose schemas the chart is compared. "make bin/schemas" extracts them from the modules of
// Kubernetes itself.
var minors = []string{"1.33", "1.34", "1.35", "1.36"}

// foreignKinds are kinds of other projects, cert-manager and Prometheus Operator, which have no schema in Kubernetes. Any other kind
// without a schema is an error.
const foreignKinds = "Certificate,Issuer,ServiceMonitor,PrometheusRule"

// TestTheExamplesMeetTheSchemas compares the rendered objects with the schemas of each release by kubeconform, in strict mode: a field that
// a release does not know is an error.
func TestTheExamplesMeetTheSchemas(t *testing.T) {
	for _, minor := range minors {
		t.Run(minor, func(t *testing.T) {
			schemas := jsonSchemas(t, minor)
			if out, err := conform(t.Context(), schemas, rendered(t, minor)); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			findsMistakes(t, schemas)
		})
	}
}

// findsMistakes checks that the comparison finds errors.
func findsMistakes(t *testing.T, schemas string) {
	t.Helper()
	const head = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n"
	mistakes, dir := map[string]string{
		"a field that there is not": "additional properties 'minAvailible' not allowed",
		"a field of another type":   "at '/spec/unhealthyPodEvictionPolicy': got number, want string",
		"a kind that there is not":  "could not find schema for Podd",
		"a field that is missing":   "missing property 'containers'",
	}, t.TempDir()
	for name, object := range map[string]string{
		"a field that there is not": head + "spec: {minAvailible: 1}",
		"a field of another type":   head + "spec: {unhealthyPodEvictionPolicy: 1}",
		"a kind that there is not":  "apiVersion: v1\nkind: Podd\nmetadata: {name: a}",
		"a field that is missing":   "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}",
		"a sound object":            head + "spec: {minAvailable: 50%}\n---\n" + head + "spec: {minAvailable: 1}",
	} {
		writeFile(t, filepath.Join(dir, name+".yaml"), object)
	}
	out, err := conform(t.Context(), schemas, dir)
	if err == nil {
		t.Error("there are mistakes that were not found")
	}
	if strings.Contains(out, "a sound object") {
		t.Errorf("a sound object is a mistake: %s", out)
	}
	for name, want := range mistakes {
		if !strings.Contains(out, want) {
			t.Errorf("%s: no %q in %s", name, want, out)
		}
	}
}

// rendered returns a directory with all objects that helm renders for each example, hooks and tests included.
func rendered(t *testing.T, minor string) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range examples(t) {
		objects, err := charttest.Helm(t.Context(), "", "template", charttest.Release, "warrantgate", "--namespace="+charttest.Namespace, "--set=webhookPath.tokens={"+charttest.Token+"}",
			"--kube-version="+minor+".0", "--values="+file)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, filepath.Base(file)), objects)
	}
	return dir
}

// conform compares the objects in a directory with the schemas in another.
func conform(ctx context.Context, schemas, objects string) (string, error) {
	root, err := charttest.Root()
	if err != nil {
		return "", err
	}
	kubeconform := filepath.Join(root, "bin", "kubeconform")
	if _, err := os.Stat(kubeconform); err != nil {
		return "", fmt.Errorf("no kubeconform: run `make bin/kubeconform`: %w", err)
	}
	out, err := exec.CommandContext(ctx, kubeconform, "-strict", "-skip="+foreignKinds,
		"-schema-location="+filepath.Join(schemas, "{{ .ResourceKind }}{{ .KindSuffix }}.json"), objects).CombinedOutput()
	return string(out), err
}

// openAPI has the parts of an OpenAPI 2 schema that the test reads, by name and field.
type openAPI struct {
	Definitions map[string]map[string]any `json:"definitions"`
}

// groupVersionKind is the value of x-kubernetes-group-version-kind in a definition.
type groupVersionKind struct{ Group, Version, Kind string }

// jsonSchemas writes the schemas of a release in the format of kubeconform, a file for each kind, and returns their directory.
func jsonSchemas(t *testing.T, minor string) string {
	t.Helper()
	root, err := charttest.Root()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "bin", "schemas", minor+".json"))
	if err != nil {
		t.Fatalf("no schemas: run `make bin/schemas`: %v", err)
	}
	var read openAPI
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, definition := range read.Definitions {
		for _, kind := range kindsOf(t, definition) {
			group, _, _ := strings.Cut(kind.Group, ".")
			file := strings.ToLower(strings.Join(nonEmpty(kind.Kind, group, kind.Version), "-")) + ".json"
			writeJSON(t, filepath.Join(dir, file), map[string]any{"$ref": "definitions.json#/definitions/" + name})
		}
		read.Definitions[name] = asJSONSchema(name, definition)
	}
	writeJSON(t, filepath.Join(dir, "definitions.json"), read)
	return dir
}

// asJSONSchema converts a definition to JSON schema. The result allows no unknown fields. OpenAPI 2 cannot express two of the types.
func asJSONSchema(name string, definition map[string]any) map[string]any {
	switch name {
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		return map[string]any{"type": []string{"string", "integer"}}
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		return map[string]any{"type": []string{"string", "number"}}
	}
	if _, has := definition["properties"]; has {
		definition = maps.Clone(definition)
		definition["additionalProperties"] = false
	}
	return definition
}

func kindsOf(t *testing.T, definition map[string]any) []groupVersionKind {
	t.Helper()
	raw, err := json.Marshal(definition["x-kubernetes-group-version-kind"])
	if err != nil {
		t.Fatal(err)
	}
	var kinds []groupVersionKind
	if err := json.Unmarshal(raw, &kinds); err != nil {
		t.Fatal(err)
	}
	return kinds
}

func nonEmpty(texts ...string) []string {
	var kept []string
	for _, text := range texts {
		if text != "" {
			kept = append(kept, text)
		}
	}
	return kept
}

func writeJSON(t *testing.T, path string, content any) {
	t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(raw))
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
