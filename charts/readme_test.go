package charts_test

import (
	"slices"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
)

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
