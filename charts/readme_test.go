package charts_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	yamlv3 "go.yaml.in/yaml/v3"
)

// update writes the chart's README: go test ./charts -run Readme -update.
var update = flag.Bool("update", false, "write the generated part of the chart's README")

const (
	readmeFile = "warrantgate/README.md"
	// readmeMark is the last line of the handwritten text.
	readmeMark = "\"go test ./charts -run Readme -update\". -->\n"
)

func TestTheReadmeIsGeneratedFromTheComments(t *testing.T) {
	byHand, _, found := strings.Cut(readFile(t, readmeFile), readmeMark)
	if !found {
		t.Fatalf("%s has no marker of the generated part", readmeFile)
	}
	want := byHand + readmeMark + "\n## Examples\n\n"
	for _, file := range examples(t) {
		comment, _, _ := strings.Cut(readFile(t, file), "\n")
		want += fmt.Sprintf("- [%s](examples/%s): %s\n", strings.TrimSuffix(filepath.Base(file), ".yaml"), filepath.Base(file), strings.TrimPrefix(comment, "# "))
	}
	if *update {
		if err := os.WriteFile(readmeFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, readFile(t, readmeFile)); diff != "" {
		t.Errorf("%s is not current: run go test ./charts -run Readme -update (-want +got):\n%s", readmeFile, diff)
	}
}

// TestEveryValueIsInTheSchema checks that each value has a type, and that each has a default and a comment.
func TestEveryValueIsInTheSchema(t *testing.T) {
	var walk func(path string, node *yamlv3.Node, s schema)
	walk = func(path string, node *yamlv3.Node, s schema) {
		names := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			name, value := node.Content[i].Value, node.Content[i+1]
			names[name] = true
			property, known := s.Properties[name]
			if !known {
				t.Errorf("%s%s is not in the schema", path, name)
			}
			if block(value) {
				walk(path+name+".", value, property)
			}
		}
		for name := range s.Properties {
			if !names[name] && path+name != "global" { // Helm's own
				t.Errorf("%s%s of the schema is not in values.yaml", path, name)
			}
		}
	}
	walk("", values(t), readSchema(t))
}

func values(t *testing.T) *yamlv3.Node {
	t.Helper()
	var document yamlv3.Node
	if err := yamlv3.Unmarshal([]byte(readFile(t, "warrantgate/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	return document.Content[0]
}

// TestEveryValueHasAComment checks that "helm show values" says what each value means.
func TestEveryValueHasAComment(t *testing.T) {
	var walk func(path string, node *yamlv3.Node)
	walk = func(path string, node *yamlv3.Node) {
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			switch {
			case block(value) && !documented(key):
				walk(path+key.Value+".", value)
			case !documented(key):
				t.Errorf("%s%s has no comment", path, key.Value)
			case block(value) && slices.ContainsFunc(value.Content, documented):
				t.Errorf("the comment of %s%s hides the documented values below it", path, key.Value)
			}
		}
	}
	walk("", values(t))
}

// block reports whether a mapping has lines of its own.
func block(node *yamlv3.Node) bool {
	return node.Kind == yamlv3.MappingNode && node.Style&yamlv3.FlowStyle == 0
}

func documented(key *yamlv3.Node) bool { return key.HeadComment != "" }
