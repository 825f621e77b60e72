package config_test

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/internal/config"
	"warrantgate.dev/internal/config/v1alpha1"
	"warrantgate.dev/internal/config/v1beta1"
)

const (
	currentFile = "v1beta1/testdata/every-field.yaml"
	olderFile   = "v1alpha1/testdata/every-field.yaml"
)

// everyField are files with all fields that their version ever had, one for each version.
var everyField = []string{currentFile, olderFile}

// typed returns what the types of its own version make of such a file.
func typed(t *testing.T, file string) any {
	t.Helper()
	if file == olderFile {
		return decoded[v1alpha1.GateConfiguration](t, file)
	}
	return decoded[v1beta1.GateConfiguration](t, file)
}

func decoded[T any](t *testing.T, file string) T {
	t.Helper()
	var into T
	if err := yaml.UnmarshalStrict(read(t, file), &into); err != nil {
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

// TestAFileOfEachVersionLoads holds that no field is taken away from those who have it in their file: a file is read strictly, so
// that it would be refused.
func TestAFileOfEachVersionLoads(t *testing.T) {
	for _, file := range everyField {
		t.Run(file, func(t *testing.T) {
			if _, _, err := config.Load(file); err != nil {
				t.Fatal(err)
			}
			// Nothing of it is lost: what was read is what was written.
			written, err := yaml.Marshal(typed(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fields(t, read(t, file)), fields(t, written)); diff != "" {
				t.Errorf("configuration (-written +read):\n%s", diff)
			}
		})
	}
}

// TestEachFileHasEveryField holds that a field that is new is added to it.
func TestEachFileHasEveryField(t *testing.T) {
	for _, file := range everyField {
		t.Run(file, func(t *testing.T) {
			var walk func(path string, value reflect.Value)
			walk = func(path string, value reflect.Value) {
				if value.Kind() == reflect.Slice && value.Len() > 0 && value.Index(0).Kind() == reflect.Struct {
					walk(path, value.Index(0))
					return
				}
				_, isDuration := value.Interface().(metav1.Duration)
				if value.Kind() != reflect.Struct || isDuration {
					if value.IsZero() {
						t.Errorf("%s is not in %s", path, file)
					}
					return
				}
				for i := range value.NumField() {
					walk(path+"."+value.Type().Field(i).Name, value.Field(i))
				}
			}
			walk("GateConfiguration", reflect.ValueOf(typed(t, file)))
		})
	}
}

// TestAnOlderFileIsTheCurrentOne holds that every field of it is in what it is converted into, and means the same there: replicas of
// which some have the one and some the other decide alike.
func TestAnOlderFileIsTheCurrentOne(t *testing.T) {
	converted, err := config.Convert(read(t, olderFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fields(t, read(t, currentFile)), fields(t, converted)); diff != "" {
		t.Errorf("file (-current +converted):\n%s", diff)
	}
	want, _, err := config.Load(currentFile)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := config.Load(olderFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-current +older):\n%s", diff)
	}
}

// TestEachFieldIsKnownByItsOlderName holds that a field that was renamed is told by the name that it has in an older file.
func TestEachFieldIsKnownByItsOlderName(t *testing.T) {
	var got []string
	for _, path := range paths("", fields(t, read(t, currentFile))) {
		got = append(got, v1alpha1.FieldPath(path))
	}
	want := paths("", fields(t, read(t, olderFile)))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-older file +current file, by their older names):\n%s", diff)
	}
}

// paths returns those of all fields that are no objects.
func paths(at string, object map[string]any) []string {
	var all []string
	for name, value := range object {
		path := strings.TrimPrefix(at+"."+name, ".")
		if below, isObject := value.(map[string]any); isObject {
			all = append(all, paths(path, below)...)
		} else {
			all = append(all, path)
		}
	}
	return all
}

func TestConvert(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"a file that says nothing goes on saying nothing": {
			raw:  olderHeader,
			want: "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n",
		},
		"what is left out beside something stays left out": {
			raw: olderHeader + "delegation: {keepWarrants: {users: [bob]}}\nworkspace: {ownerIntegrity: {mode: Warn}}\n" +
				"cluster: {impersonation: {mode: Warn}}\nrepair: {mode: Warn}\naudit: {mode: Warn}\nmachine: {mode: Warn}\n",
			want: `apiVersion: config.warrantgate.dev/v1beta1
audit:
  mode: Warn
cluster:
  impersonation:
    mode: Warn
delegation:
  keepWarrants:
    users:
    - bob
kind: GateConfiguration
machine:
  mode: Warn
repair:
  mode: Warn
workspace:
  ownerIntegrity:
    mode: Warn
`,
		},
		"what was renamed has its name of today": {
			raw: olderHeader + "# slowly\nrepair: {rate: 1, after: 90s}\naudit: {rate: 2}\ncontrollerManager: {mode: Off, secret: own}\n",
			want: `apiVersion: config.warrantgate.dev/v1beta1
audit:
  requestsPerSecond: 2
controllerManager:
  mode: "Off"
  secretName: own
kind: GateConfiguration
repair:
  after: 1m30s
  workspacesPerSecond: 1
`,
		},
		"an empty list, which is not the default, stays": {
			raw: olderHeader + "delegation: {openStackRoles: {required: [], allowed: []}}\nkeystonePolicy: {managerRoles: [], managedRoles: []}\n",
			want: `apiVersion: config.warrantgate.dev/v1beta1
delegation:
  openStackRoles:
    allowed: []
    required: []
keystonePolicy:
  managedRoles: []
  managerRoles: []
kind: GateConfiguration
`,
		},
		"a kind of machines gets no defaults": {
			raw: `{"apiVersion":"config.warrantgate.dev/v1alpha1","kind":"GateConfiguration","machine":{"kinds":[
				{"group":"a.example.com","version":"v1","kind":"A","resource":"as","provider":"cloudsigma"}]}}`,
			want: `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
machine:
  kinds:
  - group: a.example.com
    kind: A
    provider: cloudsigma
    resource: as
    version: v1
`,
		},
		"a file of the current version stays as it is": {
			raw:  "# mine\n" + header + "repair: {workspacesPerSecond: 1} # slowly\n",
			want: "# mine\n" + header + "repair: {workspacesPerSecond: 1} # slowly\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Convert([]byte(tc.raw))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("Convert() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAMistakeIsToldWhereItWasWritten holds that a field has the path in an error that it has in the file, in each version.
func TestAMistakeIsToldWhereItWasWritten(t *testing.T) {
	const secret = `"No Secret": a lowercase RFC 1123 subdomain`
	for name, tc := range map[string]struct {
		raw string
		// want is how the mistakes begin, in their order.
		want []string
	}{
		"values that cannot be, in the current version": {
			raw: header + "repair: {workspacesPerSecond: -1}\ncontrollerManager: {selector: {matchLabels: {a: b}}, secretName: No Secret}\naudit: {requestsPerSecond: -1}\n",
			want: []string{
				"repair.workspacesPerSecond: Invalid value: -1: must be at least 1",
				"controllerManager.secretName: Invalid value: " + secret,
				"audit.requestsPerSecond: Invalid value: -1: must be at least 1",
			},
		},
		"values that cannot be, in the older one": {
			raw: olderHeader + "repair: {rate: -1, mode: Sometimes}\ncontrollerManager: {selector: {matchLabels: {a: b}}, secret: No Secret}\naudit: {rate: -1}\n",
			want: []string{
				`repair.mode: Unsupported value: "Sometimes"`,
				"repair.rate: Invalid value: -1: must be at least 1",
				"controllerManager.secret: Invalid value: " + secret,
				"audit.rate: Invalid value: -1: must be at least 1",
			},
		},
		"names of the older version in the current one": {
			raw:  header + "audit: {rate: 1}\ncontrollerManager: {secret: a}\nrepair: {rate: 1}\n",
			want: []string{`unknown field "audit.rate"`, `unknown field "controllerManager.secret"`, `unknown field "repair.rate"`},
		},
		"names of the current version in the older one": {
			raw: olderHeader + "audit: {requestsPerSecond: 1}\ncontrollerManager: {secretName: a}\nrepair: {workspacesPerSecond: 1}\n",
			want: []string{
				`unknown field "audit.requestsPerSecond"`, `unknown field "controllerManager.secretName"`, `unknown field "repair.workspacesPerSecond"`,
			},
		},
		"a text where a number belongs, in the older version": {
			raw:  olderHeader + "repair: {rate: many}\n",
			want: []string{"json: cannot unmarshal string into Go struct field Repair.repair.rate of type int32"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, parse := range []func([]byte) error{
				func(raw []byte) error { _, err := config.Parse(raw); return err },
				func(raw []byte) error { _, err := config.Convert(raw); return err },
			} {
				err := parse([]byte(tc.raw))
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
			}
		})
	}
}

// renamed are the fields that have one name in the older version and another in the current one, as a person would look them up.
var renamed = []struct{ part, older, current string }{
	{"repair", "rate", "workspacesPerSecond"}, {"audit", "rate", "requestsPerSecond"}, {"controllerManager", "secret", "secretName"},
}

// FuzzTheVersionsMeanTheSame holds that a file means the same in each version, mistakes included, but for the names of the fields that
// were renamed.
func FuzzTheVersionsMeanTheSame(f *testing.F) {
	for _, seed := range []string{
		"", "repair: {workspacesPerSecond: 7, after: 5s}\naudit: {requestsPerSecond: 8, interval: 2m}\n",
		"controllerManager: {selector: {matchLabels: {app: ccm}}, secretName: own}\nmachine: {mode: Off}\n",
		"repair: {rate: 0}\naudit: {requestsPerSecond: -1}\ncontrollerManager: {secretName: '', container: 5}\n",
		"delegation: {openStackRoles: {required: [], denied: [a]}}\nrepair: null\naudit: []\n",
	} {
		f.Add([]byte(seed))
	}
	f.Add(read(f, currentFile))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var file map[string]any
		if yaml.Unmarshal(raw, &file) != nil || file == nil {
			return
		}
		file["kind"] = v1beta1.Kind
		file["apiVersion"] = v1beta1.APIVersion
		current, currentErr := config.Parse(written(t, file))
		file["apiVersion"] = v1alpha1.APIVersion
		for _, field := range renamed {
			if part, ok := file[field.part].(map[string]any); ok {
				exchange(part, field.older, field.current)
			}
		}
		older, olderErr := config.Parse(written(t, file))
		if diff := cmp.Diff(current, older); diff != "" {
			t.Errorf("configuration (-current +older):\n%s", diff)
		}
		if diff := cmp.Diff(told(currentErr, asWritten), told(olderErr, inCurrentNames)); diff != "" {
			t.Errorf("mistakes (-current +older):\n%s", diff)
		}
	})
}

func written(t *testing.T, file map[string]any) []byte {
	t.Helper()
	raw, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// exchange gives two fields each other's name: one that is unknown in a version has to be so in the other one, too.
func exchange(part map[string]any, a, b string) {
	ofA, hasA := part[a]
	ofB, hasB := part[b]
	delete(part, a)
	delete(part, b)
	if hasA {
		part[b] = ofA
	}
	if hasB {
		part[a] = ofB
	}
}

// told returns the mistakes in the order of the alphabet, each with the name that rename gives to its field. Of a file that cannot be
// decoded only the first mistake is told, which is another one if the fields are in another order.
func told(err error, rename func(path string) string) []string {
	if err == nil {
		return nil
	}
	many, ok := errors.AsType[utilerrors.Aggregate](err)
	if !ok {
		return []string{"cannot be decoded"}
	}
	var texts []string
	for _, mistake := range many.Errors() {
		text := mistake.Error()
		if path, unknown := strings.CutPrefix(text, "unknown field "); unknown {
			text = "unknown field " + strconv.Quote(rename(strings.Trim(path, `"`)))
		} else if path, what, found := strings.Cut(text, ": "); found {
			text = rename(path) + ": " + what
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

// asWritten is for a file of the current version, in which a field has the name of today.
func asWritten(path string) string { return path }

// inCurrentNames is for a file of the older version in which names were exchanged.
func inCurrentNames(path string) string {
	for _, field := range renamed {
		older, current := field.part+"."+field.older, field.part+"."+field.current
		switch path {
		case older:
			return current
		case current:
			return older
		}
	}
	return path
}
