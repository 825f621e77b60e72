package machine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/machine"
	"warrantgate.dev/webhooks/webhookstest"
)

// registered returns the webhooks for the kinds: those for changed and for first claims of each, and that for the owners.
func registered(mode v1beta1.Mode, unknown v1beta1.UnknownPolicy, kinds ...v1beta1.MachineKind) []admissionregistrationv1.ValidatingWebhook {
	_, all := webhookstest.Registered(nil, machine.Hooks(mode, unknown, kinds))
	return all
}

func TestWebhooksArePinned(t *testing.T) {
	pin := func(
		group, version, resource string, failure admissionregistrationv1.FailurePolicyType, conditions int, operations ...admissionregistrationv1.OperationType,
	) webhookstest.Pinned {
		return webhookstest.Pinned{
			URL: webhookstest.URL + "/machine/ownership",
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: operations,
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource, resource + "/status"},
					Scope: ptr.To(admissionregistrationv1.AllScopes),
				},
			}},
			MatchPolicy: "Equivalent", FailurePolicy: failure, SideEffects: "NoneOnDryRun", Timeout: 3, Conditions: conditions,
		}
	}
	all := func(failure, first admissionregistrationv1.FailurePolicyType) map[string]webhookstest.Pinned {
		firstPin := func(group, version, resource string) webhookstest.Pinned {
			pinned := pin(group, version, resource, first, 1, "CREATE", "UPDATE")
			pinned.Timeout = 10
			return pinned
		}
		return map[string]webhookstest.Pinned{
			"first.cloudsigmamachines.machine.warrantgate.dev": firstPin("infrastructure.cluster.x-k8s.io", "v1beta1", "cloudsigmamachines"),
			"first.metalmachines.machine.warrantgate.dev":      firstPin("metal.example.com", "v1", "metalmachines"),
			"cloudsigmamachines.machine.warrantgate.dev":       pin("infrastructure.cluster.x-k8s.io", "v1beta1", "cloudsigmamachines", failure, 1, "CREATE", "UPDATE"),
			"metalmachines.machine.warrantgate.dev":            pin("metal.example.com", "v1", "metalmachines", failure, 1, "CREATE", "UPDATE"),
			"awsmachines.machine.warrantgate.dev":              pin("aws.example.com", "v1", "awsmachines", failure, 1, "CREATE", "UPDATE"),
			"owner.machine.warrantgate.dev":                    pin("cluster.x-k8s.io", "*", "machines", failure, 2, "UPDATE"),
		}
	}
	type setting struct {
		mode    v1beta1.Mode
		unknown v1beta1.UnknownPolicy
	}
	for of, want := range map[setting]map[string]webhookstest.Pinned{
		{v1beta1.Enforce, v1beta1.AdmitFirstClaims}: all("Fail", "Ignore"), {v1beta1.Enforce, v1beta1.Deny}: all("Fail", "Fail"),
		{v1beta1.Enforce, v1beta1.Admit}: all("Fail", "Ignore"), {v1beta1.Warn, v1beta1.AdmitFirstClaims}: all("Ignore", "Ignore"),
		{v1beta1.Warn, v1beta1.Deny}: all("Ignore", "Ignore"), {v1beta1.Off, v1beta1.AdmitFirstClaims}: {},
	} {
		got := webhookstest.Pin(registered(of.mode, of.unknown, kinds[0].MachineKind, metalMachine, awsMachine.MachineKind))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: webhooks (-want +got):\n%s", of, diff)
		}
	}
}

// attributes are those of a request in the API server. A nil object is missing.
func attributes(old, changed object, resource schema.GroupVersionResource, subresource string, operation admission.Operation) *admission.VersionedAttributes {
	asObject := func(content object) runtime.Object {
		if content == nil {
			return nil
		}
		return &unstructured.Unstructured{Object: content}
	}
	kind := resource.GroupVersion().WithKind("Machine")
	record := admission.NewAttributesRecord(asObject(changed), asObject(old), kind, "team-a", machineName, resource, subresource, operation, nil, false,
		&user.DefaultInfo{Name: "capcs"})
	return &admission.VersionedAttributes{
		Attributes: record, VersionedObject: asObject(changed), VersionedOldObject: asObject(old), VersionedKind: kind,
	}
}

// matcher returns a function that reports whether the API server calls one of the webhooks of a kind.
func matcher(t *testing.T, kind v1beta1.MachineKind) func(t *testing.T, old, changed object) bool {
	t.Helper()
	selects := selector(t, kind)
	return func(t *testing.T, old, changed object) bool {
		t.Helper()
		asChanged, asFirst := selects(t, old, changed)
		return asChanged || asFirst
	}
}

// selector returns a function that evaluates the match conditions of a kind with the API server's own code, for changed and for first claims.
// An evaluation error would count as a failure of the webhook. No request is sent to both.
func selector(t *testing.T, kind v1beta1.MachineKind) func(t *testing.T, old, changed object) (asChanged, asFirst bool) {
	t.Helper()
	hooks := registered(v1beta1.Enforce, v1beta1.AdmitFirstClaims, kind)
	resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}
	changes, first := matcherOf(t, hooks[0], resource), matcherOf(t, hooks[1], resource)
	return func(t *testing.T, old, changed object) (asChanged, asFirst bool) {
		t.Helper()
		asChanged, asFirst = changes(t, old, changed), first(t, old, changed)
		if asChanged && asFirst {
			t.Errorf("from %v to %v: both webhooks are called", old, changed)
		}
		return asChanged, asFirst
	}
}

func matcherOf(
	t *testing.T, hook admissionregistrationv1.ValidatingWebhook, resource schema.GroupVersionResource,
) func(t *testing.T, old, changed object) bool {
	t.Helper()
	accessor := webhook.NewValidatingWebhookAccessor("", "warrantgate", &hook)
	compiled := accessor.GetCompiledMatcher(celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())))
	return func(t *testing.T, old, changed object) bool {
		t.Helper()
		operation := admission.Update
		if old == nil {
			operation = admission.Create
		}
		result := compiled.Match(t.Context(), attributes(old, changed, resource, "", operation), nil, nil)
		if result.Error != nil {
			t.Errorf("from %v to %v: %v", old, changed, result.Error)
		}
		return result.Matches
	}
}

func TestMatchConditionsSelectRequests(t *testing.T) {
	matches, selects := matcher(t, kinds[0].MachineKind), selector(t, kinds[0].MachineKind)
	for name, s := range situations() {
		t.Run(name, func(t *testing.T) {
			want := s.want.reason != nothing.reason
			asChanged, asFirst := selects(t, newMachine(s.old...), newMachine(s.changed...))
			if wantFirst := want && s.isFirst(false); asFirst != wantFirst || asChanged != (want && !wantFirst) {
				t.Errorf("an update is selected as a changed claim: %t, as a first one: %t, want %t and %t", asChanged, asFirst, want && !wantFirst, wantFirst)
			}
			if s.onlyUpdate {
				return
			}
			if got := matches(t, nil, newMachine(s.changed...)); got != want {
				t.Errorf("a create is selected: %t, want %t", got, want)
			}
		})
	}
	// 1,000 heartbeats of one machine.
	old := newMachine(instanceID(ownID), providerID("cloudsigma://"+ownID))
	for i := range 1000 {
		beat := newMachine(instanceID(ownID), providerID("cloudsigma://"+ownID), with("status.heartbeat", fmt.Sprint(i)))
		if matches(t, old, beat) {
			t.Fatalf("heartbeat %d is selected", i)
		}
		old = beat
	}
}

// TestConditionsAndGateAgree tries every pair of values of the two fields, also of wrong types: the conditions evaluate without an error,
// and the gate denies no request that they do not select.
func TestConditionsAndGateAgree(t *testing.T) {
	matches := matcher(t, kinds[0].MachineKind)
	above := []func(object){
		func(object) {}, with("status", nil), with("status", "odd"), with("status", []any{"instanceID"}), with("status", int64(5)),
		func(o object) { delete(o, "status") },
	}
	var shapes []func(object)
	for _, value := range []any{ownID, foreignID, "", " ", "soon", nil, int64(5), 5.5, true, []any{}, object{}, object{"a": "b"}} {
		shapes = append(shapes, instanceID(value), providerID(value))
	}
	shapes = append(shapes, providerID("cloudsigma://"+ownID), func(o object) { instanceID(ownID)(o); providerID("cloudsigma://" + ownID)(o) })
	shapes = append(shapes, above...)

	w := newWorld()
	gate := w.gate(v1beta1.Machine{})
	requested := 0
	for i, before := range shapes {
		for j, after := range shapes {
			for _, create := range []bool{false, true} {
				old, changed := newMachine(before), newMachine(after)
				if create {
					old = nil
				}
				sent := matches(t, old, changed)
				answer := gate.Review(t.Context(), crwebhook.Request{AdmissionRequest: *review(t, old, changed).Request})
				claims := answer.Reason != nothing.reason && answer.Reason != "Undecodable"
				switch {
				case claims && !sent:
					t.Errorf("from %v to %v (%d, %d): not selected, but %s", old, changed, i, j, answer.Reason)
				case sent && answer.Reason == nothing.reason:
					t.Errorf("from %v to %v (%d, %d): selected, but nothing is claimed", old, changed, i, j)
				}
				requested++
			}
		}
	}
	if requested < 1000 {
		t.Errorf("only %d pairs", requested)
	}
}

// Paths may contain reserved words of CEL.
func TestConditionsOfAnyPath(t *testing.T) {
	for _, path := range []string{
		"status.instanceID", "spec.package.namespace", "in.true", "status.null.function", "a.b.c.d.e.f.g.h", "status.__namespace__", "spec._0",
	} {
		t.Run(path, func(t *testing.T) {
			kind := metalMachine
			kind.InstanceIDPath = path
			matches := matcher(t, kind)
			if !matches(t, newMachine(), newMachine(with(path, ownID))) {
				t.Error("a new ID is not selected")
			}
			if matches(t, newMachine(with(path, ownID)), newMachine(with(path, ownID))) {
				t.Error("an unchanged ID is selected")
			}
			if matches(t, newMachine(with(strings.SplitN(path, ".", 2)[0], "odd")), newMachine(with(path, nil))) {
				t.Error("no request is selected")
			}
		})
	}
}

// FuzzReview checks that no object makes the gate panic, and that each answer has a reason and a message.
func FuzzReview(f *testing.F) {
	for _, seed := range []struct{ old, changed object }{
		{newMachine(), newMachine(instanceID(ownID))}, {newMachine(instanceID(ownID)), newMachine(instanceID(foreignID), providerID("cloudsigma://"+foreignID))},
		{nil, newMachine(with("metadata.ownerReferences", "x"), with("metadata.labels", []any{}), instanceID(absentID))},
		{newMachine(), newMachine(with("metadata", "odd"), with("spec", nil))},
	} {
		f.Add(encode(f, seed.old), encode(f, seed.changed), uint8(0))
	}
	for _, raw := range []string{"", "null", "[]", "{", `{"metadata":null,"status":{"instanceID":{}}}`, `{"metadata":{"deletionTimestamp":5,"ownerReferences":[null,5,{}]}}`} {
		f.Add([]byte(raw), []byte(raw), uint8(1))
	}
	operations := []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect, ""}
	f.Fuzz(func(t *testing.T, old, changed []byte, operation uint8) {
		requested := review(t, nil, nil).Request
		requested.Operation = operations[int(operation)%len(operations)]
		requested.OldObject.Raw, requested.Object.Raw = old, changed
		w := newWorld()
		answer := w.gate(v1beta1.Machine{}).Review(t.Context(), crwebhook.Request{AdmissionRequest: *requested})
		switch {
		case answer.Reason == "":
			t.Errorf("an answer without a reason: %v", answer)
		case answer.Decision != webhooks.Allowed && answer.Message == "":
			t.Errorf("%s has no message", answer.Reason)
		case answer.Reason == "Owned" && len(w.decided) != 1:
			t.Errorf("Owned after %d requests", len(w.decided))
		case answer.Reason == nothing.reason && w.reads+len(w.decided) > 0:
			t.Errorf("requests without a claim: %v", w.decided)
		}
		if answer.Details != nil && len(answer.Details())%2 != 0 {
			t.Errorf("Details() = %v, want pairs", answer.Details())
		}
	})
}
