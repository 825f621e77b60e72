package machine_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/cloudsigma"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Texts of denials and their Events.
const (
	advice       = `clear the field, so that the provider adopts an instance of the user or creates one`
	ofUser       = `of user "tenant@example.com" (` + userID + `), which cluster "metal" acts as`
	ownCandidate = `the user's own instance for this machine is ` + ownID + ` ("` + machineName + `"): name that, or `
	notChecked   = `it cannot be checked now whether the instance belongs to user "tenant@example.com", which cluster "metal" acts as: `
)

// errorOf is the text of a parser's error. The tests of the parser check it.
func errorOf(parse func(string) (string, error), value string) string {
	_, err := parse(value)
	return fmt.Sprint(err)
}

// of is the beginning of a message about a field.
func of(field, value string) string { return fmt.Sprintf("%s %q%s", field, value, ofMachine) }

// foreign is the denial of the incident, for the field that names the instance.
func foreign(field, value string) outcome {
	const what = `this instance of region "next" exists, but is not one ` + ofUser
	return outcome{
		reason: "InstanceNotOwned", field: field,
		message: of(field, value) + what + `; the cloud answered 403 permission, request id r-foreign; ` + ownCandidate + advice,
		event:   of(field, value) + what + `; ` + ownCandidate + advice,
		causes:  []metav1.StatusCause{{Type: "OwnInstance", Message: ownID}, {Type: "CloudRequest", Message: "r-foreign"}},
	}
}

func deniedBy(field, value, reason, text string) outcome {
	return outcome{reason: reason, field: field, message: of(field, value) + text}
}

// invalidBy is deniedBy for a value that is malformed.
func invalidBy(field, value, reason, text string) outcome {
	o := deniedBy(field, value, reason, text)
	o.status = metav1.StatusReasonInvalid
	return o
}

// unknownOwner is the answer without a verdict about the instance ID ownID.
func unknownOwner(cause ownership.Cause, requestID string) outcome {
	return unknownOwnerOf("status.instanceID", ownID, cause, requestID)
}

func unknownOwnerOf(field, value string, cause ownership.Cause, requestID string) outcome {
	o := outcome{
		decision: webhooks.Undecided, reason: "OwnershipUnknown", field: field, message: of(field, value) + notChecked + cause.Explain(),
		causes: []metav1.StatusCause{{Type: metav1.CauseType(cause), Message: cause.Explain()}},
	}
	if requestID != "" {
		o.event = o.message
		o.message += "; request id " + requestID
	}
	return o
}

// situation is a change of a machine in a world, and the outcome.
type situation struct {
	// old and changed are the fields. With onlyUpdate, the situation does not apply to the creation of a machine.
	old, changed []func(object)
	onlyUpdate   bool
	world        []func(*world)
	want         outcome
	// wantID is the instance of the request to the cloud, "" for none. wantAlso that of a second request.
	wantID   string
	wantAlso string
}

var (
	owned   = outcome{decision: webhooks.Allowed, reason: "Owned"}
	nothing = outcome{decision: webhooks.Allowed, reason: "NothingClaimed"}
	fields  = func(modify ...func(object)) []func(object) { return modify }
	worldOf = func(modify ...func(*world)) []func(*world) { return modify }
)

// situations are all kinds of changes of a machine.
func situations() map[string]situation {
	const instance, provider = "status.instanceID", "spec.providerID"
	bob := ownership.Account{Cloud: "cloudsigma", User: "bob@example.com", Region: "next"}
	noUser := &clusterapi.AccountError{Reason: clusterapi.UserMissing, Message: `CloudSigmaCluster "metal": it names no user`}
	unanswered := func(err error) func(*world) { return func(w *world) { w.answers, w.err = nil, err } }
	all := map[string]situation{
		// The owner of the instance.
		"the user's own":                       {changed: fields(instanceID(ownID)), want: owned, wantID: ownID},
		"the user's own, by provider ID":       {changed: fields(providerID("cloudsigma://" + ownID)), want: owned, wantID: ownID},
		"the user's own, by both IDs":          {changed: fields(instanceID(ownID), providerID("cloudsigma://"+ownID)), want: owned, wantID: ownID},
		"another user's":                       {changed: fields(instanceID(foreignID)), want: foreign(instance, foreignID), wantID: foreignID},
		"another user's, by provider ID":       {changed: fields(providerID("cloudsigma://" + foreignID)), want: foreign(provider, "cloudsigma://"+foreignID), wantID: foreignID},
		"another user's, in capitals":          {changed: fields(instanceID(strings.ToUpper(foreignID))), want: foreign(instance, strings.ToUpper(foreignID)), wantID: foreignID},
		"another user's, after the user's own": {old: fields(instanceID(ownID)), changed: fields(instanceID(foreignID)), onlyUpdate: true, want: foreign(instance, foreignID), wantID: foreignID},
		"the user's own, after another user's": {old: fields(instanceID(foreignID)), changed: fields(instanceID(ownID)), onlyUpdate: true, want: owned, wantID: ownID},
		"one that does not exist": {
			changed: fields(instanceID(absentID)), wantID: absentID,
			want: outcome{
				reason: "InstanceNotFound", field: instance,
				message: of(instance, absentID) + `there is no such instance in region "next" of user "tenant@example.com", which cluster "metal" acts as; ` +
					`the cloud answered 404 not found; ` + advice,
				event: of(instance, absentID) + `there is no such instance in region "next" of user "tenant@example.com", which cluster "metal" acts as; ` + advice,
			},
		},
		"one that does not exist, by provider ID": {
			changed: fields(providerID("cloudsigma://" + absentID)), wantID: absentID,
			want: outcome{
				reason: "InstanceNotFound", field: provider,
				message: of(provider, "cloudsigma://"+absentID) + `there is no such instance in region "next" of user "tenant@example.com", which cluster "metal" acts as; ` +
					`the cloud answered 404 not found; ` + advice,
				event: of(provider, "cloudsigma://"+absentID) + `there is no such instance in region "next" of user "tenant@example.com", which cluster "metal" acts as; ` + advice,
			},
		},
		// There is no verdict.
		"the cloud does not respond": {
			changed: fields(instanceID(ownID)), wantID: ownID, want: unknownOwner(ownership.CauseCloud, "r-503"),
			world: worldOf(unanswered(&ownership.UnknownError{Cause: ownership.CauseCloud, RequestID: "r-503", Err: errors.New("503")})),
		},
		"the cloud does not respond about a provider ID": {
			changed: fields(providerID("cloudsigma://" + ownID)), wantID: ownID, want: unknownOwnerOf(provider, "cloudsigma://"+ownID, ownership.CauseCloud, "r-503"),
			world: worldOf(unanswered(&ownership.UnknownError{Cause: ownership.CauseCloud, RequestID: "r-503", Err: errors.New("503")})),
		},
		"the identity provider does not respond": {
			changed: fields(instanceID(ownID)), wantID: ownID, want: unknownOwner(ownership.CauseIdentityProvider, ""),
			world: worldOf(unanswered(&ownership.UnknownError{Cause: ownership.CauseIdentityProvider, Err: errors.New("no route to host")})),
		},
		"the cloud limits the rate of requests": {
			changed: fields(instanceID(ownID)), wantID: ownID, want: unknownOwner(ownership.CauseRateLimited, ""),
			world: worldOf(unanswered(&ownership.UnknownError{Cause: ownership.CauseRateLimited, Err: errors.New("429")})),
		},
		"an error of another kind": {
			changed: fields(instanceID(ownID)), wantID: ownID, want: unknownOwner(ownership.CauseCloud, ""),
			world: worldOf(unanswered(errors.New("boom"))),
		},
		"the region is not allowed": {
			changed: fields(instanceID(ownID)), wantID: ownID,
			want: deniedBy(instance, ownID, "RegionNotAllowed", `spec.region of CloudSigmaCluster "metal": region "zrh" is none of those configured (next)`),
			world: worldOf(unanswered(&ownership.UnknownError{
				Cause: ownership.CauseCloud, Err: &ownership.RegionError{Region: "zrh", Allowed: []string{"next"}},
			})),
		},
		// Malformed IDs.
		"a malformed ID": {changed: fields(instanceID("soon")), want: invalidBy(instance, "soon", "InstanceIDInvalid", errorOf(ownership.ParseInstanceID, "soon"))},
		"a blank":        {changed: fields(instanceID(" ")), want: invalidBy(instance, " ", "InstanceIDInvalid", errorOf(ownership.ParseInstanceID, " "))},
		"a malformed provider ID": {
			changed: fields(providerID("openstack:///" + ownID)),
			want:    invalidBy(provider, "openstack:///"+ownID, "ProviderIDInvalid", errorOf(cloudsigma.ProviderIDs.Parse, "openstack:///"+ownID)),
		},
		"the user's own, with a malformed provider ID": {
			changed: fields(instanceID(ownID), providerID(ownID)),
			want:    invalidBy(provider, ownID, "ProviderIDInvalid", errorOf(cloudsigma.ProviderIDs.Parse, ownID)),
		},
		"both IDs malformed": {
			changed: fields(instanceID("x"), providerID("y")),
			want:    invalidBy(instance, "x", "InstanceIDInvalid", errorOf(ownership.ParseInstanceID, "x")),
		},
		// The order of writes of a provider that replaces a server: the instance ID first, then the provider ID.
		"the user's own, while the provider ID names the former instance": {
			old: fields(providerID("cloudsigma://" + foreignID)), changed: fields(instanceID(ownID), providerID("cloudsigma://"+foreignID)), onlyUpdate: true,
			want: owned, wantID: ownID,
		},
		"the user's own after another, while the provider ID names the former instance": {
			old: fields(instanceID(foreignID), providerID("cloudsigma://"+foreignID)), changed: fields(instanceID(ownID), providerID("cloudsigma://"+foreignID)),
			onlyUpdate: true, want: owned, wantID: ownID,
		},
		"the provider ID of the stored instance": {
			old:     fields(instanceID(foreignID), providerID("cloudsigma://"+ownID)),
			changed: fields(instanceID(foreignID), providerID("cloudsigma://"+foreignID)), onlyUpdate: true, want: nothing,
		},
		"the provider ID of another instance than the stored one": {
			old: fields(instanceID(ownID)), changed: fields(instanceID(ownID), providerID("cloudsigma://"+foreignID)), onlyUpdate: true,
			want: foreign(provider, "cloudsigma://"+foreignID), wantID: foreignID,
		},
		"the provider ID of the user's own, with another instance ID": {
			old: fields(instanceID(foreignID)), changed: fields(instanceID(foreignID), providerID("cloudsigma://"+ownID)), onlyUpdate: true,
			want: owned, wantID: ownID,
		},
		"a provider ID, with a malformed instance ID": {
			old: fields(instanceID("soon")), changed: fields(instanceID("soon"), providerID("cloudsigma://"+ownID)), onlyUpdate: true, want: owned, wantID: ownID,
		},
		"two instances": {
			changed: fields(instanceID(ownID), providerID("cloudsigma://"+foreignID)), want: foreign(provider, "cloudsigma://"+foreignID),
			wantID: ownID, wantAlso: foreignID,
		},
		"two instances, of which the first is another user's": {
			changed: fields(instanceID(foreignID), providerID("cloudsigma://"+ownID)), want: foreign(instance, foreignID), wantID: foreignID,
		},
		"a very long value": {
			changed: fields(instanceID(strings.Repeat("é", 1000))),
			want: outcome{status: metav1.StatusReasonInvalid, reason: "InstanceIDInvalid", field: instance, message: of(instance, strings.Repeat("é", 50)+"…") +
				errorOf(ownership.ParseInstanceID, strings.Repeat("é", 1000))},
		},
		// The cluster of the machine.
		"no label": {
			old: fields(with("metadata.labels", nil)), changed: fields(instanceID(ownID), with("metadata.labels", nil)),
			want: deniedBy(instance, ownID, "MachineWithoutCluster",
				`it has no label cluster.x-k8s.io/cluster-name, so the user that its provider acts as is unknown; set the label first`),
		},
		"a cluster that names no user": {
			changed: fields(instanceID(ownID)), world: worldOf(func(w *world) { w.accountErr = noUser }),
			want: deniedBy(instance, ownID, "UserMissing", `the user that its provider acts as is unknown: CloudSigmaCluster "metal": it names no user`),
		},
		"a cluster that cannot be read": {
			changed: fields(instanceID(ownID)), world: worldOf(func(w *world) { w.accountErr = errors.New("etcd is away") }),
			want: outcome{
				decision: webhooks.Undecided, reason: "ObjectsUnknown", field: instance,
				message: of(instance, ownID) + "the cluster of the machine cannot be read now; try again",
			},
		},
		// Another machine names it.
		"another machine's": {
			changed: fields(instanceID(ownID)), world: worldOf(held("team-a", "hl9tl-g2b7h")),
			want: deniedBy(instance, ownID, "InstanceIDConflict", `CloudSigmaMachine "hl9tl-g2b7h" names this instance already, and an instance can belong to one machine only; `+
				`clear the field of the machine that it does not belong to`),
		},
		"a machine's of another namespace, whose name is not disclosed": {
			changed: fields(instanceID(ownID)), world: worldOf(held("team-b", "hl9tl-g2b7h")),
			want: deniedBy(instance, ownID, "InstanceIDConflict", `a machine of another namespace names this instance already, and an instance can belong to one machine only; `+
				`clear the field of the machine that it does not belong to`),
		},
		"one that a machine of another user names, too": {
			changed: fields(instanceID(ownID)), world: worldOf(held("team-b", "squatter"), actsAs(bob, nil)), want: owned, wantID: ownID,
		},
		"one that a machine of nobody names, too": {
			changed: fields(instanceID(ownID)), world: worldOf(held("team-b", "squatter"), actsAs(ownership.Account{}, noUser)), want: owned, wantID: ownID,
		},
		"one that a machine of the same user names, too, in other letters": {
			changed: fields(instanceID(ownID)),
			world:   worldOf(held("team-b", "squatter"), actsAs(ownership.Account{Cloud: "cloudsigma", User: strings.ToUpper(account.User)}, nil)),
			want: deniedBy(instance, ownID, "InstanceIDConflict", `a machine of another namespace names this instance already, and an instance can belong to one machine only; `+
				`clear the field of the machine that it does not belong to`),
		},
		"one that a machine names, too, whose user cannot be read": {
			changed: fields(instanceID(ownID)), world: worldOf(held("team-b", "squatter"), actsAs(ownership.Account{}, errors.New("etcd is away"))),
			want: deniedBy(instance, ownID, "InstanceIDConflict", `a machine of another namespace names this instance already, and an instance can belong to one machine only; `+
				`clear the field of the machine that it does not belong to`),
		},
		"machines that cannot be read": {
			changed: fields(instanceID(ownID)), world: worldOf(func(w *world) { w.holderErr = errors.New("not synced") }),
			want: outcome{
				decision: webhooks.Undecided, reason: "ObjectsUnknown", field: instance,
				message: of(instance, ownID) + "it cannot be checked now whether another machine names the instance; try again",
			},
		},
		// No instance is named.
		"nothing":       {want: nothing},
		"null":          {changed: fields(instanceID(nil), with("spec", nil)), want: nothing},
		"an empty text": {changed: fields(instanceID(""), providerID("")), want: nothing},
		"cleared":       {old: fields(instanceID(foreignID)), changed: nil, onlyUpdate: true, want: nothing},
		"cleared with an empty text": {
			old: fields(instanceID(foreignID), providerID("cloudsigma://"+foreignID)), changed: fields(instanceID(""), providerID("cloudsigma://"+foreignID)), onlyUpdate: true,
			want: nothing,
		},
		"a provider ID that is cleared": {old: fields(providerID("cloudsigma://" + foreignID)), changed: nil, onlyUpdate: true, want: nothing},
		"a provider ID that is cleared with an empty text": {
			old: fields(instanceID(foreignID), providerID("cloudsigma://"+foreignID)), changed: fields(instanceID(foreignID), providerID("")), onlyUpdate: true,
			want: nothing,
		},
		"an unchanged provider ID, and another user's": {
			old: fields(providerID("cloudsigma://" + foreignID)), changed: fields(providerID("cloudsigma://"+foreignID), with("spec.flavor", "metal")),
			onlyUpdate: true, want: nothing,
		},
		"cleared, after a malformed ID": {old: fields(instanceID("soon")), changed: fields(instanceID(nil)), onlyUpdate: true, want: nothing},
		"unchanged": {
			old: fields(instanceID(ownID), providerID("cloudsigma://"+ownID)), changed: fields(instanceID(ownID), providerID("cloudsigma://"+ownID)),
			onlyUpdate: true, want: nothing,
		},
		"unchanged, and another user's": {old: fields(instanceID(foreignID)), changed: fields(instanceID(foreignID), with("status.instanceState", "x")), onlyUpdate: true, want: nothing},
		"unchanged, and malformed":      {old: fields(instanceID("soon")), changed: fields(instanceID("soon")), onlyUpdate: true, want: nothing},
		"unchanged, and two IDs that differ": {
			old: fields(instanceID(ownID), providerID("cloudsigma://"+foreignID)), changed: fields(instanceID(ownID), providerID("cloudsigma://"+foreignID)),
			onlyUpdate: true, want: nothing,
		},
		"a finalizer is removed from a machine without cluster": {
			old:     fields(instanceID(foreignID), with("metadata.labels", nil), with("metadata.finalizers", []any{"capcs"}), with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z")),
			changed: fields(instanceID(foreignID), with("metadata.labels", nil), with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z")),
			want:    nothing, onlyUpdate: true,
		},
		"a malformed ID is corrected": {old: fields(instanceID(int64(5))), changed: fields(instanceID(ownID)), onlyUpdate: true, want: owned, wantID: ownID},
	}
	maps.Copy(all, moves())
	return all
}

func held(namespace, name string) func(*world) {
	return func(w *world) {
		w.holder = &clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Kind: kinds[0]}
	}
}

// actsAs sets the account of the machine that holds the instance.
func actsAs(account ownership.Account, err error) func(*world) {
	return func(w *world) { w.holderAccount = func() (ownership.Account, error) { return account, err } }
}

// TestVerdicts compares the whole answer for each situation, by each kind of write and in each mode.
func TestVerdicts(t *testing.T) {
	ways := map[string]struct {
		create bool
		modify []func(*admissionv1.AdmissionRequest)
	}{
		"create": {create: true}, "update": {}, "update of the status": {modify: []func(*admissionv1.AdmissionRequest){ofStatus}},
	}
	for name, s := range situations() {
		for way, write := range ways {
			if write.create && s.onlyUpdate {
				continue
			}
			for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit, v1beta1.AdmitFirstClaims} {
				for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn, v1beta1.Off} {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", name, way, mode, policy), func(t *testing.T) {
						old := newMachine(s.old...)
						if write.create {
							old = nil
						}
						w := newWorld(s.world...)
						got := send(t, w.handler(mode, policy), review(t, old, newMachine(s.changed...), write.modify...))
						want, wantClaims := s.want, claimsOf(s, write.create)
						want.first = s.isFirst(write.create)
						if mode == v1beta1.Off {
							want, wantClaims = outcome{decision: webhooks.Allowed, reason: "Off"}, nil
						}
						if diff := cmp.Diff(want.response(mode, policy), got); diff != "" {
							t.Errorf("response (-want +got):\n%s", diff)
						}
						if diff := cmp.Diff(want.events(mode, policy, write.create), w.events()); diff != "" {
							t.Errorf("Events (-want +got):\n%s", diff)
						}
						if diff := cmp.Diff(wantClaims, w.decided); diff != "" {
							t.Errorf("claims (-want +got):\n%s", diff)
						}
						if len(w.preview) > 0 || len(w.first) > 0 && !want.first || len(w.first) < len(w.decided) && want.first {
							t.Errorf("of %v, %v was requested as a first claim, and %v as on a dry run; want a first claim: %t", w.decided, w.first, w.preview, want.first)
						}
						if want.reason == nothing.reason && w.reads > 0 {
							t.Errorf("%d reads of other objects, want none if nothing is claimed", w.reads)
						}
					})
				}
			}
		}
	}
}

// isFirst reports whether a claim is the first one of a machine: an update of one that had no instance ID, and that changes nothing else.
func (s situation) isFirst(created bool) bool {
	id, _, err := unstructured.NestedString(newMachine(s.old...), "status", "instanceID")
	return !created && err == nil && id == ""
}

// claimsOf are the claims in requests to the cloud. They have no UID if the machine is created, because each attempt has another one.
func claimsOf(s situation, created bool) []ownership.Claim {
	if s.wantID == "" {
		return nil
	}
	claim := ownership.Claim{Account: account, ID: s.wantID, Name: machineName, MachineUID: "6a1b"}
	if created {
		claim.MachineUID = ""
	}
	claims := []ownership.Claim{claim}
	if s.wantAlso != "" {
		claim.ID = s.wantAlso
		claims = append(claims, claim)
	}
	return claims
}

// A kind with the ID in spec has the same answers, with the paths of its fields.
func TestAConfiguredKind(t *testing.T) {
	w := newWorld()
	changed := newMachine(with("spec.instanceID", foreignID), with("status.instanceID", ownID))
	got := send(t, w.handler(v1beta1.Enforce, v1beta1.Deny), review(t, newMachine(), changed, ofMetalMachine))
	want := foreign("spec.instanceID", foreignID)
	want.message = strings.Replace(want.message, "CloudSigmaMachine", "MetalMachine", 1)
	if diff := cmp.Diff(want.response(v1beta1.Enforce, v1beta1.Deny), got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

// TestMachinesOfAProviderAreNoOwners has a kind with the resource name of Cluster API's own kind.
func TestMachinesOfAProviderAreNoOwners(t *testing.T) {
	kind := metalMachine
	kind.Resource = "machines"
	changed := newMachine(with("spec.instanceID", foreignID), with("status.instanceID", ownID))
	requested := review(t, newMachine(), changed, func(r *admissionv1.AdmissionRequest) {
		r.Resource = metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource}
	})
	answer := newGate(newWorld(), kind).Review(t.Context(), admission.Request{AdmissionRequest: *requested.Request})
	if answer.Reason != "InstanceNotOwned" {
		t.Errorf("reason = %s, want InstanceNotOwned: %s", answer.Reason, answer.Message)
	}
}

func TestRequestsThatCannotBeEvaluated(t *testing.T) {
	raw := func(body string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(body) }
	}
	for name, tc := range map[string]struct {
		modify  func(*admissionv1.AdmissionRequest)
		reason  string
		message string
	}{
		"another resource": {
			modify: func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "pods" }, reason: "UnknownKind",
			message: `pods of group "infrastructure.cluster.x-k8s.io" is not a configured kind of machines`,
		},
		"another group": {
			modify: func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "" }, reason: "UnknownKind",
			message: `cloudsigmamachines of group "" is not a configured kind of machines`,
		},
		"another resource of Cluster API": {
			modify: func(r *admissionv1.AdmissionRequest) {
				r.Resource.Group, r.Resource.Resource = "cluster.x-k8s.io", "machinesets"
			},
			reason: "UnknownKind", message: `machinesets of group "cluster.x-k8s.io" is not a configured kind of machines`,
		},
		"machines of another group": {
			modify: func(r *admissionv1.AdmissionRequest) {
				r.Resource.Group, r.Resource.Resource = "example.com", "machines"
			},
			reason: "UnknownKind", message: `machines of group "example.com" is not a configured kind of machines`,
		},
		"a list": {
			modify: raw(`[]`), reason: "Undecodable",
			message: "decode the CloudSigmaMachine: it is not an object",
		},
		"a number for an ID": {
			modify: raw(`{"status":{"instanceID":5}}`), reason: "Undecodable",
			message: "decode the CloudSigmaMachine: status.instanceID is float64 where a string belongs",
		},
		"a text for a spec": {
			modify: raw(`{"spec":"x"}`), reason: "Undecodable",
			message: "decode the CloudSigmaMachine: spec.providerID cannot be read: the field above it is not an object",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			got := send(t, w.handler(v1beta1.Enforce, v1beta1.Admit), review(t, newMachine(), newMachine(), tc.modify))
			want := outcome{status: metav1.StatusReasonBadRequest, reason: tc.reason, message: tc.message}
			if diff := cmp.Diff(want.response(v1beta1.Enforce, v1beta1.Admit), got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if len(w.decided) > 0 || w.reads > 0 {
				t.Errorf("%v was requested, and %d objects were read", w.decided, w.reads)
			}
		})
	}
}

func TestADeletionIsNeverDenied(t *testing.T) {
	deletion := func(r *admissionv1.AdmissionRequest) {
		r.Operation, r.Object.Raw = admissionv1.Delete, nil
	}
	w := newWorld(func(w *world) { w.answers, w.err = nil, errors.New("the cloud is away") })
	got := send(t, w.handler(v1beta1.Enforce, v1beta1.Deny), review(t, newMachine(instanceID(foreignID)), nil, deletion))
	if diff := cmp.Diff(nothing.response(v1beta1.Enforce, v1beta1.Deny), got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

// The object may omit the namespace and name of the request.
func TestAnObjectWithoutNamespaceAndName(t *testing.T) {
	w := newWorld()
	changed := newMachine(instanceID(foreignID), with("metadata.namespace", nil), with("metadata.name", nil))
	got := send(t, w.handler(v1beta1.Enforce, v1beta1.Deny), review(t, newMachine(), changed))
	if diff := cmp.Diff(foreign("status.instanceID", foreignID).response(v1beta1.Enforce, v1beta1.Deny), got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestADryRunHasNoSideEffects(t *testing.T) {
	for name, tc := range map[string]struct {
		id   string
		want outcome
	}{
		"admitted": {ownID, owned}, "denied": {foreignID, foreign("status.instanceID", foreignID)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			got := send(t, w.handler(v1beta1.Enforce, v1beta1.Deny), review(t, newMachine(), newMachine(instanceID(tc.id)), dryRun))
			if diff := cmp.Diff(tc.want.response(v1beta1.Enforce, v1beta1.Deny), got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if len(w.events()) > 0 || len(w.decided) > 0 {
				t.Errorf("Events = %v, cached claims = %v, want none", w.events(), w.decided)
			}
			if diff := cmp.Diff([]ownership.Claim{{Account: account, ID: tc.id, Name: machineName, MachineUID: "6a1b"}}, w.preview); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// onOpenStack is a world in which clusters have their own credentials.
func onOpenStack(modify func(*world)) func(*world) {
	return func(w *world) {
		w.account = ownership.Account{Cloud: "openstack", Identity: ownership.Identity{Namespace: "team-a", Secret: "keys", Entry: "tenant"}}
		modify(w)
	}
}

// If a cluster or a machine has its own credentials, a denial names these, and what acts with them.
func TestDenialsWithCredentials(t *testing.T) {
	const whose = `the project of cloud "tenant" of Secret "keys"`
	for name, tc := range map[string]struct {
		world        func(*world)
		reason, want string
	}{
		"another project's": {
			world: func(w *world) {
				w.answers = map[string]ownership.Answer{foreignID: {Verdict: ownership.Foreign, UserID: "p1", Response: "200, owned by another project"}}
			},
			reason: "InstanceNotOwned",
			want: "this instance of the region of its credentials exists, but is not one of " + whose + ` (p1), with which cluster "metal" acts; ` +
				"the cloud answered 200, owned by another project; clear the field, so that the provider adopts an instance of the user or creates one",
		},
		"no verdict": {
			world: func(w *world) {
				w.answers, w.err = nil, &ownership.UnknownError{Cause: ownership.CauseCloud, Err: errors.New("500")}
			},
			reason: "OwnershipUnknown",
			want: "it cannot be checked now whether the instance belongs to " + whose + `, with which cluster "metal" acts: ` +
				"the cloud is unavailable or its response is invalid; try again",
		},
		"credentials that cannot be used": {
			world: func(w *world) {
				w.answers, w.err = nil, &ownership.IdentityError{Reason: "IdentityDenied", Message: "renew the Secret"}
			},
			reason: "IdentityDenied", want: "the owner of the instance cannot be checked: renew the Secret",
		},
		"a region that does not exist": {
			world: func(w *world) {
				w.answers, w.err = nil, &ownership.RegionError{Region: "west", Allowed: []string{"east"}}
			},
			reason: "RegionNotAllowed",
			want:   `the region with which cluster "metal" acts: region "west" is none of those configured (east)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := kinds[0]
			kind.IdentityRefPath = "spec.identityRef"
			for acting, identity := range map[string]any{`cluster "metal"`: nil, "this machine": object{"name": "keys", "cloudName": "tenant"}} {
				own := with("spec.identityRef", identity)
				requested := review(t, newMachine(own), newMachine(own, instanceID(foreignID)))
				answer := newWorld(onOpenStack(tc.world)).gateOn(v1beta1.Machine{}, kind).Review(t.Context(), admission.Request{AdmissionRequest: *requested.Request})
				want := strings.Replace(tc.want, `cluster "metal"`, acting, 1)
				if _, message, _ := strings.Cut(answer.Text(), `": `); answer.Reason != tc.reason || !strings.HasSuffix(answer.Text(), want) {
					t.Errorf("Review() = %s: %q, want %s: %q", answer.Reason, message, tc.reason, want)
				}
			}
		})
	}
}

// Several clusters can act in one project. A machine of another project must not block the owner.
func TestHoldersWithCredentials(t *testing.T) {
	theirs := ownership.Account{Cloud: "openstack", Identity: ownership.Identity{Namespace: "team-b", Secret: "keys", Entry: "tenant"}}
	for name, tc := range map[string]struct {
		namespace  string // default: team-b
		accountErr error
		verdict    ownership.Verdict
		err        error
		cloudErr   error // the answer about the machine's own account
		wantReason string
		wantAsked  bool // about the account of the holder
		wantOwn    bool // about the machine's own account, before the gate decides about that
	}{
		"of the same namespace":           {namespace: "team-a", verdict: ownership.Absent, wantReason: "InstanceIDConflict"},
		"of the same project":             {verdict: ownership.Owned, wantReason: "InstanceIDConflict", wantAsked: true},
		"of another project":              {verdict: ownership.Absent, wantReason: "Owned", wantAsked: true},
		"of an administrator":             {verdict: ownership.Foreign, wantReason: "Owned", wantAsked: true},
		"with unusable credentials":       {err: &ownership.IdentityError{Reason: "IdentityDenied"}, wantReason: "Owned", wantAsked: true},
		"in a region that does not exist": {err: &ownership.RegionError{Region: "west"}, wantReason: "Owned", wantAsked: true},
		"without an answer":               {err: &ownership.UnknownError{Cause: ownership.CauseTimeout}, wantReason: "Owned", wantAsked: true, wantOwn: true},
		"without a lookup":                {err: &ownership.UnknownError{Cause: ownership.CauseTenantBusy}, wantReason: "Owned", wantAsked: true, wantOwn: true},
		"without an answer, like the owner": {
			err: &ownership.UnknownError{Cause: ownership.CauseTimeout}, cloudErr: &ownership.UnknownError{Cause: ownership.CauseTimeout},
			wantReason: "InstanceIDConflict", wantAsked: true, wantOwn: true,
		},
		"without credentials":          {accountErr: &clusterapi.AccountError{Reason: clusterapi.IdentityMissing}, wantReason: "Owned"},
		"whose cluster cannot be read": {accountErr: errors.New("etcd is away"), wantReason: "InstanceIDConflict"},
		"of another project, while the owner is unknown": {
			verdict: ownership.Absent, cloudErr: &ownership.UnknownError{Cause: ownership.CauseCloud}, wantReason: "InstanceIDConflict", wantAsked: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.namespace == "" {
				tc.namespace = "team-b"
			}
			w := newWorld(held(tc.namespace, "squatter"), actsAs(theirs, tc.accountErr), onOpenStack(func(w *world) {
				w.holderAnswer = func() (ownership.Answer, error) { return ownership.Answer{Verdict: tc.verdict}, tc.err }
				if tc.cloudErr != nil {
					w.answers, w.err = nil, tc.cloudErr
				}
			}))
			requested := review(t, newMachine(), newMachine(instanceID(ownID)))
			answer := w.gate(v1beta1.Machine{Unknown: v1beta1.AdmitFirstClaims}).Review(t.Context(), admission.Request{AdmissionRequest: *requested.Request})
			if answer.Reason != tc.wantReason {
				t.Errorf("Review() = %s: %s, want %s", answer.Reason, answer.Message, tc.wantReason)
			}
			var want []ownership.Claim // of a holder nothing but denials may be remembered, and its own instances are not listed
			if tc.wantAsked {
				want = []ownership.Claim{{Account: theirs, ID: ownID}}
			}
			if tc.wantOwn {
				want = append(want, ownership.Claim{Account: w.account, ID: ownID, Name: machineName, MachineUID: "6a1b"})
			}
			if diff := cmp.Diff(want, w.preview); diff != "" {
				t.Errorf("claims of the holder (-want +got):\n%s", diff)
			}
		})
	}
}

// The operator's log contains details that the requester must not see, with the same decision.
func TestDetailsForTheOperator(t *testing.T) {
	for name, tc := range map[string]struct {
		id    string
		world func(*world)
		want  []any
	}{
		"a verdict": {
			id: foreignID,
			want: []any{
				"cluster", "metal", "instance", foreignID, "verdict", ownership.Foreign, "cloud", "cloudsigma", "region", "next",
				"user", "tenant@example.com", "cloudRequestID", "r-foreign", "cloudResponse", "403 permission",
			},
		},
		"a verdict about the credentials of a cluster": {
			id: foreignID, world: onOpenStack(func(w *world) {
				w.answers = map[string]ownership.Answer{foreignID: {Verdict: ownership.Foreign, UserID: "p1", CreatorID: "u2", Response: "200", RequestID: "r1"}}
			}),
			want: []any{
				"cluster", "metal", "instance", foreignID, "verdict", ownership.Foreign, "cloud", "openstack", "region", "",
				"secret", "keys", "cloudName", "tenant", "cloudRequestID", "r1", "cloudResponse", "200", "creator", "u2",
			},
		},
		"no verdict": {
			id: ownID,
			world: func(w *world) {
				w.answers, w.err = nil, &ownership.UnknownError{Cause: ownership.CauseCredentials, RequestID: "r1", Err: errors.New("invalid_client")}
			},
			want: []any{
				"cluster", "metal", "cause", ownership.CauseCredentials, "cloud", "cloudsigma", "region", "next",
				"user", "tenant@example.com", "cloudRequestID", "r1", "error", "CredentialsDenied: invalid_client",
			},
		},
		"a machine of another namespace": {
			id: ownID, world: held("team-b", "g2b7h"),
			want: []any{"cluster", "metal", "instance", ownID, "holder", `CloudSigmaMachine "g2b7h" of namespace "team-b"`},
		},
		"objects that cannot be read": {
			id: ownID, world: func(w *world) { w.holderErr = errors.New("not synced") },
			want: []any{"cluster", "metal", "error", "not synced"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if tc.world != nil {
				tc.world(w)
			}
			requested := review(t, newMachine(), newMachine(instanceID(tc.id)))
			answer := w.gate(v1beta1.Machine{}).Review(t.Context(), admission.Request{AdmissionRequest: *requested.Request})
			if diff := cmp.Diff(tc.want, answer.Details()); diff != "" {
				t.Errorf("Details() (-want +got):\n%s", diff)
			}
		})
	}
}
