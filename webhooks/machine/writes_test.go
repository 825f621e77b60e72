package machine_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/fairqueue"
	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// asking has a function called while the cloud is asked.
type asking struct {
	*world
	meanwhile func()
}

func (a asking) Decide(ctx context.Context, tenant fairqueue.Tenant, claim ownership.Claim) (ownership.Answer, error) {
	a.meanwhile()
	return a.world.Decide(ctx, tenant, claim)
}

func named(name string) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) { r.Namespace, r.Name = "team-b", name }
}

func inTeamB(name string) []func(object) {
	return []func(object){with("metadata.namespace", "team-b"), with("metadata.name", name)}
}

// TestTwoMachinesThatClaimOneInstance are judged at the same time, the second while the cloud is asked about the first.
func TestTwoMachinesThatClaimOneInstance(t *testing.T) {
	const (
		pendingText = "another write is being stored that names the same instance, or changes as whom the provider of its cluster acts; try again"
		conflicting = "a machine of another namespace names this instance already, and an instance can be that of one machine only; " +
			"clear the field of the machine that it is not of"
	)
	conflict := refusedBy("status.instanceID", ownID, "InstanceIDConflict", conflicting)
	pending := refusedBy("status.instanceID", ownID, "ClaimPending", pendingText)
	pending.decision = webhooks.Undecided
	for name, tc := range map[string]struct {
		modify func(*admissionv1.AdmissionRequest)
		// version is that of the second machine after its claim was admitted; it replaces version 7. names is whether it names the
		// instance then.
		version string
		names   bool
		want    outcome
	}{
		"of which the second may be on its way": {version: "7", want: pending},
		"of which the second is stored":         {version: "8", names: true, want: conflict},
		"of which the second was not stored":    {version: "8", want: owned},
		"of which the second is gone":           {version: "", want: owned},
		"on dry run":                            {modify: dryRun, version: "7", want: owned},
	} {
		for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Refuse, v1beta1.Admit} {
			t.Run(name+"/"+string(policy), func(t *testing.T) {
				registry, w := &inflight.Registry{}, newWorld()
				config := v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: policy}
				version := func(context.Context, inflight.Object) (string, error) { return tc.version, nil }
				if tc.names {
					w.late = map[string]*clusterapi.Machine{"second": {ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "second"}, Kind: kinds[0]}}
				}
				second := webhooks.Handler(w.gate(config).Sharing(registry, version, ""), v1beta1.Enforce, w)
				var first *admissionv1.AdmissionResponse
				handler := webhooks.Handler(w.gateAsking(config, asking{w, func() {
					modify := []func(*admissionv1.AdmissionRequest){named("second")}
					if tc.modify != nil {
						modify = append(modify, tc.modify)
					}
					first = ask(t, second, review(t, newMachine(inTeamB("second")...),
						newMachine(append(inTeamB("second"), instanceID(ownID))...), modify...))
				}}).Sharing(registry, version, ""), v1beta1.Enforce, w)
				got := ask(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))
				want := tc.want.response(v1beta1.Enforce, v1beta1.Refuse) // whatever the policy
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("response (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(owned.response(v1beta1.Enforce, v1beta1.Refuse), first); diff != "" {
					t.Errorf("response to the second (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestAClaimOfAForeignInstanceHoldsUpNobody holds that what a tenant names is not what others have to wait for.
func TestAClaimOfAForeignInstanceHoldsUpNobody(t *testing.T) {
	registry, w := &inflight.Registry{}, newWorld()
	config := v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: v1beta1.Refuse}
	unstored := func(context.Context, inflight.Object) (string, error) { return "7", nil }
	victims := newWorld()
	victims.answers[foreignID] = victims.answers[ownID]
	var got *admissionv1.AdmissionResponse
	attacker := webhooks.Handler(w.gateAsking(config, asking{w, func() {
		got = ask(t, webhooks.Handler(victims.gate(config).Sharing(registry, unstored, ""), v1beta1.Enforce, w),
			review(t, newMachine(), newMachine(instanceID(foreignID))))
	}}).Sharing(registry, unstored, ""), v1beta1.Enforce, w)
	refused := ask(t, attacker, review(t, newMachine(inTeamB("mine")...), newMachine(append(inTeamB("mine"), instanceID(foreignID))...), named("mine")))
	if refused.Result.Code != http.StatusForbidden || refused.AuditAnnotations["reason"] != "InstanceNotOwned" {
		t.Errorf("the attacker: %v", refused)
	}
	if diff := cmp.Diff(owned.response(v1beta1.Enforce, v1beta1.Refuse), got); diff != "" {
		t.Errorf("response to the owner (-want +got):\n%s", diff)
	}
}

// TestAClaimWaitsForAChangeOfItsCluster is refused as "try again" whatever the policy for outages is.
func TestAClaimWaitsForAChangeOfItsCluster(t *testing.T) {
	for _, policy := range []v1beta1.UnknownPolicy{v1beta1.Refuse, v1beta1.Admit} {
		registry, w := &inflight.Registry{}, newWorld()
		unstored := func(context.Context, inflight.Object) (string, error) { return "3", nil }
		entry, err := registry.Begin(t.Context(), inflight.Write{
			Object: inflight.Object{Resource: clusterapi.CloudSigmaClusters, Namespace: "team-a", Name: "metal"}, ResourceVersion: "3",
			Changes: []inflight.Key{clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: "team-a", Name: "metal"}.Key()},
		}, unstored)
		if err != nil {
			t.Fatal(err)
		}
		handler := webhooks.Handler(w.gate(v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: policy}).Sharing(registry, unstored, ""), v1beta1.Enforce, w)
		want := refusedBy("status.instanceID", ownID, "ClaimPending", "another write is being stored that changes as whom the provider of its cluster acts; try again")
		want.decision = webhooks.Undecided
		if diff := cmp.Diff(want.response(v1beta1.Enforce, v1beta1.Refuse), ask(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))); diff != "" {
			t.Errorf("%s: response (-want +got):\n%s", policy, diff)
		}
		entry.End()
		if diff := cmp.Diff(owned.response(v1beta1.Enforce, v1beta1.Refuse), ask(t, handler, review(t, newMachine(), newMachine(instanceID(ownID))))); diff != "" {
			t.Errorf("%s: response once it has ended (-want +got):\n%s", policy, diff)
		}
	}
}
