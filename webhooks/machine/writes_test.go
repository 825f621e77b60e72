package machine_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/fairqueue"
	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// interrupted calls a function during a request to the cloud.
type interrupted struct {
	*world
	meanwhile func()
}

func (a interrupted) First(ctx context.Context, tenant fairqueue.Tenant, claim ownership.Claim) (ownership.Answer, error) {
	a.meanwhile()
	return a.world.First(ctx, tenant, claim)
}

func named(name string) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) { r.Namespace, r.Name = "team-b", name }
}

func inTeamB(name string) []func(object) {
	return []func(object){with("metadata.namespace", "team-b"), with("metadata.name", name)}
}

// TestTwoMachinesThatClaimOneInstance evaluates both at the same time, the second during the request to the cloud about the first.
func TestTwoMachinesThatClaimOneInstance(t *testing.T) {
	const (
		pendingText = "another write is being stored that names the same instance, or changes the identity that the provider of its cluster acts as; try again"
		conflicting = "a machine of another namespace names this instance already, and an instance can belong to one machine only; " +
			"clear the field of the machine that it does not belong to"
	)
	conflict := deniedBy("status.instanceID", ownID, "InstanceIDConflict", conflicting)
	pending := deniedBy("status.instanceID", ownID, "ClaimPending", pendingText)
	pending.decision = webhooks.Undecided
	for name, tc := range map[string]struct {
		modify func(*admissionv1.AdmissionRequest)
		// version is that of the second machine after its claim was admitted; it replaces version 7. names is whether it names the
		// instance then.
		version string
		names   bool
		want    outcome
	}{
		"of which the second may not be stored yet": {version: "7", want: pending},
		"of which the second is stored":             {version: "8", names: true, want: conflict},
		"of which the second was not stored":        {version: "8", want: owned},
		"of which the second was deleted":           {version: "", want: owned},
		"on dry run":                                {modify: dryRun, version: "7", want: owned},
	} {
		for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit} {
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				registry, w := &inflight.Registry{}, newWorld()
				config := v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: policy}
				version := func(context.Context, inflight.Object, types.UID) (string, error) { return tc.version, nil }
				if tc.names {
					w.late = map[string]*clusterapi.Machine{"second": {ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "second"}, Kind: kinds[0]}}
				}
				second := webhooks.Handler(w.gate(config).Sharing(registry, version, ""), v1beta1.Enforce, w)
				var first *admissionv1.AdmissionResponse
				handler := webhooks.Handler(w.gateWith(config, interrupted{w, func() {
					modify := []func(*admissionv1.AdmissionRequest){named("second")}
					if tc.modify != nil {
						modify = append(modify, tc.modify)
					}
					first = send(t, second, review(t, newMachine(inTeamB("second")...),
						newMachine(append(inTeamB("second"), instanceID(ownID))...), modify...))
				}}).Sharing(registry, version, ""), v1beta1.Enforce, w)
				got := send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))
				want := tc.want.response(v1beta1.Enforce, v1beta1.Deny) // with every policy
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("response (-want +got):\n%s", diff)
				}
				if diff := gocmp.Diff(owned.response(v1beta1.Enforce, v1beta1.Deny), first); diff != "" {
					t.Errorf("response to the second (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestAClaimOfAForeignInstanceBlocksNoOthers: a tenant cannot block the claims of the owner of an instance by naming it.
func TestAClaimOfAForeignInstanceBlocksNoOthers(t *testing.T) {
	registry, w := &inflight.Registry{}, newWorld()
	config := v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Deny}
	unstored := func(context.Context, inflight.Object, types.UID) (string, error) { return "7", nil }
	victims := newWorld()
	victims.answers[foreignID] = victims.answers[ownID]
	var got *admissionv1.AdmissionResponse
	attacker := webhooks.Handler(w.gateWith(config, interrupted{w, func() {
		got = send(t, webhooks.Handler(victims.gate(config).Sharing(registry, unstored, ""), v1beta1.Enforce, w),
			review(t, newMachine(), newMachine(instanceID(foreignID))))
	}}).Sharing(registry, unstored, ""), v1beta1.Enforce, w)
	denied := send(t, attacker, review(t, newMachine(inTeamB("mine")...), newMachine(append(inTeamB("mine"), instanceID(foreignID))...), named("mine")))
	if denied.Result.Code != http.StatusForbidden || denied.AuditAnnotations["reason"] != "InstanceNotOwned" {
		t.Errorf("the attacker: %v", denied)
	}
	if diff := gocmp.Diff(owned.response(v1beta1.Enforce, v1beta1.Deny), got); diff != "" {
		t.Errorf("response to the owner (-want +got):\n%s", diff)
	}
}

// TestOnlyAdmittedClaimsBlockOthers changes the cluster after a claim, which may not be stored yet.
func TestOnlyAdmittedClaimsBlockOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		old      []func(object) // changes the old object
		id       string
		unknown  v1beta1.UnknownPolicy
		want     string // the decision
		wantHeld bool
	}{
		"allowed, in an object that could not be decoded before": {
			old: []func(object){instanceID(5)}, id: ownID, unknown: v1beta1.Deny, want: "allowed", wantHeld: true,
		},
		"allowed":                 {id: ownID, unknown: v1beta1.Deny, want: "allowed", wantHeld: true},
		"admitted with a warning": {id: unansweredID, unknown: v1beta1.Admit, want: "warned", wantHeld: true},
		"denied":                  {id: foreignID, unknown: v1beta1.Deny, want: "denied"},
		"undecided":               {id: unansweredID, unknown: v1beta1.Deny, want: "error"},
	} {
		t.Run(name, func(t *testing.T) {
			registry, w := &inflight.Registry{}, newWorld(func(w *world) { w.err = errors.New("the cloud is away") })
			unstored := func(context.Context, inflight.Object, types.UID) (string, error) { return "7", nil }
			handler := webhooks.Handler(w.gate(v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: tc.unknown}).Sharing(registry, unstored, ""), v1beta1.Enforce, w)
			if got := send(t, handler, review(t, newMachine(tc.old...), newMachine(instanceID(tc.id)))).AuditAnnotations["decision"]; got != tc.want {
				t.Errorf("the claim is %s, want %s", got, tc.want)
			}
			entry, err := registry.Begin(t.Context(), inflight.Write{
				Object: inflight.Object{Resource: clusterapi.CloudSigmaClusters, Namespace: "team-a", Name: "metal"}, ResourceVersion: "3",
				Changes: []inflight.Key{clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: "team-a", Name: "metal"}.Key()},
			}, unstored)
			if _, held := errors.AsType[*inflight.PendingError](err); held != tc.wantHeld {
				t.Errorf("a change of the cluster after it: %v, want it blocked: %t", err, tc.wantHeld)
			}
			if entry != nil {
				entry.End()
			}
		})
	}
}

// unansweredID is an instance for which the cloud does not respond.
const unansweredID = "0d1f9c0c-5a3f-4b55-8f0e-3f1c5f0b6a11"

// TestAClaimWaitsForAChangeOfItsCluster: the claim is undecided with every policy for outages.
func TestAClaimWaitsForAChangeOfItsCluster(t *testing.T) {
	for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit} {
		registry, w := &inflight.Registry{}, newWorld()
		unstored := func(context.Context, inflight.Object, types.UID) (string, error) { return "3", nil }
		entry, err := registry.Begin(t.Context(), inflight.Write{
			Object: inflight.Object{Resource: clusterapi.CloudSigmaClusters, Namespace: "team-a", Name: "metal"}, ResourceVersion: "3",
			Changes: []inflight.Key{clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: "team-a", Name: "metal"}.Key()},
		}, unstored)
		if err != nil {
			t.Fatal(err)
		}
		handler := webhooks.Handler(w.gate(v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: policy}).Sharing(registry, unstored, ""), v1beta1.Enforce, w)
		want := deniedBy("status.instanceID", ownID, "ClaimPending", "another write is being stored that changes the identity that the provider of its cluster acts as; try again")
		want.decision = webhooks.Undecided
		if diff := gocmp.Diff(want.response(v1beta1.Enforce, v1beta1.Deny), send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))); diff != "" {
			t.Errorf("%s: response (-want +got):\n%s", policy, diff)
		}
		entry.End()
		if diff := gocmp.Diff(owned.response(v1beta1.Enforce, v1beta1.Deny), send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))); diff != "" {
			t.Errorf("%s: response after it has ended (-want +got):\n%s", policy, diff)
		}
	}
}

// TestCreations: an object whose name is taken cannot be created, and does not delay a change of its cluster. Another creation delays
// such a change until the created object is stored, or for some seconds: another object of its name may be deleted before.
func TestCreations(t *testing.T) {
	const taken = `an object of this name already exists; change that one, or delete it first`
	exists := deniedBy("status.instanceID", ownID, "AlreadyExists", taken)
	exists.status = metav1.StatusReasonAlreadyExists
	unread := deniedBy("status.instanceID", ownID, "ClaimPending",
		"another write is being stored that changes the identity that the provider of its cluster acts as; try again")
	unread.decision = webhooks.Undecided
	machine := review(t, nil, newMachine(instanceID(ownID)))
	ofClusterMetal := clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: "team-a", Name: "metal"}.Key()
	for name, tc := range map[string]struct {
		request admissionv1.AdmissionReview
		// before and after are the UIDs of the stored object at the creation and afterwards, "" if there is none.
		before, after types.UID
		err           error
		want          outcome
		changes       inflight.Key // of another write, afterwards
		wantHeld      bool
	}{
		"a machine":                         {request: machine, after: "6a1b", want: owned, changes: ofClusterMetal},
		"a machine that is not stored yet":  {request: machine, want: owned, changes: ofClusterMetal, wantHeld: true},
		"a machine, after another one":      {request: machine, after: "former", want: owned, changes: ofClusterMetal, wantHeld: true},
		"a machine that exists":             {request: machine, before: "former", after: "former", want: exists, changes: ofClusterMetal},
		"a machine that exists, on dry run": {request: review(t, nil, newMachine(instanceID(ownID)), dryRun), before: "former", after: "former", want: owned, changes: ofClusterMetal},
		"a machine that cannot be read":     {request: machine, err: errors.New("away"), want: unread, changes: ofClusterMetal},
	} {
		t.Run(name, func(t *testing.T) {
			registry, w, stored := &inflight.Registry{}, newWorld(), tc.before
			version := func(_ context.Context, _ inflight.Object, uid types.UID) (string, error) {
				if stored == "" || uid != "" && uid != stored {
					return "", tc.err
				}
				return "1", tc.err
			}
			handler := webhooks.Handler(w.gate(v1beta1.Machine{Mode: v1beta1.Enforce}).Sharing(registry, version, ""), v1beta1.Enforce, w)
			if diff := gocmp.Diff(tc.want.response(v1beta1.Enforce, v1beta1.Deny), send(t, handler, tc.request)); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if tc.want.reason == "AlreadyExists" && (w.reads != 0 || len(w.events()) != 0) {
				t.Errorf("%d reads and the Events %v, want none", w.reads, w.events())
			}
			stored = tc.after
			_, err := registry.Begin(t.Context(), inflight.Write{
				Object: inflight.Object{Namespace: "team-a", Name: "another"}, ResourceVersion: "3", Changes: []inflight.Key{tc.changes},
			}, version)
			if _, held := errors.AsType[*inflight.PendingError](err); held != tc.wantHeld {
				t.Errorf("a write afterwards: %v, want it blocked: %t", err, tc.wantHeld)
			}
		})
	}
}

// TestObjectsThatAVerdictReads has objects that differ from those of the watch.
func TestObjectsThatAVerdictReads(t *testing.T) {
	changed := func(w *world) { w.current, w.now.User = true, "bob@example.com" }
	moved := func(w *world) {
		w.current, w.owners["hl9tl"], w.seenOwners = true, "other", map[string]string{"hl9tl": "metal"}
	}
	cluster := inflight.Object{Resource: clusterapi.CloudSigmaClusters, Namespace: "team-a", Name: "metal"}
	owner := inflight.Object{Resource: clusterapi.OwnerMachines.WithVersion("v1beta1"), Namespace: "team-a", Name: "hl9tl"}
	clusterKey := clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: "team-a", Name: "metal"}.Key()
	// The gate reads these before its request to the cloud: the account, other machines that name the instance, and the owner.
	const before = 3
	for name, tc := range map[string]struct {
		modify func(*world)
		// written is an object that was written a moment ago, and key is what the write changed.
		written inflight.Object
		key     inflight.Key
		forget  bool
		dryRun  bool
		id      string
		// wantUsers are the users of the requests to the cloud, wantReason is the reason of the verdict, and wantReads the number of reads.
		wantUsers  []string
		wantReason string
		wantReads  int
	}{
		"an admitted claim, with the cluster of the watch": {
			modify: changed, wantUsers: []string{account.User}, wantReason: "Owned", wantReads: before + 3,
		},
		"an admitted claim, with the owner of the watch": {
			modify: moved, wantUsers: []string{account.User}, wantReason: "Owned", wantReads: before + 3,
		},
		"with the objects of the API server while the watch is broken": {
			modify: func(w *world) { changed(w); w.current = false }, wantUsers: []string{account.User, "bob@example.com"}, wantReason: "Owned", wantReads: before + 3,
		},
		"with the objects of the API server after a write of the cluster": {
			modify: changed, written: cluster, key: clusterKey, wantUsers: []string{account.User, "bob@example.com"}, wantReason: "Owned", wantReads: before + 3,
		},
		"with the objects of the API server after a write of the owner": {
			modify: moved, written: owner, key: clusterapi.OwnerKey("team-a", "hl9tl"),
			wantReason: "OwnerClusterMismatch", wantReads: before,
		},
		"with the objects of the watch after a write of another machine's owner": {
			modify: moved, written: owner, key: clusterapi.OwnerKey("team-a", "another"), wantUsers: []string{account.User}, wantReason: "Owned", wantReads: before + 3,
		},
		"a denied claim, with the objects of the API server": {
			modify: changed, id: foreignID, wantUsers: []string{account.User, "bob@example.com"}, wantReason: "InstanceNotOwned", wantReads: before + 1,
		},
		"a dry run, with the objects of the API server": {
			modify: moved, dryRun: true, wantReason: "OwnerClusterMismatch", wantReads: before,
		},
		"with the objects of the API server without a registry of writes": {
			modify: moved, forget: true, wantReason: "OwnerClusterMismatch", wantReads: before,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, registry := newWorld(tc.modify), &inflight.Registry{}
			if tc.written.Name != "" {
				entry, err := registry.Begin(t.Context(), inflight.Write{Object: tc.written, ResourceVersion: "3", Changes: []inflight.Key{tc.key}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer entry.End()
			}
			gate := w.gate(v1beta1.Machine{Mode: v1beta1.Enforce})
			if !tc.forget {
				gate = gate.Sharing(registry, func(context.Context, inflight.Object, types.UID) (string, error) { return "4", nil }, "")
			}
			var modify []func(*admissionv1.AdmissionRequest)
			if tc.dryRun {
				modify = append(modify, dryRun)
			}
			got := send(t, webhooks.Handler(gate, v1beta1.Enforce, w), review(t, newMachine(), newMachine(instanceID(cmp.Or(tc.id, ownID))), modify...))
			if reason := got.AuditAnnotations["reason"]; reason != tc.wantReason {
				t.Errorf("reason = %q, want %q: %v", reason, tc.wantReason, got.Result)
			}
			var users []string
			for _, claim := range append(w.decided, w.preview...) {
				users = append(users, claim.User)
			}
			if diff := gocmp.Diff(tc.wantUsers, users); diff != "" || w.reads != tc.wantReads {
				t.Errorf("%d reads, want %d; users (-want +got):\n%s", w.reads, tc.wantReads, diff)
			}
		})
	}
}

// TestAnOwnerAndAClaimWaitForEachOther changes the label of a Machine while a machine that it owns claims an instance.
func TestAnOwnerAndAClaimWaitForEachOther(t *testing.T) {
	registry, w := &inflight.Registry{}, newWorld()
	unstored := func(_ context.Context, object inflight.Object, _ types.UID) (string, error) {
		if object.Resource.Resource == "machines" {
			return "9", nil
		}
		return "7", nil
	}
	handler := webhooks.Handler(w.gate(v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Admit}).Sharing(registry, unstored, ""), v1beta1.Enforce, w)
	relabel := func(modify ...func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionResponse {
		return send(t, handler, review(t, capiMachine(), capiMachine(inOther), append(modify, ofCAPIMachine)...))
	}
	claim := func() *admissionv1.AdmissionResponse {
		return send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))
	}
	for _, step := range []struct {
		do         func() *admissionv1.AdmissionResponse
		wantReason string
	}{
		{func() *admissionv1.AdmissionResponse { return relabel(dryRun) }, "SameCluster"},
		{claim, "Owned"},
		{func() *admissionv1.AdmissionResponse { return relabel() }, "ClaimPending"},
		{func() *admissionv1.AdmissionResponse { return relabel(dryRun) }, "SameCluster"},
	} {
		if got := step.do(); got.AuditAnnotations["reason"] != step.wantReason {
			t.Errorf("reason = %q, want %q: %v", got.AuditAnnotations["reason"], step.wantReason, got.Result)
		}
	}
	registry = &inflight.Registry{}
	handler = webhooks.Handler(w.gate(v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Admit}).Sharing(registry, unstored, ""), v1beta1.Enforce, w)
	if got := relabel(); !got.Allowed {
		t.Errorf("a new label: %v", got.Result)
	}
	if got := claim(); got.Allowed || got.AuditAnnotations["reason"] != "ClaimPending" {
		t.Errorf("a claim while the label may not be stored yet: %v", got.Result)
	}
}
