package machine_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"warrantgate.dev/internal/config/v1beta1"
)

// ownerMatcher is matcher for the Machines of Cluster API, with gates on machines of the kinds.
func ownerMatcher(t *testing.T, kinds ...v1beta1.MachineKind) func(t *testing.T, old, changed object) bool {
	t.Helper()
	for _, hook := range registered(v1beta1.Enforce, v1beta1.Deny, kinds...) {
		if hook.Name == "owner.machine.warrantgate.dev" {
			return matcherOf(t, hook, schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machines"})
		}
	}
	t.Fatal("there is no webhook on the Machines of Cluster API")
	return nil
}

// TestInfrastructureOfTheOwner tries every pair of references, before and after a change of the label: the webhook is called unless both name other
// kinds, and no reference is an evaluation error, which would deny the request.
func TestInfrastructureOfTheOwner(t *testing.T) {
	const ref = "spec.infrastructureRef"
	v1beta1Ref := func(apiVersion, kind string) func(object) {
		return with(ref, object{"apiVersion": apiVersion, "kind": kind, "name": machineName, "namespace": "team-a"})
	}
	v1beta2Ref := func(group, kind string) func(object) {
		return with(ref, object{"apiGroup": group, "kind": kind, "name": machineName})
	}
	const group = "infrastructure.cluster.x-k8s.io"
	gated := map[string]func(object){
		"v1beta1":                     v1beta1Ref(group+"/v1beta1", "CloudSigmaMachine"),
		"v1beta1, a version to come":  v1beta1Ref(group+"/v3", "CloudSigmaMachine"),
		"v1beta1, of OpenStack":       v1beta1Ref(group+"/v1beta1", "OpenStackMachine"),
		"v1beta1, of the file":        v1beta1Ref("metal.example.com/v1", "MetalMachine"),
		"v1beta2":                     v1beta2Ref(group, "CloudSigmaMachine"),
		"v1beta2, of OpenStack":       v1beta2Ref(group, "OpenStackMachine"),
		"v1beta2, of the file":        v1beta2Ref("metal.example.com", "MetalMachine"),
		"both, one of another group":  with(ref, object{"apiGroup": "example.com", "apiVersion": group + "/v1beta1", "kind": "CloudSigmaMachine"}),
		"both, other one of another":  with(ref, object{"apiGroup": group, "apiVersion": "example.com/v1", "kind": "CloudSigmaMachine"}),
		"both, one of another type":   with(ref, object{"apiGroup": group, "apiVersion": int64(5), "kind": "CloudSigmaMachine"}),
		"none":                        func(object) {},
		"null":                        with(ref, nil),
		"a string":                    with(ref, "CloudSigmaMachine"),
		"a number":                    with(ref, int64(5)),
		"a list":                      with(ref, []any{object{"kind": "CloudSigmaMachine"}}),
		"empty":                       with(ref, object{}),
		"no group":                    with(ref, object{"kind": "CloudSigmaMachine"}),
		"an empty group":              with(ref, object{"kind": "DockerMachine", "apiGroup": ""}),
		"a group that is a map":       with(ref, object{"kind": "DockerMachine", "apiGroup": object{}}),
		"a group that is null":        with(ref, object{"kind": "DockerMachine", "apiGroup": nil}),
		"an apiVersion that is a map": with(ref, object{"kind": "DockerMachine", "apiVersion": object{}}),
		"no kind":                     with(ref, object{"apiVersion": group + "/v1beta1"}),
		"a kind that is a list":       with(ref, object{"apiVersion": group + "/v1beta1", "kind": []any{"DockerMachine"}}),
		"a kind that is null":         with(ref, object{"apiGroup": group, "kind": nil}),
		"no spec":                     func(o object) { delete(o, "spec") },
		"a spec that is a string":     with("spec", "odd"),
		"a spec that is null":         with("spec", nil),
	}
	others := map[string]func(object){
		"v1beta1, another kind":                v1beta1Ref(group+"/v1beta1", "DockerMachine"),
		"v1beta1, another group":               v1beta1Ref("infrastructure.example.com/v1beta1", "CloudSigmaMachine"),
		"v1beta1, a group that begins alike":   v1beta1Ref(group+".example.com/v1beta1", "CloudSigmaMachine"),
		"v1beta1, the group as a version":      v1beta1Ref(group, "CloudSigmaMachine"),
		"v1beta1, a kind of the other group":   v1beta1Ref("metal.example.com/v1", "CloudSigmaMachine"),
		"v1beta2, another kind":                v1beta2Ref(group, "DockerMachine"),
		"v1beta2, another group":               v1beta2Ref("infrastructure.example.com", "CloudSigmaMachine"),
		"v1beta2, a group that begins alike":   v1beta2Ref(group+".example.com", "CloudSigmaMachine"),
		"v1beta2, a template":                  v1beta2Ref(group, "CloudSigmaMachineTemplate"),
		"both, another kind, one is no string": with(ref, object{"apiGroup": nil, "apiVersion": group + "/v1beta1", "kind": "DockerMachine"}),
	}
	all := map[string]func(object){}
	for name, shape := range gated {
		all["gated: "+name] = shape
	}
	for name, shape := range others {
		all["other: "+name] = shape
	}
	isOther := func(name string) bool { return strings.HasPrefix(name, "other: ") }
	matches := ownerMatcher(t, kinds[0].MachineKind, openStackMachine, metalMachine)
	bare := func(o object) { o["spec"] = object{} }
	for before, old := range all {
		for after, changed := range all {
			if got, want := matches(t, capiMachine(bare, old), capiMachine(bare, changed, inOther)), !isOther(before) || !isOther(after); got != want {
				t.Errorf("another label, from %s to %s: selected = %t, want %t", before, after, got, want)
			}
			if matches(t, capiMachine(bare, old), capiMachine(bare, changed)) {
				t.Errorf("the same label, from %s to %s: selected", before, after)
			}
		}
	}
}
