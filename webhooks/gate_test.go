package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// answered returns an AdmissionReview with the response to the request d1, changed by modify.
func answered(modify ...func(*admissionv1.AdmissionResponse)) admissionv1.AdmissionReview {
	response := &admissionv1.AdmissionResponse{UID: "d1"}
	for _, m := range modify {
		m(response)
	}
	return admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Response: response,
	}
}

func admitted(decision, reason string) func(*admissionv1.AdmissionResponse) {
	return func(r *admissionv1.AdmissionResponse) {
		r.Allowed, r.Result = true, &metav1.Status{Status: "Success", Code: http.StatusOK}
		r.AuditAnnotations = map[string]string{"decision": decision, "reason": reason, "decision-id": "d1"}
	}
}

func deniedWith(decision string, code int32, status metav1.StatusReason, reason, message string) func(*admissionv1.AdmissionResponse) {
	return func(r *admissionv1.AdmissionResponse) {
		r.Result = &metav1.Status{
			Status: "Failure", Code: code, Reason: status, Message: message,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: message}}},
		}
		r.AuditAnnotations = map[string]string{"decision": decision, "reason": reason, "decision-id": "d1"}
	}
}

func withPatch(patch string) func(*admissionv1.AdmissionResponse) {
	return func(r *admissionv1.AdmissionResponse) {
		r.Patch, r.PatchType = []byte(patch), ptr.To(admissionv1.PatchTypeJSONPatch)
	}
}

func withWarning(warning string) func(*admissionv1.AdmissionResponse) {
	return func(r *admissionv1.AdmissionResponse) { r.Warnings = []string{warning} }
}

// withCauses adds a field and additional causes to a denial.
func withCauses(field string, causes ...metav1.StatusCause) func(*admissionv1.AdmissionResponse) {
	return func(r *admissionv1.AdmissionResponse) {
		r.Result.Details.Causes[0].Field = field
		r.Result.Details.Causes = append(r.Result.Details.Causes, causes...)
	}
}

func TestAnswers(t *testing.T) {
	event := events.Event{
		Cluster: "root", Object: corev1.ObjectReference{Kind: "Workspace", Name: "team-a", UID: "6a1b"},
		Type: corev1.EventTypeWarning, Reason: "OwnerChangeDenied", Message: "No",
	}
	patches := []jsonpatch.JsonPatchOperation{jsonpatch.NewOperation("add", "/metadata/annotations/a", "b")}
	const patch = `[{"op":"add","path":"/metadata/annotations/a","value":"b"}]`
	subject := webhooks.Subject{Cluster: "root", Object: event.Object, Exists: true}
	notices := []webhooks.Notice{{Type: corev1.EventTypeWarning, Reason: "OwnerChangeDenied", Message: "No"}}
	denial := webhooks.Answer{Reason: "OwnerChangeDenied", Message: "not yours", Subject: subject, Notices: notices}
	rewrite := webhooks.Answer{
		Decision: webhooks.Allowed, Reason: "Rewritten", Message: "owner is bob", Patches: patches, Subject: subject, Notices: notices,
	}
	undecided := webhooks.Answer{Decision: webhooks.Undecided, Reason: "CloudSilent", Message: "the cloud does not answer; try again"}
	causes := []metav1.StatusCause{{Type: "OwnInstance", Message: "63dd"}, {Type: "CloudRequest", Message: "r1"}}
	harmless := webhooks.Answer{Decision: webhooks.Allowed, Reason: "Unchanged"}
	panics := func(context.Context, admission.Request) webhooks.Answer { panic("a mistake with a secret") }

	for name, tc := range map[string]struct {
		mode v1beta1.Mode
		// answer is the answer of the gate, unless panics is set. Mode Off needs neither.
		answer webhooks.Answer
		panics func(context.Context, admission.Request) webhooks.Answer
		review admissionv1.AdmissionReview

		want       admissionv1.AdmissionReview
		wantEvents []events.Event
		wantMetric string
	}{
		"an allowed request is admitted with its patches": {
			mode: v1beta1.Enforce, answer: rewrite, review: review(),
			want:       answered(admitted("allowed", "Rewritten"), withPatch(patch)),
			wantEvents: []events.Event{event},
			wantMetric: "allowed/Rewritten",
		},
		"a denial is 403 with its reason as the cause": {
			mode: v1beta1.Enforce, answer: denial, review: review(),
			want:       answered(deniedWith("denied", 403, "Forbidden", "OwnerChangeDenied", "not yours")),
			wantEvents: []events.Event{event},
			wantMetric: "denied/OwnerChangeDenied",
		},
		"a tenant that sends too many requests gets Retry-After": {
			mode: v1beta1.Enforce, review: review(),
			answer: webhooks.Answer{
				Decision: webhooks.Undecided, Status: metav1.StatusReasonTooManyRequests, RetryAfter: 2500 * time.Millisecond,
				Reason: "TooManyRequests", Message: "send fewer",
			},
			want: answered(deniedWith("error", 429, "TooManyRequests", "TooManyRequests", "send fewer"), func(r *admissionv1.AdmissionResponse) {
				r.Result.Details.RetryAfterSeconds = 2
			}),
			wantMetric: "error/TooManyRequests",
		},
		"the zero value denies": {
			mode: v1beta1.Enforce, answer: webhooks.Answer{}, review: review(),
			want:       answered(deniedWith("denied", 403, "Forbidden", "", "")),
			wantMetric: "denied/",
		},
		"an unknown decision denies": {
			mode: v1beta1.Enforce, answer: webhooks.Answer{Decision: "perhaps", Reason: "Odd"}, review: review(),
			want:       answered(deniedWith("perhaps", 403, "Forbidden", "Odd", "")),
			wantMetric: "perhaps/Odd",
		},
		"an undecided request is 503": {
			mode: v1beta1.Enforce, answer: undecided, review: review(),
			want:       answered(deniedWith("error", 503, "ServiceUnavailable", "CloudSilent", "the cloud does not answer; try again")),
			wantMetric: "error/CloudSilent",
		},
		"a panic denies its request, and its cause is only in the log": {
			mode: v1beta1.Enforce, panics: panics, review: review(),
			want:       answered(deniedWith("error", 503, "ServiceUnavailable", "Panic", "an internal error prevented the check of this request")),
			wantMetric: "error/Panic",
		},
		"a dry run gets the same answer and has no side effects": {
			mode: v1beta1.Enforce, answer: rewrite, review: review(withDryRun(true)),
			want:       answered(admitted("allowed", "Rewritten"), withPatch(patch)),
			wantMetric: "allowed/Rewritten",
		},
		"a denial of a dry run has no side effects": {
			mode: v1beta1.Enforce, answer: denial, review: review(withDryRun(true)),
			want:       answered(deniedWith("denied", 403, "Forbidden", "OwnerChangeDenied", "not yours")),
			wantMetric: "denied/OwnerChangeDenied",
		},
		"a request with dryRun false is not a dry run": {
			mode: v1beta1.Enforce, answer: denial, review: review(withDryRun(false)),
			want:       answered(deniedWith("denied", 403, "Forbidden", "OwnerChangeDenied", "not yours")),
			wantEvents: []events.Event{event},
			wantMetric: "denied/OwnerChangeDenied",
		},
		"a denial has its field and additional causes": {
			mode: v1beta1.Enforce, review: review(),
			answer: webhooks.Answer{Reason: "InstanceNotOwned", Message: "not yours", Field: "status.instanceID", Causes: causes},
			want:   answered(deniedWith("denied", 403, "Forbidden", "InstanceNotOwned", "not yours"), withCauses("status.instanceID", causes...)),

			wantMetric: "denied/InstanceNotOwned",
		},
		"an undecided request has its field and additional causes": {
			mode: v1beta1.Enforce, review: review(),
			answer: webhooks.Answer{Decision: webhooks.Undecided, Reason: "CloudSilent", Message: "try again", Field: "spec.providerID", Causes: causes},
			want:   answered(deniedWith("error", 503, "ServiceUnavailable", "CloudSilent", "try again"), withCauses("spec.providerID", causes...)),

			wantMetric: "error/CloudSilent",
		},
		"a gate with unknown: Admit admits an undecided request with a warning": {
			mode: v1beta1.Enforce, review: review(),
			answer: webhooks.Answer{
				Decision: webhooks.Warned, Reason: "CloudSilent", Message: "not judged", Field: "status.instanceID", Causes: causes, Subject: subject, Notices: notices,
			},
			want:       answered(admitted("warned", "CloudSilent"), withWarning("CloudSilent: not judged")),
			wantEvents: []events.Event{event},
			wantMetric: "warned/CloudSilent",
		},
		"a gate with unknown: Admit, in the mode Warn": {
			mode: v1beta1.Warn, review: review(), answer: webhooks.Answer{Decision: webhooks.Warned, Reason: "CloudSilent", Message: "not judged"},
			want: answered(admitted("warned", "CloudSilent"),
				withWarning("CloudSilent (mode Warn, nothing was changed or denied): not judged")),
			wantMetric: "warned/CloudSilent",
		},
		"a gate with unknown: Admit, on a dry run": {
			mode: v1beta1.Enforce, review: review(withDryRun(true)),
			answer:     webhooks.Answer{Decision: webhooks.Warned, Reason: "CloudSilent", Message: "not judged", Subject: subject, Notices: notices},
			want:       answered(admitted("warned", "CloudSilent"), withWarning("CloudSilent: not judged")),
			wantMetric: "warned/CloudSilent",
		},
		"Warn does not change the object, but warns": {
			mode: v1beta1.Warn, answer: rewrite, review: review(),
			want: answered(admitted("warned", "Rewritten"),
				withWarning("Rewritten (mode Warn, nothing was changed or denied): owner is bob")),
			wantEvents: []events.Event{event},
			wantMetric: "warned/Rewritten",
		},
		"Warn does not deny, but warns": {
			mode: v1beta1.Warn, answer: denial, review: review(),
			want: answered(admitted("warned", "OwnerChangeDenied"),
				withWarning("OwnerChangeDenied (mode Warn, nothing was changed or denied): not yours")),
			wantEvents: []events.Event{event},
			wantMetric: "warned/OwnerChangeDenied",
		},
		"Warn on a dry run has only the warning": {
			mode: v1beta1.Warn, answer: denial, review: review(withDryRun(true)),
			want: answered(admitted("warned", "OwnerChangeDenied"),
				withWarning("OwnerChangeDenied (mode Warn, nothing was changed or denied): not yours")),
			wantMetric: "warned/OwnerChangeDenied",
		},
		"Warn does not deny without a decision": {
			mode: v1beta1.Warn, answer: undecided, review: review(),
			want: answered(admitted("warned", "CloudSilent"),
				withWarning("CloudSilent (mode Warn, nothing was changed or denied): the cloud does not answer; try again")),
			wantMetric: "warned/CloudSilent",
		},
		"Warn does not deny because of a panic": {
			mode: v1beta1.Warn, panics: panics, review: review(),
			want: answered(admitted("warned", "Panic"),
				withWarning("Panic (mode Warn, nothing was changed or denied): an internal error prevented the check of this request")),
			wantMetric: "warned/Panic",
		},
		"Warn has no warning if nothing would be denied or changed": {
			mode: v1beta1.Warn, answer: harmless, review: review(),
			want:       answered(admitted("allowed", "Unchanged")),
			wantMetric: "allowed/Unchanged",
		},
		"Off admits without a review": {
			mode: v1beta1.Off, review: review(),
			want:       answered(admitted("allowed", "Off")),
			wantMetric: "allowed/Off",
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := gateWith(t, tc.answer)
			switch {
			case tc.mode == v1beta1.Off:
				gate.review = nil
			case tc.panics != nil:
				gate.review = tc.panics
			default:
				gate = gateWith(t, tc.answer)
			}
			counted := newAdmissions(t)
			recorder := &fakeRecorder{}
			server := serve(t, webhooks.Handler(gate, tc.mode, recorder))

			if diff := cmp.Diff(tc.want, send(t, server, "", tc.review)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantEvents, recorder.all()); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]float64{tc.wantMetric: 1}, counted()); diff != "" {
				t.Errorf("warrantgate_admissions_total (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessagesAreShortened(t *testing.T) {
	for name, tc := range map[string]struct {
		message string
		want    string
		// wantWarning is the warning in mode Warn.
		wantWarning string
	}{
		"line breaks and runs of blanks become one blank": {
			message: "not\nyours,\r\n\t  but bob's ", want: "not yours, but bob's",
			wantWarning: "R (mode Warn, nothing was changed or denied): not yours, but bob's",
		},
		"1024 bytes are not truncated": {
			message: strings.Repeat("a", 1024), want: strings.Repeat("a", 1024),
			wantWarning: "R (mode Warn, nothing was changed or denied): " + strings.Repeat("a", 975) + "…",
		},
		"longer texts are truncated at a whole character": {
			message: strings.Repeat("a", 1020) + "ééé", want: strings.Repeat("a", 1020) + "…",
			wantWarning: "R (mode Warn, nothing was changed or denied): " + strings.Repeat("a", 975) + "…",
		},
		"an empty text stays empty": {
			message: "", want: "",
			wantWarning: "R (mode Warn, nothing was changed or denied):",
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := gateWith(t, webhooks.Answer{Reason: "R", Message: tc.message})
			denied := send(t, serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{})), "", review())
			if diff := cmp.Diff(answered(deniedWith("denied", 403, "Forbidden", "R", tc.want)), denied); diff != "" {
				t.Errorf("denial (-want +got):\n%s", diff)
			}
			warned := send(t, serve(t, webhooks.Handler(gate, v1beta1.Warn, &fakeRecorder{})), "", review())
			if diff := cmp.Diff(answered(admitted("warned", "R"), withWarning(tc.wantWarning)), warned); diff != "" {
				t.Errorf("warning (-want +got):\n%s", diff)
			}
			for _, text := range []string{denied.Response.Result.Message, warned.Response.Warnings[0]} {
				if len(text) > 1024 || !utf8.ValidString(text) {
					t.Errorf("a text of %d bytes, valid UTF-8: %t", len(text), utf8.ValidString(text))
				}
			}
		})
	}
}

func TestPanicDoesNotAffectTheNextRequest(t *testing.T) {
	for name, cause := range map[string]any{
		"a text":                               "boom",
		"an error":                             errors.New("boom"),
		"the error with which net/http aborts": http.ErrAbortHandler,
		"a nil pointer that was dereferenced":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			first := true
			gate := &fakeGate{t: t, review: func(_ context.Context, request admission.Request) webhooks.Answer {
				if !first {
					return webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine"}
				}
				first = false
				if cause == nil {
					_ = *request.DryRun // nil
				}
				panic(cause)
			}}
			counted := newAdmissions(t)
			recorder := &fakeRecorder{}
			server := serve(t, webhooks.Handler(gate, v1beta1.Enforce, recorder))

			want := answered(deniedWith("error", 503, "ServiceUnavailable", "Panic", "an internal error prevented the check of this request"))
			if diff := cmp.Diff(want, send(t, server, "", review())); diff != "" {
				t.Errorf("answer to the request that panics (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(answered(admitted("allowed", "Fine")), send(t, server, "", review())); diff != "" {
				t.Errorf("answer to the next request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]float64{"error/Panic": 1, "allowed/Fine": 1}, counted()); diff != "" {
				t.Errorf("warrantgate_admissions_total (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachDenialIsOneLogLine(t *testing.T) {
	gate := gateWith(t, webhooks.Answer{
		Reason: "OwnerChangeDenied", Message: "not yours", Details: func() []any { return []any{"cloudAnswer", "what only the operator may see"} },
	})
	server := serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{}))
	send(t, server, "", review(withUID("log-1")))
	want := []string{`{"logger":"admission","level":0,"msg":"verdict","gate":"TestEachDenialIsOneLogLine","decision":"denied",` +
		`"reason":"OwnerChangeDenied","mode":"Enforce","decisionID":"log-1","operation":"UPDATE","resource":"workspaces",` +
		`"namespace":"","name":"team-a","user":"alice","message":"not yours","cloudAnswer":"what only the operator may see"}`}
	if diff := cmp.Diff(want, logged.take("log-1")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// A mutating webhook is called before the API server validates an object, so that the name of a new object can be as long as a request. An
// error can repeat any field.
func TestLongValuesAreNotLogged(t *testing.T) {
	const size, most = 1 << 20, 80 << 10
	long := strings.Repeat("x", size)
	gate := gateWith(t, webhooks.Answer{Reason: "R", Message: "no"}.WithDetails("error", long, "cluster", long, "changed", []string{long, long}))
	server := serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{}))
	send(t, server, "", review(withUID("log-4"), func(r *admissionv1.AdmissionReview) { r.Request.Name = long }))
	if got := logged.take("log-4"); len(got) != 1 || len(got[0]) > most {
		t.Errorf("%d lines, the first of %d bytes, want one of at most %d", len(got), len(strings.Join(got, "\n")), most)
	}
}

// A list is logged as a list if all of it is logged.
func TestListsInTheLog(t *testing.T) {
	const most = 16 << 10
	whole := strings.Repeat("x", most-len(", y"))
	for uid, tc := range map[types.UID]struct {
		list []string
		want string
	}{
		"log-5": {[]string{whole, "y"}, `"changed":["` + whole + `","y"]`},
		"log-6": {[]string{whole, "yz"}, `"changed":"` + whole + `…"`},
	} {
		gate := gateWith(t, webhooks.Answer{Reason: "R", Message: "no"}.WithDetails("changed", tc.list))
		send(t, serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{})), "", review(withUID(uid)))
		if got := logged.take(string(uid)); len(got) != 1 || !strings.Contains(got[0], tc.want) {
			t.Errorf("%s: %d lines, want one with %.20q", uid, len(got), tc.want)
		}
	}
}

func TestAllowedRequestsAreLoggedOnLevel1(t *testing.T) {
	server := serve(t, webhooks.Handler(gateWith(t, webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine"}), v1beta1.Enforce, &fakeRecorder{}))
	send(t, server, "", review(withUID("log-3")))
	got := logged.take("log-3")
	if len(got) != 1 || !strings.Contains(got[0], `"level":1,"msg":"verdict"`) {
		t.Errorf("log = %q, want one verdict, on level 1", got)
	}
}

func TestPanicIsLoggedWithItsStack(t *testing.T) {
	gate := &fakeGate{t: t, review: func(context.Context, admission.Request) webhooks.Answer { panic("boom") }}
	send(t, serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{})), "", review(withUID("log-2")))
	got := logged.take("log-2")
	if len(got) != 1 {
		t.Fatalf("log = %q, want one line", got)
	}
	for _, want := range []string{`"reason":"Panic"`, `"panic":"boom"`, `"stack":"goroutine`, "gate_test.go"} {
		if !strings.Contains(got[0], want) {
			t.Errorf("log = %s, want %s in it", got[0], want)
		}
	}
}

func TestConcurrentRequestsGetTheirOwnAnswers(t *testing.T) {
	gate := &fakeGate{t: t, review: func(_ context.Context, request admission.Request) webhooks.Answer {
		return webhooks.Answer{Reason: "R", Message: "about " + request.Name}
	}}
	server := serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{}))
	for i := range 50 {
		uid, name := types.UID(fmt.Sprintf("d%d", i)), fmt.Sprintf("team-%d", i)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, server, "", review(withUID(uid), func(r *admissionv1.AdmissionReview) { r.Request.Name = name }))
			if got.Response.UID != uid || got.Response.Result.Message != "about "+name {
				t.Errorf("UID = %q, message = %q", got.Response.UID, got.Response.Result.Message)
			}
		})
	}
}
