package config_test

import (
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1beta1"
)

// everyField is a file with all fields.
const everyField = "v1beta1/testdata/every-field.yaml"

func everyFieldDecoded(t *testing.T) v1beta1.GateConfiguration {
	t.Helper()
	var into v1beta1.GateConfiguration
	if err := yaml.UnmarshalStrict(read(t, everyField), &into); err != nil {
		t.Fatal(err)
	}
	return into
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// fields returns a file without types, its durations as they are written out.
func fields(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var file map[string]any
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, duration := range []struct{ part, name, written, writtenOut string }{
		{"repair", "after", "90s", "1m30s"}, {"audit", "interval", "1h", "1h0m0s"},
	} {
		if part, ok := file[duration.part].(map[string]any); ok && part[duration.name] == duration.written {
			part[duration.name] = duration.writtenOut
		}
	}
	return file
}

func TestAFileWithEveryFieldLoads(t *testing.T) {
	if _, err := config.Load(everyField); err != nil {
		t.Fatal(err)
	}
	written, err := yaml.Marshal(everyFieldDecoded(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fields(t, read(t, everyField)), fields(t, written)); diff != "" {
		t.Errorf("configuration (-written +read):\n%s", diff)
	}
}

// TestTheFileHasEveryField fails if a field was added to the types and not to the file.
func TestTheFileHasEveryField(t *testing.T) {
	var walk func(path string, value reflect.Value)
	walk = func(path string, value reflect.Value) {
		if value.Kind() == reflect.Slice && value.Len() > 0 && value.Index(0).Kind() == reflect.Struct {
			all := reflect.New(value.Index(0).Type()).Elem() // not all fields may be set in one
			for i := range value.Len() {
				for j := range all.NumField() {
					if all.Field(j).IsZero() {
						all.Field(j).Set(value.Index(i).Field(j))
					}
				}
			}
			walk(path, all)
			return
		}
		_, isDuration := value.Interface().(metav1.Duration)
		if value.Kind() != reflect.Struct || isDuration {
			if value.IsZero() {
				t.Errorf("%s is not in %s", path, everyField)
			}
			return
		}
		for i := range value.NumField() {
			walk(path+"."+value.Type().Field(i).Name, value.Field(i))
		}
	}
	walk("GateConfiguration", reflect.ValueOf(everyFieldDecoded(t)))
}

func TestAllMistakesAtOnceWithTheirLines(t *testing.T) {
	_, err := config.Parse([]byte(header + `repair:
  after: 5
  workspacesPerSecond: many
audit:
  intervall: 10m
  interval: 1ms
  requestsPerSecond: 0
  providers: {workspace: root:a}
cluster:
  exemptNamespaces:
  - kube-system
  - [a]
controllerManager:
  allowCSIToken: sometimes
  selector: app
keystonePolicy:
  selector: {matchLabels: {a: b}}
  keystoneRelease: 2025.1
  mode: enforce
openStack:
  concurrency: 0
`))
	want := `12 mistakes
  line 4: repair.after: Invalid value: "5": must be a duration of at least 1s, such as 90s or 10m
  line 5: repair.workspacesPerSecond: Invalid value: "many": must be a whole number, at least 1
  line 7: audit.intervall: unknown field; did you mean interval?
  line 8: audit.interval: Invalid value: "1ms": must be a duration of at least 1s, such as 90s or 10m
  line 9: audit.requestsPerSecond: Invalid value: "0": must be a whole number, at least 1
  line 10: audit.providers: must be a list
  line 14: cluster.exemptNamespaces[1]: must be text
  line 16: controllerManager.allowCSIToken: Invalid value: "sometimes": must be true or false
  line 17: controllerManager.selector: Invalid value: "app": must be a mapping of fields
  line 20: keystonePolicy.keystoneRelease: Invalid value: "2025.1": must be text: write it in quotes, as "2025.1"
  line 21: keystonePolicy.mode: Unsupported value: "enforce": supported values: "Enforce", "Warn", "Off"
  line 23: openStack.concurrency: Invalid value: "0": must be a whole number, at least 1`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}
