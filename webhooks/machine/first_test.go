package machine_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/settle"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/machine"
)

const settlePeriod = 20 * time.Second

// settling is a gate that sends requests to a cloud through a real ownership.Gate, and keeps first claims undecided.
func (w *world) settling(t *testing.T, cloud ownership.Cloud, config v1beta1.Machine, claims *settle.Claims) http.Handler {
	t.Helper()
	owners, err := ownership.NewGate(map[string]ownership.Cloud{"cloudsigma": cloud}, map[string]int32{"cloudsigma": 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owners.Close)
	return webhooks.Handler(machine.New(config, kinds, w, owners).Settling(claims, ""), config.Mode, w)
}

// notYet is the answer to a first claim of an instance that the cloud does not show.
func notYet(id string) outcome {
	return outcome{
		decision: webhooks.Undecided, reason: "NotYetOwned", field: "status.instanceID",
		message: of("status.instanceID", id) + `the cloud does not show it as an instance of user "tsap@shalb.com" in region "next", which cluster ` +
			`"metal" acts as, and the machine named none before, so it may have been created a moment ago; this is retried automatically; if the ` +
			`cloud does not show it within 20s, it is denied: correct the identity that cluster "metal" acts as, or delete the instance`,
	}
}

// notYetResponse is the answer to a request, with Retry-After unless it is a dry run.
func notYetResponse(id string, mode v1beta1.Mode) *admissionv1.AdmissionResponse {
	response := notYet(id).response(mode, v1beta1.Deny)
	if mode == v1beta1.Enforce {
		response.Result.Details.RetryAfterSeconds = 2
	}
	return response
}

// A first claim that is denied because of the machine's owner is denied at once. The audit still reports its UUID.
func TestAFirstClaimOfAnotherClustersMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := &clusterapi.AccountError{Reason: clusterapi.OwnerMachineMissing, Message: "its owner references name a Machine that does not exist"}
		for name, tc := range map[string]struct {
			modify func(*world)
			want   string
		}{
			"another cluster's":              {ownerIn("other"), "OwnerClusterMismatch"},
			"a missing owner":                {func(w *world) { w.ownerErr = missing }, "OwnerMachineMissing"},
			"the cluster's":                  {ownerIn("metal"), "NotYetOwned"},
			"an owner that is not known now": {func(w *world) { w.ownerErr = errors.New("timeout") }, "NotYetOwned"},
		} {
			claims := settle.New(settlePeriod)
			handler := newWorld(tc.modify).settling(t, foreignCloud(), enforce, claims)
			owned := newMachine(ownedBy("hl9tl"))
			got := send(t, handler, review(t, owned, newMachine(ownedBy("hl9tl"), instanceID(foreignID)), ofStatus))
			if got.Allowed || got.AuditAnnotations["reason"] != tc.want {
				t.Errorf("%s: %v, want %s", name, got.Result, tc.want)
			}
			<-time.After(settlePeriod)
			if got := claims.Denied(); len(got) != 1 || got[0].ID != foreignID {
				t.Errorf("%s: the audit reports %v", name, got)
			}
		}
	})
}

// The instance of another user and one that does not exist have the same answer.
func TestAFirstClaimThatTheCloudDoesNotConfirmIsUndecidedAtFirst(t *testing.T) {
	for name, cloud := range map[string]*fakeCloud{
		"another user's": foreignCloud(),
		"one that does not exist": {answer: func(context.Context, int) (ownership.Answer, error) {
			return ownership.Answer{Verdict: ownership.Absent, Response: "404 not found"}, nil
		}},
	} {
		for _, unknown := range []v1beta1.UnknownPolicy{v1beta1.Deny, v1beta1.Admit} { // the policy applies to outages only
			t.Run(name+", unknown: "+string(unknown), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					requested := cloud.count()
					handler := w.settling(t, cloud, v1beta1.Machine{Mode: v1beta1.Enforce, Unknown: unknown}, settle.New(settlePeriod))
					claim := func(modify ...func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionResponse {
						return send(t, handler, review(t, newMachine(), newMachine(instanceID(foreignID)), modify...))
					}
					want := notYetResponse(foreignID, v1beta1.Enforce)
					for range 4 { // one after the other, in less time than a denial is cached
						if diff := cmp.Diff(want, claim(ofStatus)); diff != "" {
							t.Fatalf("(-want +got):\n%s", diff)
						}
						<-time.After(5*time.Second - time.Millisecond)
					}
					if diff := cmp.Diff(notYet(foreignID).events(v1beta1.Enforce, v1beta1.Deny, false)[0], w.events()[3]); diff != "" {
						t.Errorf("Event (-want +got):\n%s", diff)
					}
					if got := cloud.count() - requested; got != 4 {
						t.Errorf("the cloud got %d requests for 4 attempts", got)
					}
					<-time.After(4 * time.Millisecond)
					for range 1000 {
						if got := claim(ofStatus); got.Result.Code != http.StatusForbidden {
							t.Fatalf("after the period: %v", got.Result)
						}
					}
					if got := cloud.count() - requested; got > 6 {
						t.Errorf("the cloud got %d requests, want at most 2 after the period", got)
					}
				})
			})
		}
	}
}

// showing returns a cloud that shows the server to its owner once shown is true.
func showing(shown *atomic.Bool) *fakeCloud {
	return &fakeCloud{answer: func(context.Context, int) (ownership.Answer, error) {
		if shown.Load() {
			return ownership.Answer{Verdict: ownership.Owned}, nil
		}
		return ownership.Answer{Verdict: ownership.Foreign, Response: "403 permission"}, nil
	}}
}

// A server that the cloud shows after a while is admitted at the next attempt.
func TestAFirstClaimIsAdmittedOnceTheCloudShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown atomic.Bool
		cloud := showing(&shown)
		claims := settle.New(settlePeriod)
		w := newWorld()
		handler := w.settling(t, cloud, enforce, claims)
		claim := func(modify ...func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionResponse {
			return send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID)), modify...))
		}
		if got := claim(ofStatus); got.AuditAnnotations["reason"] != "NotYetOwned" {
			t.Fatalf("at first: %v", got)
		}
		shown.Store(true)
		for range 2 {
			if got := claim(ofStatus, dryRun); !got.Allowed {
				t.Errorf("a dry run: %v", got.Result)
			}
		}
		if got := claim(ofStatus); !got.Allowed {
			t.Errorf("the next attempt: %v", got.Result)
		}
		shown.Store(false)
		<-time.After(settlePeriod + 5*time.Minute) // longer than the cloud's answer is cached
		if got := claim(ofStatus); got.AuditAnnotations["reason"] != "NotYetOwned" {
			t.Errorf("the machine names it again: %v", got.Result)
		}
		if got := claims.Denied(); len(got) > 0 {
			t.Errorf("denied: %v", got)
		}
	})
}

func TestClaimsThatAreNotFirst(t *testing.T) {
	unreadable := newMachine(with("status.instanceID", 5))
	for name, tc := range map[string]struct {
		old    object
		also   func(object) // changes the new object
		modify func(*admissionv1.AdmissionRequest)
	}{
		"a machine that named another":                       {old: newMachine(instanceID(ownID))},
		"a machine that named the same in the other field":   {old: newMachine(providerID("cloudsigma://" + foreignID)), also: providerID("cloudsigma://" + foreignID)},
		"a machine that is created":                          {},
		"a machine whose old object cannot be decoded":       {old: unreadable},
		"a dry run of a machine that named another":          {old: newMachine(instanceID(ownID)), modify: dryRun},
		"a machine that named a malformed ID":                {old: newMachine(instanceID("soon"))},
		"a machine that named another, by the main resource": {old: newMachine(instanceID(ownID)), modify: func(*admissionv1.AdmissionRequest) {}},
	} {
		t.Run(name, func(t *testing.T) {
			claims := settle.New(settlePeriod)
			handler := newWorld().settling(t, foreignCloud(), enforce, claims)
			changed := newMachine(instanceID(foreignID))
			if tc.also != nil {
				tc.also(changed)
			}
			r := review(t, tc.old, changed)
			if tc.modify != nil {
				tc.modify(r.Request)
			}
			if got := send(t, handler, r); got.Result.Code != http.StatusForbidden || got.AuditAnnotations["reason"] != "InstanceNotOwned" {
				t.Errorf("%v %v", got.Result, got.AuditAnnotations)
			}
			if got := claims.Denied(); len(got) > 0 {
				t.Errorf("stored claims: %v", got)
			}
		})
	}
}

// Guarantee 7: repeated dry runs get the cached denial, and the first claim itself never does.
func TestRepeatedDryRunsOfAFirstClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cloud := newWorld(), foreignCloud()
		handler := w.settling(t, cloud, enforce, settle.New(settlePeriod))
		try := func(modify ...func(*admissionv1.AdmissionRequest)) {
			send(t, handler, review(t, newMachine(), newMachine(instanceID(foreignID)), modify...))
		}
		for range 10 {
			try(dryRun)
		}
		if got := cloud.count(); got != 1 {
			t.Errorf("10 dry runs sent %d requests to the cloud, want 1", got)
		}
		for range 2 {
			try()
		}
		if got := cloud.count(); got != 3 {
			t.Errorf("after 2 attempts there were %d requests to the cloud, want 3", got)
		}
	})
}

// A dry run has no effect: it does not start the period, and its result is not stored.
func TestADryRunOfAFirstClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, claims, cloud := newWorld(), settle.New(settlePeriod), foreignCloud()
		handler := w.settling(t, cloud, enforce, claims)
		claim := func(modify ...func(*admissionv1.AdmissionRequest)) string {
			return send(t, handler, review(t, newMachine(), newMachine(instanceID(foreignID)), modify...)).AuditAnnotations["reason"]
		}
		for range 3 {
			want := notYet(foreignID).response(v1beta1.Enforce, v1beta1.Deny)
			if diff := cmp.Diff(want, send(t, handler, review(t, newMachine(), newMachine(instanceID(foreignID)), dryRun))); diff != "" {
				t.Errorf("dry run (-want +got):\n%s", diff)
			}
			<-time.After(settlePeriod)
		}
		if got := claims.Denied(); len(got) > 0 {
			t.Errorf("a dry run is stored: %v", got)
		}
		if got := claim(); got != "NotYetOwned" {
			t.Errorf("dry runs started the period: %s", got)
		}
		<-time.After(settlePeriod)
		if got := claim(dryRun); got != "InstanceNotOwned" {
			t.Errorf("dry run after the period: %s", got)
		}
		if got := len(w.events()); got != 1 {
			t.Errorf("%d Events, want only that of the request without dry run", got)
		}
	})
}

// A dry run that is admitted stores no instance, so the claim before it stays remembered, and the audit reports its UUID.
func TestADryRunDoesNotForgetAFirstClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown atomic.Bool
		cloud := showing(&shown)
		claims := settle.New(settlePeriod)
		handler := newWorld().settling(t, cloud, enforce, claims)
		claim := func(modify ...func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionResponse {
			return send(t, handler, review(t, newMachine(), newMachine(instanceID(ownID)), modify...))
		}
		if got := claim(ofStatus); got.AuditAnnotations["reason"] != "NotYetOwned" {
			t.Fatalf("at first: %v", got)
		}
		shown.Store(true)
		if got := claim(ofStatus, dryRun); !got.Allowed {
			t.Fatalf("the dry run: %v", got.Result)
		}
		<-time.After(settlePeriod)
		if got := claims.Denied(); len(got) != 1 || got[0].ID != ownID {
			t.Errorf("the audit reports %v", got)
		}
	})
}

// An outage is not a denial: it does not start the period.
func TestAnOutageDuringAFirstClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		cloud := &fakeCloud{answer: func(context.Context, int) (ownership.Answer, error) {
			if away.Load() {
				return ownership.Answer{}, &ownership.UnknownError{Cause: ownership.CauseCloud, Err: errors.New("500")}
			}
			return ownership.Answer{Verdict: ownership.Foreign}, nil
		}}
		handler := newWorld().settling(t, cloud, enforce, settle.New(settlePeriod))
		claim := func() string {
			return send(t, handler, review(t, newMachine(), newMachine(instanceID(foreignID)), ofStatus)).AuditAnnotations["reason"]
		}
		if got := claim(); got != "OwnershipUnknown" {
			t.Errorf("during the outage: %s", got)
		}
		<-time.After(time.Minute)
		away.Store(false)
		if got := claim(); got != "NotYetOwned" {
			t.Errorf("after the outage: %s", got)
		}
	})
}

// A claim that stays undecided has one Event, and is admitted with a warning in mode Warn.
func TestEventsAboutAFirstClaim(t *testing.T) {
	for _, mode := range []v1beta1.Mode{v1beta1.Enforce, v1beta1.Warn} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				handler := w.settling(t, foreignCloud(), v1beta1.Machine{Mode: mode, Unknown: v1beta1.Deny}, settle.New(settlePeriod))
				var got []*admissionv1.AdmissionResponse
				for range 3 {
					got = append(got, send(t, handler, review(t, newMachine(), newMachine(instanceID(foreignID)), ofStatus)))
					<-time.After(time.Second)
				}
				response := notYetResponse(foreignID, mode)
				if diff := cmp.Diff([]*admissionv1.AdmissionResponse{response, response, response}, got); diff != "" {
					t.Errorf("answers (-want +got):\n%s", diff)
				}
				event := notYet(foreignID).events(mode, v1beta1.Deny, false)[0]
				if diff := cmp.Diff([]events.Event{event, event, event}, w.events()); diff != "" {
					t.Errorf("Events (-want +got):\n%s", diff)
				}
			})
		})
	}
}
