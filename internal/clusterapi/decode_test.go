package clusterapi_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"warrantgate.dev/internal/clusterapi"
)

// withPaths returns a kind with other paths of the IDs.
func withPaths(instanceID, providerID string) clusterapi.Kind {
	kind := cloudSigmaMachines
	kind.InstanceIDPath, kind.ProviderIDPath = instanceID, providerID
	return kind
}

// TestDecodeIsRead checks that Decode of the JSON and Read of the whole object have the same result.
func TestDecodeIsRead(t *testing.T) {
	const metadata = `"metadata":{"name":"hl9tl","namespace":"team-a","uid":"0eb3","resourceVersion":"7",` +
		`"labels":{"cluster.x-k8s.io/cluster-name":"metal","a":"b"},"deletionTimestamp":"2026-02-04T12:03:29Z",` +
		`"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Machine","name":"hl9tl","uid":"0eb3","controller":true}],` +
		`"managedFields":[{"fieldsV1":{"f:status":{"f:instanceID":{}}}}],"annotations":{"status":"x"}}`
	for name, tc := range map[string]struct {
		kind clusterapi.Kind // default: cloudSigmaMachines
		raw  string
	}{
		"a whole machine":                         {raw: `{"kind":"CloudSigmaMachine",` + metadata + `,"spec":{"cpu":1,"providerID":"cloudsigma://x"},"status":{"instanceID":"x"}}`},
		"a new machine":                           {raw: `{` + metadata + `}`},
		"no metadata":                             {raw: `{"status":{"instanceID":"x"}}`},
		"white space":                             {raw: " {\n\"status\" : { \"instanceID\" :\t\"x\" } } "},
		"escapes":                                 {raw: `{"\u0073tatus":{"instance\u0049D":"\u0078\ud83d\ude00"}}`},
		"two members with the same name":          {raw: `{"status":{"instanceID":"x"},"status":{"instanceID":"y","instanceID":"z"}}`},
		"the second of two is empty":              {raw: `{"status":{"instanceID":"x"},"status":{}}`},
		"the second of two is null":               {raw: `{"status":{"instanceID":"x"},"status":null}`},
		"the first of two is not an object":       {raw: `{"status":5,"status":{"instanceID":"x"}}`},
		"the second of two is not an object":      {raw: `{"status":{"instanceID":"x"},"status":5}`},
		"names are case-sensitive":                {raw: `{"Status":{"instanceID":"x"},"status":{"instanceid":"y"}}`},
		"the same name elsewhere":                 {raw: `{"spec":{"status":{"instanceID":"x"}},"status":{"x":{"instanceID":"y"}},"instanceID":"z"}`},
		"null":                                    {raw: `null`},
		"nulls":                                   {raw: `{"metadata":null,"spec":null,"status":{"instanceID":null}}`},
		"not Unicode":                             {raw: "{\"status\":{\"instanceID\":\"a\xffb\"}}"},
		"both fields in one object":               {kind: metalMachines, raw: `{"spec":{"instanceID":"x","providerID":"y"}}`},
		"both paths are the same":                 {kind: withPaths("spec.id", "spec.id"), raw: `{"spec":{"id":"x"}}`},
		"a longer path":                           {kind: withPaths("status.vm.id", "status.vm.url"), raw: `{"status":{"vm":{"url":"y","id":"x"},"id":"z"}}`},
		"in the metadata":                         {kind: withPaths("metadata.annotations.id", "metadata.name"), raw: `{"metadata":{"name":"n","annotations":{"id":"x"}}}`},
		"one below the other, which is a string":  {kind: withPaths("spec.id", "spec.id.url"), raw: `{"spec":{"id":"x"}}`},
		"one below the other, which is null":      {kind: withPaths("spec.id", "spec.id.url"), raw: `{"spec":{"id":null}}`},
		"one below the other, which is an object": {kind: withPaths("spec.id", "spec.id.url"), raw: `{"spec":{"id":{"url":"x"}}}`},
		"a number":                                {raw: `{"status":{"instanceID":5}}`},
		"a boolean":                               {raw: `{"spec":{"providerID":true}}`},
		"a list":                                  {raw: `{"spec":{"providerID":["x"]}}`},
		"an object":                               {raw: `{"spec":{"providerID":{"x":"y"}},"status":{"instanceID":"x"}}`},
		"a string as status":                      {raw: `{"status":"ready"}`},
		"a list as spec":                          {raw: `{"spec":[],"status":{"instanceID":"x"}}`},
		"both of the wrong type":                  {raw: `{"spec":[],"status":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			kind := tc.kind
			if kind.Group == "" {
				kind = cloudSigmaMachines
			}
			object := &unstructured.Unstructured{}
			var want clusterapi.Machine
			wantErr := json.Unmarshal([]byte(tc.raw), &object.Object)
			if wantErr == nil {
				want, wantErr = kind.Read(object)
			}
			got, err := kind.Decode([]byte(tc.raw))
			if text(err) != text(wantErr) {
				t.Fatalf("Decode() error = %v, want %v", err, wantErr)
			}
			if err != nil {
				return
			}
			got.Annotations = nil // which only the gate on clusters reads
			if diff := cmp.Diff(want.ObjectMeta, got.ObjectMeta); diff != "" {
				t.Errorf("Decode() metadata (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(readOf(want), readOf(got)); diff != "" {
				t.Errorf("Decode() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeTruncatedJSON(t *testing.T) {
	const whole = `{"metadata":{"name":"n","labels":{"a":"b"}},"spec":{"providerID":"x"},"status":{"instanceID":"y"}}`
	for length := 1; length < len(whole); length++ {
		if machine, err := cloudSigmaMachines.Decode([]byte(whole[:length])); err == nil {
			t.Errorf("Decode(%s) = %v, want an error", whole[:length], machine)
		}
	}
	for _, other := range []string{``, `[]`, `"x"`} {
		if _, err := cloudSigmaMachines.Decode([]byte(other)); err == nil {
			t.Errorf("Decode(%s) has no error", other)
		}
	}
	for _, more := range []string{"}", "{}", ",", "x"} {
		if _, err := cloudSigmaMachines.Decode([]byte(whole + more)); err == nil {
			t.Errorf("Decode(%s) has no error", whole+more)
		}
	}
}

func TestDecodeInvalidMetadata(t *testing.T) {
	for _, raw := range []string{`{"metadata":5}`, `{"metadata":{"name":5}}`, `{"metadata":{"labels":{"a":5}}}`} {
		if _, err := cloudSigmaMachines.Decode([]byte(raw)); err == nil {
			t.Errorf("Decode(%s) has no error", raw)
		}
	}
}

// A tenant chooses the object, and warrantgate has little memory for each byte of it.
func TestDecodeOfManySmallValues(t *testing.T) {
	many := "[" + strings.Repeat(`{"":0},`, 100_000) + "0]"
	for name, raw := range map[string]string{
		"elsewhere":          `{"spec":{"x":` + many + `}}`,
		"as the status":      `{"status":` + many + `}`,
		"as an ID":           `{"status":{"instanceID":` + many + `}}`,
		"below an ID":        `{"spec":{"providerID":{"x":` + many + `}}}`,
		"instead of objects": many,
		"as owners":          `{"metadata":{"ownerReferences":[` + strings.Repeat(`{},`, 100_000) + `{}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = cloudSigmaMachines.Decode([]byte(raw))
			runtime.ReadMemStats(&after)
			if needed := (after.TotalAlloc - before.TotalAlloc) / uint64(len(raw)); needed > 4 {
				t.Errorf("Decode needs %d times the size of the object", needed)
			}
		})
	}
}
