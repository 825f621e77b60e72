package machine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Paths of metadata, as in messages.
const (
	clusterLabel = "metadata.labels[cluster.x-k8s.io/cluster-name]"
	references   = "metadata.ownerReferences"
)

// inOther is a machine of the cluster "other".
func inOther(o object) { with("metadata.labels", object{"cluster.x-k8s.io/cluster-name": "other"})(o) }

// ownedBy are owner references to the Machines.
func ownedBy(names ...string) func(object) {
	refs := []any{}
	for _, name := range names {
		refs = append(refs, owner("cluster.x-k8s.io/v1beta1", "Machine", name))
	}
	return with(references, refs)
}

func owner(apiVersion, kind, name string) object {
	return object{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": "uid-of-" + name}
}

// moved is a denial of a change of the cluster, the identity or the owner.
func moved(path, change, id, reason, text string) outcome {
	return outcome{reason: reason, field: path, message: change + ` of CloudSigmaMachine "` + machineName + `" of namespace "team-a", which names instance "` + id + `": ` + text}
}

// ownerIn gives the Machine that owns the machine the label of a cluster.
func ownerIn(cluster string) func(*world) {
	return func(w *world) { w.owners = map[string]string{"hl9tl": cluster} }
}

// moves are changes of the cluster, the identity or the owner of a machine that names an instance.
func moves() map[string]situation {
	const toOther = `label cluster.x-k8s.io/cluster-name "other"`
	own, foreign := instanceID(ownID), instanceID(foreignID)
	noOther := func(path string) string {
		return `; leave ` + path + ` as it is, or clear status.instanceID and spec.providerID first`
	}
	const foreignToOther = `this instance of region "next" exists, but is not one of user "tenant@example.com" (` + userID + `), which cluster "other" acts as`
	missing := &clusterapi.AccountError{Reason: clusterapi.OwnerMachineMissing, Message: `its owner references name Machine "gone", which does not exist`}
	two := &clusterapi.AccountError{Reason: clusterapi.OwnerMachineAmbiguous, Message: `its owner references name 2 Machines`}
	mismatch := func(machine, is string) string {
		return `its owner, Machine "` + machine + `", ` + is + ` by its label cluster.x-k8s.io/cluster-name, which the provider uses, but the machine has the label of cluster "metal"; ` +
			`set the same label on both; if Cluster API sets it back, clear status.instanceID and spec.providerID`
	}
	return map[string]situation{
		"the label of another cluster, whose user owns it": {
			old: fields(own), changed: fields(own, inOther), onlyUpdate: true, want: owned, wantID: ownID, world: worldOf(ownerIn("other")),
		},
		"the label of another cluster, whose user does not own it": {
			old: fields(foreign), changed: fields(foreign, inOther), onlyUpdate: true, wantID: foreignID, world: worldOf(ownerIn("other")),
			want: func() outcome {
				o := moved(clusterLabel, toOther, foreignID, "InstanceNotOwned", foreignToOther+`; the cloud answered 403 permission, request id r-foreign`+noOther(clusterLabel))
				o.event = strings.Replace(o.message, "; the cloud answered 403 permission, request id r-foreign", "", 1)
				o.causes = []metav1.StatusCause{{Type: "OwnInstance", Message: ownID}, {Type: "CloudRequest", Message: "r-foreign"}}
				return o
			}(),
		},
		"no label, after that of another cluster": {
			old: fields(own), changed: fields(own, with("metadata.labels", nil)), onlyUpdate: true,
			want: moved(clusterLabel, "removal of label cluster.x-k8s.io/cluster-name", ownID, "MachineWithoutCluster",
				`it has no label cluster.x-k8s.io/cluster-name, so the user that its provider acts as is unknown; set the label first`),
		},
		"the label of a cluster, after none": {
			old: fields(own, with("metadata.labels", object{"cluster.x-k8s.io/cluster-name": nil})), changed: fields(own), onlyUpdate: true, want: owned, wantID: ownID,
		},
		"the label of another cluster, while the cloud does not respond": {
			old: fields(own), changed: fields(own, inOther), onlyUpdate: true, wantID: ownID,
			want: func() outcome {
				o := moved(clusterLabel, toOther, ownID, "OwnershipUnknown", strings.Replace(notChecked, `"metal"`, `"other"`, 1)+ownership.CauseCloud.Explain())
				o.decision, o.causes = webhooks.Undecided, []metav1.StatusCause{{Type: "CloudUnavailable", Message: ownership.CauseCloud.Explain()}}
				return o
			}(),
			world: worldOf(ownerIn("other"), func(w *world) { w.answers, w.err = nil, errors.New("boom") }),
		},
		"the label of another cluster, and no ID": {
			old: fields(instanceID("soon")), changed: fields(instanceID("soon"), inOther), onlyUpdate: true,
			want: func() outcome {
				o := moved(clusterLabel, toOther, "soon", "InstanceIDInvalid", errorOf(ownership.ParseInstanceID, "soon"))
				o.status = metav1.StatusReasonInvalid
				return o
			}(),
		},
		"the label of another cluster, and two IDs, of which its user owns one": {
			old: fields(own, providerID("cloudsigma://"+foreignID)), changed: fields(own, providerID("cloudsigma://"+foreignID), inOther), onlyUpdate: true,
			wantID: ownID, wantAlso: foreignID, world: worldOf(ownerIn("other")),
			want: func() outcome {
				o := moved(clusterLabel, toOther, "cloudsigma://"+foreignID, "InstanceNotOwned", foreignToOther+`; the cloud answered 403 permission, request id r-foreign`+noOther(clusterLabel))
				o.event = strings.Replace(o.message, "; the cloud answered 403 permission, request id r-foreign", "", 1)
				o.causes = []metav1.StatusCause{{Type: "OwnInstance", Message: ownID}, {Type: "CloudRequest", Message: "r-foreign"}}
				return o
			}(),
		},
		"the label of another cluster, with the ID cleared": {old: fields(own), changed: fields(instanceID(""), inOther), onlyUpdate: true, want: nothing},
		"the label of another cluster, without an ID":       {changed: fields(inOther), want: nothing},
		"another label": {
			old: fields(own), changed: fields(own, with("metadata.labels", object{"cluster.x-k8s.io/cluster-name": "metal", "a": "b"})), onlyUpdate: true, want: nothing,
		},
		// The label of the owner, which the provider uses.
		"of another cluster than its owner": {
			changed: fields(own), world: worldOf(ownerIn("other")),
			want: deniedBy("status.instanceID", ownID, "OwnerClusterMismatch", mismatch("hl9tl", `belongs to cluster "other"`)),
		},
		"of another cluster than its owner, while the cloud does not respond": {
			changed: fields(own), world: worldOf(ownerIn("other"), func(w *world) { w.answers, w.err = nil, errors.New("boom") }),
			want: deniedBy("status.instanceID", ownID, "OwnerClusterMismatch", mismatch("hl9tl", `belongs to cluster "other"`)),
		},
		"of an owner without cluster": {
			changed: fields(own), world: worldOf(ownerIn("")),
			want: deniedBy("status.instanceID", ownID, "OwnerClusterMismatch", mismatch("hl9tl", `belongs to no cluster`)),
		},
		"of an owner that does not exist": {
			old: fields(ownedBy("gone")), changed: fields(own, ownedBy("gone")), onlyUpdate: true, world: worldOf(func(w *world) { w.ownerErr = missing }),
			want: deniedBy("status.instanceID", ownID, "OwnerMachineMissing",
				`the cluster that its provider acts for is unknown: its owner references name Machine "gone", which does not exist`),
		},
		"of an owner that cannot be read": {
			changed: fields(own), world: worldOf(func(w *world) { w.ownerErr = errors.New("etcd is away") }),
			want: outcome{
				decision: webhooks.Undecided, reason: "ObjectsUnknown", field: "status.instanceID",
				message: of("status.instanceID", ownID) + "the Machine that owns the machine cannot be read now; try again",
			},
		},
		"of no owner yet": {changed: fields(own, with(references, nil)), onlyUpdate: true, old: fields(with(references, nil)), want: owned, wantID: ownID},
		"adopted by a Machine of the same cluster": {
			old: fields(own, with(references, []any{})), changed: fields(own), onlyUpdate: true, want: owned, wantID: ownID,
		},
		"adopted by a Machine of another cluster": {
			old: fields(own, with(references, nil)), changed: fields(own, ownedBy("other")), onlyUpdate: true,
			want: moved(references, "change of "+references, ownID, "OwnerClusterMismatch", mismatch("other", `belongs to cluster "other"`)),
		},
		"moved from a Machine to one of another cluster": {
			old: fields(own), changed: fields(own, ownedBy("other")), onlyUpdate: true,
			want: moved(references, "change of "+references, ownID, "OwnerClusterMismatch", mismatch("other", `belongs to cluster "other"`)),
		},
		"a second Machine in front": {
			old: fields(own), changed: fields(own, ownedBy("other", "hl9tl")), onlyUpdate: true, world: worldOf(func(w *world) { w.ownerErr = two }),
			want: moved(references, "change of "+references, ownID, "OwnerMachineAmbiguous",
				`the cluster that its provider acts for is unknown: its owner references name 2 Machines`),
		},
		"the same Machine through another version": {
			old: fields(own), changed: fields(own, with(references, []any{owner("cluster.x-k8s.io/v1beta2", "Machine", "hl9tl")})), onlyUpdate: true, want: nothing,
		},
		"an owner of another kind besides": {
			old: fields(own), changed: fields(own, with(references, []any{
				owner("v1", "ConfigMap", "a"), owner("cluster.x-k8s.io/v1beta1", "MachineSet", "b"), owner("machine.openshift.io/v1", "Machine", "c"),
				owner("cluster.x-k8s.io/v1beta1", "Machine", "hl9tl"),
			})), onlyUpdate: true, want: nothing,
		},
		"without its former owner": {old: fields(own), changed: fields(own, with(references, nil)), onlyUpdate: true, want: nothing},
	}
}

// openStackMachine has an identity of its own.
var openStackMachine = v1beta1.GateConfiguration{OpenStack: v1beta1.OpenStack{AuthURLs: []string{"https://keystone.example.com/v3"}}}.MachineKinds()[1]

func TestMovesOfAnIdentity(t *testing.T) {
	type ref struct{ name, cloudName, region, kind string }
	of := func(r ref) object {
		o := object{"name": r.name, "cloudName": r.cloudName}
		if r.region != "" {
			o["region"] = r.region
		}
		if r.kind != "" {
			o["type"] = r.kind
		}
		return o
	}
	keys := of(ref{name: "keys", cloudName: "tenant"})
	identity := func(value any) func(object) { return with("spec.identityRef", value) }
	matches := matcher(t, openStackMachine)
	for name, tc := range map[string]struct {
		old, changed []func(object)
		want         string
	}{
		"set":                        {fields(), fields(identity(keys)), "InstanceNotOwned"},
		"removed":                    {fields(identity(keys)), fields(), "InstanceNotOwned"},
		"null":                       {fields(identity(keys)), fields(identity(nil)), "InstanceNotOwned"},
		"another Secret":             {fields(identity(keys)), fields(identity(of(ref{name: "other", cloudName: "tenant"}))), "InstanceNotOwned"},
		"another entry":              {fields(identity(keys)), fields(identity(of(ref{name: "keys", cloudName: "other"}))), "InstanceNotOwned"},
		"a region":                   {fields(identity(keys)), fields(identity(of(ref{name: "keys", cloudName: "tenant", region: "east"}))), "InstanceNotOwned"},
		"another region":             {fields(identity(of(ref{name: "keys", cloudName: "tenant", region: "west"}))), fields(identity(of(ref{name: "keys", cloudName: "tenant", region: "east"}))), "InstanceNotOwned"},
		"another type":               {fields(identity(keys)), fields(identity(of(ref{name: "keys", cloudName: "tenant", kind: "ClusterIdentity"}))), "InstanceNotOwned"},
		"the same":                   {fields(identity(keys)), fields(identity(keys)), "NothingClaimed"},
		"null where there was none":  {fields(), fields(identity(nil)), "NothingClaimed"},
		"empty where there was none": {fields(), fields(identity(object{})), "NothingClaimed"},
		"no longer an object":        {fields(identity(keys)), fields(identity("keys")), "Undecodable"},
		"with the ID cleared":        {fields(identity(keys)), fields(instanceID(nil)), "NothingClaimed"},
	} {
		t.Run(name, func(t *testing.T) {
			old, changed := newMachine(append(fields(instanceID(foreignID)), tc.old...)...), newMachine(append(fields(instanceID(foreignID)), tc.changed...)...)
			if got, want := matches(t, old, changed), tc.want != "NothingClaimed"; got != want {
				t.Errorf("selected = %t, want %t", got, want)
			}
			w := newWorld()
			gate := newGate(w, openStackMachine)
			answer := gate.Review(t.Context(), admission.Request{AdmissionRequest: *review(t, old, changed, func(r *admissionv1.AdmissionRequest) {
				r.Resource.Resource = "openstackmachines"
			}).Request})
			if answer.Reason != tc.want {
				t.Errorf("Review() = %s: %s, want %s", answer.Reason, answer.Message, tc.want)
			}
			if tc.want != "InstanceNotOwned" {
				return
			}
			wantPrefix := `change of spec.identityRef of OpenStackMachine "` + machineName + `" of namespace "team-a", which names instance "` + foreignID + `": `
			if answer.Field != "spec.identityRef" || !strings.HasPrefix(answer.Text(), wantPrefix) {
				t.Errorf("field %s, message %q, want spec.identityRef and %q", answer.Field, answer.Text(), wantPrefix)
			}
		})
	}
}

// moveShapes are values of the parts of a claim other than the instance, also of wrong types.
func moveShapes() []func(object) {
	shapes := []func(object){func(object) {}, with("metadata.labels", nil), with("metadata.labels", "odd"), with("metadata.labels", []any{}), inOther}
	for _, value := range []any{nil, int64(5), true, object{}} {
		shapes = append(shapes, with("metadata.labels", object{"cluster.x-k8s.io/cluster-name": value}), with("spec.identityRef", value), with("spec.identityRef.name", value))
	}
	for _, value := range []any{
		nil, "odd", object{}, []any{}, []any{nil}, []any{"Machine"}, []any{int64(5), []any{}}, []any{object{}}, []any{object{"kind": "Machine"}},
		[]any{object{"kind": "Machine", "apiVersion": nil}}, []any{object{"kind": "Machine", "apiVersion": int64(5), "name": "a"}},
		[]any{object{"kind": "Machine", "apiVersion": "cluster.x-k8s.io/v1beta1"}}, []any{object{"kind": int64(5), "apiVersion": "cluster.x-k8s.io/v1beta1"}},
		[]any{object{"kind": "Machine", "apiVersion": "cluster.x-k8s.io/v1beta1", "name": int64(5)}}, []any{owner("cluster.x-k8s.io", "Machine", "a")},
		[]any{owner("cluster.x-k8s.io/a/b", "Machine", "a")}, []any{owner("cluster.x-k8s.io.evil/v1", "Machine", "a")},
		[]any{owner("v1", "Pod", "a"), owner("cluster.x-k8s.io/v1beta1", "Machine", "other")},
		[]any{owner("cluster.x-k8s.io/v1beta1", "Machine", "other"), owner("cluster.x-k8s.io/v1beta1", "Machine", "hl9tl")},
	} {
		shapes = append(shapes, with(references, value))
	}
	shapes = append(shapes, with("metadata", nil), with("metadata", "odd"), with("spec", "odd"))
	return shapes
}

// TestConditionsOfMoves tries every pair of values in the other parts of the claim of a machine with an ID: the conditions evaluate
// without an error, and the gate denies no request that they do not select.
func TestConditionsOfMoves(t *testing.T) {
	matches := matcher(t, openStackMachine)
	shapes := moveShapes()
	gate := newGate(newWorld(), openStackMachine)
	for i, before := range shapes {
		for j, after := range shapes {
			old, changed := newMachine(instanceID(foreignID), before), newMachine(instanceID(foreignID), after)
			sent := matches(t, old, changed)
			answer := gate.Review(t.Context(), admission.Request{AdmissionRequest: *review(t, old, changed, func(r *admissionv1.AdmissionRequest) {
				r.Resource.Resource = "openstackmachines"
			}).Request})
			// The API server rejects malformed metadata before admission.
			if !sent && answer.Reason != nothing.reason && answer.Reason != "Undecodable" && !undecodable(openStackMachine, encode(t, old)) {
				t.Errorf("from %v to %v (%d, %d): not selected, but %s", old, changed, i, j, answer.Reason)
			}
		}
	}
}

// TestConditionsOfFirstClaims tries every pair of values in the fields and the other parts of the claim of a machine without an instance ID.
// The API server calls the webhook for first claims for no request that the gate treats as another one.
func TestConditionsOfFirstClaims(t *testing.T) {
	selects := selector(t, openStackMachine)
	w := newWorld(func(w *world) {
		w.answers, w.err = nil, &ownership.UnknownError{Cause: ownership.CauseCloud, Err: errors.New("away")}
		w.owners["other"], w.owners["a"] = "metal", "metal"
	})
	gate := w.gateOn(v1beta1.Machine{Unknown: v1beta1.AdmitFirstClaims}, kindOf(openStackMachine))
	fields := []func(object){
		func(object) {}, instanceID(""), instanceID(nil), instanceID(int64(5)), instanceID("soon"), instanceID(ownID), providerID("cloudsigma://" + foreignID), providerID(int64(5)),
		providerID(nil), with("status", "odd"), with("status", nil), with("spec", []any{}), func(o object) { delete(o, "status") },
		func(o object) { instanceID(ownID)(o); providerID("cloudsigma://" + foreignID)(o) },
	}
	type pair struct{ old, changed object }
	var pairs []pair
	for _, before := range fields {
		for _, after := range fields {
			pairs = append(pairs, pair{newMachine(before), newMachine(after)}, pair{nil, newMachine(after)})
		}
	}
	shapes := moveShapes()
	for _, before := range shapes {
		for _, after := range shapes {
			pairs = append(pairs, pair{newMachine(before), newMachine(after, instanceID(ownID))})
		}
	}
	firsts := 0
	for _, p := range pairs {
		changed, first := selects(t, p.old, p.changed)
		answer := gate.Review(t.Context(), admission.Request{AdmissionRequest: *review(t, p.old, p.changed, func(r *admissionv1.AdmissionRequest) {
			r.Resource.Resource = "openstackmachines"
		}).Request})
		malformed := func(o object) bool { // the API server rejects it before admission, or the CRD has no types
			if strings.Contains(string(encode(t, o)), "x-k8s.io/a/b") {
				return true
			}
			_, err := clusterapi.DecodeMetadata(encode(t, o))
			withoutIdentity := openStackMachine
			withoutIdentity.IdentityRefPath = ""
			_, idErr := kindOf(withoutIdentity).Decode(encode(t, o))
			return o != nil && (err != nil || idErr == nil && undecodable(openStackMachine, encode(t, o)))
		}
		switch {
		case malformed(p.old) || malformed(p.changed):
		case first && (answer.Decision == webhooks.Undecided || answer.Reason == "Undecodable" || answer.Reason == nothing.reason):
			t.Errorf("from %v to %v: the webhook for first claims is called, but the gate answers %s", p.old, p.changed, answer.Reason)
		case changed && answer.Decision == webhooks.Warned:
			t.Errorf("from %v to %v: admitted as a first claim, but the webhook for changed claims is called", p.old, p.changed)
		case first:
			firsts++
		}
	}
	if firsts < 20 {
		t.Errorf("%d first claims of %d pairs, want more", firsts, len(pairs))
	}
}

// TestConditionsOfManyOwners checks that an object of the largest size is compared within the API server's cost limit, and in no more than
// some milliseconds.
func TestConditionsOfManyOwners(t *testing.T) {
	matches := matcher(t, kinds[0].MachineKind)
	many := func(count int, more ...any) func(object) {
		var list []any
		for i := range count {
			list = append(list, owner("cluster.x-k8s.io/v1", "Machine", fmt.Sprint(i)))
		}
		return with(references, append(list, more...))
	}
	blocking := owner("v1", "A", "a")
	blocking["blockOwnerDeletion"] = true
	for name, tc := range map[string]struct {
		old, changed func(object)
		want         bool
	}{
		"a heartbeat":                        {many(10_000), many(10_000), false},
		"another owner":                      {many(10_000), many(10_001), true},
		"more owners":                        {many(64), many(65), true},
		"fewer owners":                       {many(65), many(64), true},
		"none of many":                       {many(65), many(0), false},
		"another field of one of many":       {many(64, owner("v1", "A", "a")), many(64, blocking), true},
		"another field of one of as many":    {many(63, owner("v1", "A", "a")), many(63, blocking), false},
		"another owner beside as many":       {many(63, owner("v1", "A", "a")), many(64), true},
		"many owners, which name no Machine": {many(0), with(references, slices.Repeat([]any{blocking}, 20_000)), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := matches(t, newMachine(instanceID(ownID), tc.old), newMachine(instanceID(ownID), tc.changed)); got != tc.want {
				t.Errorf("selected: %t, want %t", got, tc.want)
			}
		})
	}
}

func undecodable(kind v1beta1.MachineKind, raw []byte) bool {
	_, err := kindOf(kind).Decode(raw)
	return err != nil
}

// capiMachine is the Machine that owns machines, changed by modify.
func capiMachine(modify ...func(object)) object {
	o := object{
		"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
		"metadata": object{
			"namespace": "team-a", "name": "hl9tl", "uid": "0eb3", "resourceVersion": "9", "labels": object{"cluster.x-k8s.io/cluster-name": "metal"},
			"ownerReferences": []any{object{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "name": "set", "uid": "5e7", "controller": true}},
		},
		"spec": object{"infrastructureRef": object{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CloudSigmaMachine", "name": machineName}},
	}
	for _, m := range modify {
		m(o)
	}
	return o
}

func ofCAPIMachine(r *admissionv1.AdmissionRequest) {
	r.Name = "hl9tl"
	r.Resource = metav1.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machines"}
}

func TestChangesOfTheOwner(t *testing.T) {
	const ofMachine, changed = `of Machine "hl9tl" of namespace "team-a": `, `label cluster.x-k8s.io/cluster-name "other" `
	machineOf := func(name, cluster, id string) clusterapi.Machine {
		m := clusterapi.Machine{Kind: kinds[0], InstanceID: id, ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
		if cluster != "" {
			m.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": cluster}
		}
		return m
	}
	owning := func(machines ...clusterapi.Machine) func(*world) { return func(w *world) { w.owned = machines } }
	same := outcome{decision: webhooks.Allowed, reason: "SameCluster"}
	denied := func(subject, names string) outcome {
		return outcome{reason: "OwnerClusterMismatch", field: clusterLabel, message: subject + ofMachine + `it owns ` + names +
			`, whose provider would act for the cluster of this label then; keep the label, or clear the instance and change the label of the machines that it owns first`}
	}
	matches := ownerMatcher(t, kinds[0].MachineKind)
	for name, tc := range map[string]struct {
		old, changed object
		world        func(*world)
		want         outcome
	}{
		"another label, and it owns a machine with an instance": {
			old: capiMachine(), changed: capiMachine(inOther), world: owning(machineOf("a", "metal", ownID)),
			want: denied(changed, `CloudSigmaMachine "a" of cluster "metal"`),
		},
		"another label, and it owns a machine without an instance": {
			old: capiMachine(), changed: capiMachine(inOther), world: owning(machineOf("a", "metal", "")),
			want: denied(changed, `CloudSigmaMachine "a" of cluster "metal"`),
		},
		"another label, and it owns many machines": {
			old: capiMachine(), changed: capiMachine(inOther),
			world: owning(machineOf("d", "metal", ""), machineOf("c", "metal", ""), machineOf("e", "metal", ""), machineOf("b", "metal", ""), machineOf("a", "other", "")),
			want:  denied(changed, `CloudSigmaMachine "b" of cluster "metal", CloudSigmaMachine "c" of cluster "metal", CloudSigmaMachine "d" of cluster "metal", 1 more`),
		},
		"another label, and it owns as many machines as a message names": {
			old: capiMachine(), changed: capiMachine(inOther),
			world: owning(machineOf("a", "metal", ""), machineOf("b", "metal", ""), machineOf("c", "metal", "")),
			want:  denied(changed, `CloudSigmaMachine "a" of cluster "metal", CloudSigmaMachine "b" of cluster "metal", CloudSigmaMachine "c" of cluster "metal"`),
		},
		"another label, and it owns a machine with a long name": {
			old: capiMachine(), changed: capiMachine(inOther), world: owning(machineOf(strings.Repeat("a", 100), "metal", ownID)),
			want: denied(changed, `CloudSigmaMachine "`+strings.Repeat("a", 100)+`" of cluster "metal"`),
		},
		"another label, and it owns a machine with a longer name": {
			old: capiMachine(), changed: capiMachine(inOther), world: owning(machineOf(strings.Repeat("a", 101), "metal", ownID)),
			want: denied(changed, `CloudSigmaMachine "`+strings.Repeat("a", 100)+`…" of cluster "metal"`),
		},
		"no label after the update": {
			old: capiMachine(), changed: capiMachine(with("metadata.labels", nil)), world: owning(machineOf("a", "metal", ownID)),
			want: denied(`label cluster.x-k8s.io/cluster-name "" `, `CloudSigmaMachine "a" of cluster "metal"`),
		},
		"another label, which the owned machine has, too": {
			old: capiMachine(), changed: capiMachine(inOther), world: owning(machineOf("a", "other", ownID)), want: same,
		},
		"another label, and it owns a machine without a cluster and an instance": {
			old: capiMachine(), changed: capiMachine(inOther), world: owning(machineOf("a", "", "")), want: same,
		},
		"another label, and it owns a machine without a cluster that names an instance": {
			old: capiMachine(), changed: capiMachine(inOther), world: owning(machineOf("a", "", ownID)),
			want: denied(changed, `CloudSigmaMachine "a" of cluster ""`),
		},
		"another label, and it owns no machine": {old: capiMachine(), changed: capiMachine(inOther), want: same},
		"another label, and the owned machines cannot be read": {
			old: capiMachine(), changed: capiMachine(inOther), world: func(w *world) { w.ownedErr = errors.New("etcd is away") },
			want: outcome{decision: webhooks.Undecided, reason: "ObjectsUnknown", field: clusterLabel, message: changed + ofMachine +
				"the machines that it owns cannot be read now; try again"},
		},
		"another label key": {
			old: capiMachine(), changed: capiMachine(with("spec.version", "v1.33")), world: owning(machineOf("a", "other", ownID)), want: nothing,
		},
		"a finalizer of a Machine that is being deleted": {
			old:     capiMachine(with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z"), with("metadata.finalizers", []any{"a"})),
			changed: capiMachine(with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z")), world: owning(machineOf("a", "other", ownID)), want: nothing,
		},
	} {
		for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn} {
			t.Run(fmt.Sprint(name, "/", mode), func(t *testing.T) {
				if got, want := matches(t, tc.old, tc.changed), tc.want.reason != nothing.reason; got != want {
					t.Errorf("selected = %t, want %t", got, want)
				}
				w := newWorld()
				if tc.world != nil {
					tc.world(w)
				}
				got := send(t, w.handler(mode, v1beta1.Deny), review(t, tc.old, tc.changed, ofCAPIMachine))
				if diff := cmp.Diff(tc.want.response(mode, v1beta1.Deny), got); diff != "" {
					t.Errorf("response (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(ownerEvents(tc.want, mode), w.events()); diff != "" {
					t.Errorf("Events (-want +got):\n%s", diff)
				}
				if len(w.decided) > 0 || (tc.want.reason == nothing.reason && w.reads > 0) {
					t.Errorf("%d reads, %v", w.reads, w.decided)
				}
			})
		}
	}
	deletion := func(r *admissionv1.AdmissionRequest) { r.Operation, r.Object.Raw = admissionv1.Delete, nil }
	for name, request := range map[string]admissionv1.AdmissionReview{
		"is deleted": review(t, capiMachine(), nil, ofCAPIMachine, deletion), "is created": review(t, nil, capiMachine(), ofCAPIMachine),
	} {
		t.Run(name, func(t *testing.T) {
			got := send(t, newWorld(owning(machineOf("a", "other", ownID))).handler(v1beta1.Enforce, v1beta1.Deny), request)
			if diff := cmp.Diff(nothing.response(v1beta1.Enforce, v1beta1.Deny), got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("cannot be read", func(t *testing.T) {
		got := send(t, newWorld().handler(v1beta1.Enforce, v1beta1.Deny), review(t, capiMachine(), capiMachine(with("metadata.labels", "odd")), ofCAPIMachine))
		if got.Allowed || got.Result.Code != 400 {
			t.Errorf("response = %v, want 400", got)
		}
	})
	t.Run("could not be read before", func(t *testing.T) {
		got := send(t, newWorld().handler(v1beta1.Enforce, v1beta1.Deny), review(t, capiMachine(with("metadata.labels", "odd")), capiMachine(), ofCAPIMachine))
		if diff := cmp.Diff(same.response(v1beta1.Enforce, v1beta1.Deny), got); diff != "" {
			t.Errorf("response (-want +got):\n%s", diff)
		}
	})
}

// ownerEvents are the Events on a Machine.
func ownerEvents(o outcome, mode v1beta1.Mode) []events.Event {
	all := o.events(mode, v1beta1.Deny, false)
	for i := range all {
		all[i].Object = corev1.ObjectReference{
			APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Namespace: "team-a", Name: "hl9tl", UID: "0eb3", ResourceVersion: "9",
		}
	}
	return all
}

// newGate is a gate of the world on machines of one kind.
func newGate(w *world, kind v1beta1.MachineKind) webhooks.Gate {
	return w.gateOn(v1beta1.Machine{}, kindOf(kind))
}
