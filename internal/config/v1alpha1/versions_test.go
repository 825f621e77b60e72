package v1alpha1_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/config/v1alpha1"
)

// everyField is a file with all fields that there ever were.
const everyField = "testdata/every-field.yaml"

// TestAnOlderFileStillLoads holds that no field is taken away from those who have it in their file: a file is read strictly, so
// that it would be refused.
func TestAnOlderFileStillLoads(t *testing.T) {
	config, err := v1alpha1.Load(everyField)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing of it is lost: what was read is what was written.
	raw, err := os.ReadFile(everyField)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	written, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(written, &got); err != nil {
		t.Fatal(err)
	}
	normalizeDurations(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-written +read):\n%s", diff)
	}
}

// normalizeDurations writes those of the file as they are written out.
func normalizeDurations(file map[string]any) {
	file["repair"].(map[string]any)["after"] = "1m30s"    //nolint:errcheck,forcetypeassert // of a file that was read
	file["audit"].(map[string]any)["interval"] = "1h0m0s" //nolint:errcheck,forcetypeassert // of a file that was read
}

// TestTheFileHasEveryField holds that a field that is new is added to it.
func TestTheFileHasEveryField(t *testing.T) {
	config, err := v1alpha1.Load(everyField)
	if err != nil {
		t.Fatal(err)
	}
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
	walk("GateConfiguration", reflect.ValueOf(config))
}

// TestAnotherVersionIsRefused holds that it is said which versions are understood, whatever else is in the file.
func TestAnotherVersionIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"a newer version": {
			"apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n",
			`apiVersion: Unsupported value: "config.warrantgate.dev/v1beta1": supported values: "config.warrantgate.dev/v1alpha1"`,
		},
		"a newer version with fields of its own": {
			"apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\ngates: []\n",
			`apiVersion: Unsupported value: "config.warrantgate.dev/v1beta1": supported values: "config.warrantgate.dev/v1alpha1"`,
		},
		"another kind": {
			"apiVersion: config.warrantgate.dev/v1alpha1\nkind: Gates\n",
			`kind: Unsupported value: "Gates": supported values: "GateConfiguration"`,
		},
		"the object of somebody else": {
			"apiVersion: v1\nkind: ConfigMap\n",
			`apiVersion: Unsupported value: "v1": supported values: "config.warrantgate.dev/v1alpha1"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(tc.raw), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := v1alpha1.Load(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("Load() error = %v, want one with %q", err, tc.want)
			}
		})
	}
}
