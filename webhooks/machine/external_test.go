package machine_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	crwebhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// awsMachine is a kind of an external provider.
var awsMachine = func() clusterapi.Kind {
	parse, err := ownership.ExternalIDs(`aws:///[^/]+/(i-[0-9a-f]+)`)
	if err != nil {
		panic(err)
	}
	return clusterapi.Kind{
		MachineKind: v1beta1.MachineKind{
			Group: "aws.example.com", Version: "v1", Kind: "AWSMachine", Resource: "awsmachines", ProviderIDPath: "spec.providerID", Provider: "external-aws",
		},
		ParseInstanceID: ownership.ParseInstanceID, ParseProviderID: parse,
	}
}()

func ofAWSMachine(request *admissionv1.AdmissionRequest) {
	request.Resource = metav1.GroupVersionResource{Group: "aws.example.com", Version: "v1", Resource: "awsmachines"}
}

// An object of an external provider needs no cluster, owner or account: only the holder is read.
func TestExternalIDs(t *testing.T) {
	const (
		id      = "aws:///eu-1a/i-0a1b"
		subject = `spec.providerID "` + id + `" of AWSMachine "` + machineName + `" of namespace "team-a": `
	)
	held := func(w *world) {
		w.holder = &clusterapi.Machine{Kind: awsMachine, ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "their-machine"}}
	}
	named := newMachine(providerID(id))
	bare := func(o object) {
		metadata := o["metadata"].(object) //nolint:errcheck,forcetypeassert // newMachine writes it
		delete(metadata, "labels")
		delete(metadata, "ownerReferences")
	}
	for name, tc := range map[string]struct {
		world        func(*world)
		old, changed object
		reason, code string // of the answer; code is "" if it is allowed
		message      string // "" for any
		wantReads    int
	}{
		"a first ID":                          {old: newMachine(bare), changed: newMachine(bare, providerID(id)), reason: "NotHeld", wantReads: 1},
		"a creation with an ID":               {changed: newMachine(bare, providerID(id)), reason: "NotHeld", wantReads: 1},
		"another ID":                          {old: newMachine(providerID("aws:///eu-1a/i-9")), changed: named, reason: "NotHeld", wantReads: 1},
		"a heartbeat":                         {world: held, old: named, changed: newMachine(providerID(id), with("status.beat", 1)), reason: "NothingClaimed"},
		"a finalizer":                         {world: held, old: named, changed: newMachine(providerID(id), with("metadata.finalizers", nil)), reason: "NothingClaimed"},
		"another cluster":                     {world: held, old: named, changed: newMachine(providerID(id), with("metadata.labels", nil)), reason: "NothingClaimed"},
		"another owner":                       {world: held, old: named, changed: newMachine(providerID(id), with("metadata.ownerReferences", nil)), reason: "NothingClaimed"},
		"an update of one that is deleted":    {world: held, old: named, changed: newMachine(providerID(id), with("metadata.deletionTimestamp", "2026-02-04T12:03:29Z")), reason: "NothingClaimed"},
		"the ID is cleared":                   {world: held, old: named, changed: newMachine(), reason: "NothingClaimed"},
		"an ID of the field of other kinds":   {world: held, old: newMachine(), changed: newMachine(instanceID(ownID)), reason: "NothingClaimed"},
		"an ID held in another namespace":     {world: held, old: newMachine(), changed: named, reason: "InstanceIDConflict", code: "Forbidden", wantReads: 1, message: subject + "it is held by an object of another namespace, and an instance can belong to one namespace only; ask your administrator which of them it belongs to"},
		"a creation with one":                 {world: held, changed: named, reason: "InstanceIDConflict", code: "Forbidden", wantReads: 1},
		"one held there, in another spelling": {world: held, old: named, changed: newMachine(providerID(" AWS:///eu-1b/I-0A1B ")), reason: "InstanceIDConflict", code: "Forbidden", wantReads: 1},
		"objects are not known": {
			world: func(w *world) { w.holderErr = errors.New("not read yet") }, old: newMachine(), changed: named, reason: "ObjectsUnknown", code: "ServiceUnavailable", wantReads: 1,
			message: subject + "it cannot be checked now whether another machine names the instance; try again",
		},
		"a malformed ID": {
			old: newMachine(), changed: newMachine(providerID("aws:///eu-1a/i-0a1b/x")), reason: "ProviderIDInvalid", code: "Invalid",
			message: strings.Replace(subject, id, "aws:///eu-1a/i-0a1b/x", 1) + `"aws:///eu-1a/i-0a1b/x" is not an ID: it must have at most 400 letters, digits and ` +
				`punctuation characters of a URI, and no segment . or .., and match "aws:///[^/]+/(i-[0-9a-f]+)"`,
		},
		"an ID of a MiB":                          {old: newMachine(), changed: newMachine(providerID("aws:///eu-1a/i-" + strings.Repeat("a", 1<<20))), reason: "ProviderIDInvalid", code: "Invalid"},
		"a malformed ID that does not change":     {old: newMachine(providerID("x")), changed: newMachine(providerID("x"), with("status.beat", 1)), reason: "NothingClaimed"},
		"a list":                                  {old: newMachine(), changed: newMachine(providerID([]any{id})), reason: "Undecodable", code: "BadRequest"},
		"a number":                                {old: newMachine(), changed: newMachine(providerID(5)), reason: "Undecodable", code: "BadRequest"},
		"a list that is replaced by an ID":        {old: newMachine(providerID([]any{id})), changed: named, reason: "NotHeld", wantReads: 1},
		"a field above it that is no object":      {old: newMachine(), changed: newMachine(with("spec", "odd")), reason: "Undecodable", code: "BadRequest"},
		"an ID in a member that has no name":      {world: held, old: newMachine(), changed: newMachine(with("", id)), reason: "NothingClaimed"},
		"a blank, which is not the field cleared": {old: named, changed: newMachine(providerID(" ")), reason: "ProviderIDInvalid", code: "Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			matches := matcherOf(t, registered(v1beta1.Enforce, v1beta1.Deny, awsMachine.MachineKind)[0],
				schema.GroupVersionResource{Group: "aws.example.com", Version: "v1", Resource: "awsmachines"})
			sent := matches(t, tc.old, tc.changed)
			if nothingClaimed := tc.reason == "NothingClaimed"; sent == nothingClaimed && tc.changed["spec"] != "odd" {
				t.Errorf("the request is selected: %t", sent)
			}
			for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn} {
				for _, dry := range []bool{false, true} {
					w := newWorld()
					if tc.world != nil {
						tc.world(w)
					}
					modify := []func(*admissionv1.AdmissionRequest){ofAWSMachine}
					if dry {
						modify = append(modify, dryRun)
					}
					handler := webhooks.Handler(w.gateOn(v1beta1.Machine{Mode: mode, Unknown: v1beta1.Admit}, kinds[0], awsMachine), mode, w)
					got := send(t, handler, review(t, tc.old, tc.changed, modify...))
					if got.AuditAnnotations["reason"] != tc.reason || w.reads != tc.wantReads || len(w.decided)+len(w.preview) > 0 {
						t.Errorf("%s, dry run %t: %v after %d reads, requests %v, want %s", mode, dry, got.AuditAnnotations, w.reads, w.decided, tc.reason)
					}
					if denied := tc.code != "" && mode == v1beta1.Enforce; got.Allowed == denied || denied && string(got.Result.Reason) != tc.code {
						t.Errorf("%s, dry run %t: %v, want a denial %q", mode, dry, got.Result, tc.code)
					}
					if got.Result.Code != http.StatusOK && tc.message != "" && got.Result.Message != tc.message {
						t.Errorf("message (-want +got):\n%s", cmp.Diff(tc.message, got.Result.Message))
					}
					texts := string(encode(t, []any{got, w.events()}))
					if strings.Contains(texts, "team-b") || strings.Contains(texts, "their-machine") || len(texts) > 10_000 {
						t.Errorf("the holder is named, or the answer is long: %.1000s", texts)
					}
					if wantEvents := tc.code != "" && tc.reason != "Undecodable" && !dry; (len(w.events()) == 1) != wantEvents {
						t.Errorf("%s, dry run %t: Events %v", mode, dry, w.events())
					}
				}
			}
		})
	}
}

// The operator learns who holds the ID.
func TestTheLogNamesTheHolderOfAnExternalID(t *testing.T) {
	w := newWorld(func(w *world) {
		w.holder = &clusterapi.Machine{Kind: awsMachine, ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "their-machine"}}
	})
	request := review(t, newMachine(), newMachine(providerID("aws:///eu-1a/i-0a1b")), ofAWSMachine).Request
	answer := w.gateOn(v1beta1.Machine{}, awsMachine).Review(t.Context(), crwebhook.Request{AdmissionRequest: *request})
	want := []any{"cluster", "metal", "instance", "i-0a1b", "holder", `AWSMachine "their-machine" of namespace "team-b"`}
	if diff := cmp.Diff(want, answer.Details()); diff != "" {
		t.Errorf("Details() (-want +got):\n%s", diff)
	}
}
