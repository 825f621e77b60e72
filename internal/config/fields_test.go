package config_test

import (
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
			walk(path, value.Index(0))
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

func TestAMistakeIsReportedWithItsPath(t *testing.T) {
	for name, tc := range map[string]struct {
		raw string
		// want is how the mistakes begin, in their order.
		want []string
	}{
		"wrong values": {
			raw: header + "repair: {workspacesPerSecond: -1}\ncontrollerManager: {selector: {matchLabels: {a: b}}, secretName: No Secret}\naudit: {requestsPerSecond: -1}\n",
			want: []string{
				"repair.workspacesPerSecond: Invalid value: -1: must be at least 1",
				`controllerManager.secretName: Invalid value: "No Secret": a lowercase RFC 1123 subdomain`,
				"audit.requestsPerSecond: Invalid value: -1: must be at least 1",
			},
		},
		"unknown fields": {
			raw:  header + "audit: {rate: 1}\ncontrollerManager: {secret: a}\nrepair: {rate: 1}\n",
			want: []string{`unknown field "audit.rate"`, `unknown field "controllerManager.secret"`, `unknown field "repair.rate"`},
		},
		"a text for a number": {
			raw:  header + "repair: {workspacesPerSecond: many}\n",
			want: []string{"json: cannot unmarshal string into Go struct field Repair.repair.workspacesPerSecond of type int32"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse([]byte(tc.raw))
			if err == nil {
				t.Fatal("there is no error")
			}
			got := mistakes(err)
			for i := range min(len(got), len(tc.want)) {
				got[i] = got[i][:min(len(got[i]), len(tc.want[i]))]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}
