package webhooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// unreadable returns the response to a body that is not a valid review, and that contains no UID.
func unreadable(code int32, reason metav1.StatusReason, message string) admissionv1.AdmissionReview {
	return admissionv1.AdmissionReview{TypeMeta: review().TypeMeta, Response: &admissionv1.AdmissionResponse{
		Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message},
	}}
}

// badRequest returns the response to a body that API servers do not send.
func badRequest(message string) admissionv1.AdmissionReview {
	return unreadable(http.StatusBadRequest, metav1.StatusReasonBadRequest, message)
}

// about returns a response with the UID of the request.
func about(review admissionv1.AdmissionReview) admissionv1.AdmissionReview {
	review.Response.UID = "d1"
	return review
}

// tooLarge returns the response to a body without end.
func tooLarge() admissionv1.AdmissionReview {
	return unreadable(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
		"Request entity too large: limit is 7340032 bytes")
}

func TestInvalidReviewsDoNotReachTheGate(t *testing.T) {
	raw := func(r admissionv1.AdmissionReview) string {
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	const megabyte = 1 << 20

	for name, tc := range map[string]struct {
		contentType string // default: application/json
		body        string
		want        admissionv1.AdmissionReview
	}{
		"no body": {
			body: "",
			want: badRequest(`the body cannot be read: unexpected EOF at byte 0`),
		},
		"a body of blanks": {
			body: "  \n",
			want: badRequest(`the body cannot be read: unexpected EOF at byte 3`),
		},
		"a body over 7 MiB": {
			body: raw(review()) + strings.Repeat(" ", 7*megabyte),
			want: about(tooLarge()),
		},
		"another content type": {
			contentType: "text/plain",
			body:        raw(review()),
			want:        badRequest(`the content type is "text/plain", not application/json`),
		},
		"YAML": {
			body: "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest: {uid: d1}\n",
			want: badRequest(`the body cannot be read: invalid character 'a' at start of value at byte 0`),
		},
		"YAML that looks like JSON": {
			body: "{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {uid: d1}}",
			want: badRequest(`the body cannot be read: invalid character 'a' at start of value at byte 1`),
		},
		"7 MiB of a list": {
			body: "[" + strings.Repeat("1,", 7*megabyte/2-2) + "1]",
			want: badRequest(`the body cannot be read: wrong type of value at ""`),
		},
		"a truncated review": {
			body: raw(review())[:100],
			want: about(badRequest(`the body cannot be read: unexpected EOF at byte 100`)),
		},
		"two reviews": {
			body: raw(review()) + raw(review()),
			want: about(badRequest(`the body cannot be read: invalid character '{' after top-level value at byte 356`)),
		},
		"100,000 brackets": {
			body: strings.Repeat("[", 100_000),
			want: badRequest(`the body cannot be read: wrong type of value at ""`),
		},
		"100,000 brackets within a review": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"d1","object":` +
				strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + "}}",
			want: about(badRequest("the body cannot be read: exceeded max depth at byte 50082")),
		},
		"bytes": {
			body: "\x00\xff\xfe",
			want: badRequest(`the body cannot be read: invalid character '\x00' at start of value at byte 0`),
		},
		"a field of another type": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":1}}`,
			want: badRequest(`the body cannot be read: wrong type of value at "/request/uid"`),
		},
		"an empty object": {
			body: "{}",
			want: badRequest(`the body is a "" of "", not an AdmissionReview of admission.k8s.io/v1`),
		},
		"a review without a request": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
			want: badRequest("the body holds no admission request"),
		},
		"a review whose request is null": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`,
			want: badRequest("the body holds no admission request"),
		},
		"a request without a UID": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"name":"team-a"}}`,
			want: badRequest("the body holds no admission request"),
		},
		"the version before v1": {
			body: `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"d1"}}`,
			want: about(badRequest(`the body is a "AdmissionReview" of "admission.k8s.io/v1beta1", not an AdmissionReview of admission.k8s.io/v1`)),
		},
		"a version that does not exist": {
			body: `{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","request":{"uid":"d1"}}`,
			want: about(badRequest(`the body is a "AdmissionReview" of "admission.k8s.io/v2", not an AdmissionReview of admission.k8s.io/v1`)),
		},
		"another object": {
			body: `{"apiVersion":"v1","kind":"Pod","spec":{}}`,
			want: badRequest(`the body is a "Pod" of "v1", not an AdmissionReview of admission.k8s.io/v1`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, webhooks.Handler(&fakeGate{t: t}, v1beta1.Enforce, &fakeRecorder{}))
			contentType := tc.contentType
			if contentType == "" {
				contentType = "application/json"
			}
			if diff := cmp.Diff(tc.want, post(t, server, "", contentType, strings.NewReader(tc.body))); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// API servers take a response without the UID for a failure of the webhook, and all webhooks of such a gate have failurePolicy Ignore.
func TestAGateThatOnlyWarnsDeniesNoUnreadableReview(t *testing.T) {
	server := serve(t, webhooks.Handler(&fakeGate{t: t}, v1beta1.Warn, &fakeRecorder{}))
	got := post(t, server, "", "application/json", strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"d1"`))
	if diff := cmp.Diff(badRequest("the body cannot be read: unexpected EOF at byte 82"), got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestUnusualReviewsReachTheGate(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want admission.Request
	}{
		"text that is not UTF-8 is corrected": {
			body: "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"d\xff1\",\"name\":\"\xc3\"}}",
			want: admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "d\ufffd1", Name: "\ufffd"}},
		},
		"unknown fields are dropped": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"d1","color":"blue"}}`,
			want: admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "d1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got admission.Request
			gate := &fakeGate{t: t, review: func(_ context.Context, request admission.Request) webhooks.Answer {
				got = request
				return webhooks.Answer{Reason: "R", Message: "about " + request.Name}
			}}
			answer := post(t, serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{})), "", "application/json", strings.NewReader(tc.body))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reviewed (-want +got):\n%s", diff)
			}
			want := answered(deniedWith("denied", 403, "Forbidden", "R", strings.TrimSpace("about "+tc.want.Name)))
			want.Response.UID, want.Response.AuditAnnotations["decision-id"] = tc.want.UID, string(tc.want.UID)
			if diff := cmp.Diff(want, answer); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// A body takes memory only up to the limit, however long it is.
func TestEndlessBody(t *testing.T) {
	server := serve(t, webhooks.Handler(&fakeGate{t: t}, v1beta1.Enforce, &fakeRecorder{}))
	body := &endless{}
	got := post(t, server, "", "application/json", body)
	if diff := cmp.Diff(tooLarge(), got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	// The server reads everything that API servers can send, and drops it. The client sends some more before it gets the rejection.
	if taken := body.read.Load(); taken > (7+32+9)<<20 {
		t.Errorf("%d bytes were read", taken)
	}
	if got := send(t, serve(t, webhooks.Handler(gateWith(t, webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine"}),
		v1beta1.Enforce, &fakeRecorder{})), "", review()); !got.Response.Allowed {
		t.Errorf("the next request: %v", got.Response)
	}
}

// endless is a body without end: an object with a long name.
type endless struct{ read atomic.Int64 }

var _ io.Reader = &endless{}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, bytes.Repeat([]byte("a"), len(p)))
	if e.read.Add(int64(n)) == int64(n) {
		copy(p, `{"`)
	}
	return n, nil
}

// FuzzServeHTTP posts arbitrary bodies. Each response can be parsed, and every admitted request was reviewed.
func FuzzServeHTTP(f *testing.F) {
	whole, err := json.Marshal(review())
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range []string{
		"", "{}", "[", "null", string(whole), string(whole[:100]), string(whole) + "}",
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"d1","object":{"a":[1e999]},"dryRun":null}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"d1","uid":"d2","oldObject":null}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		reviewed := types.UID("")
		gate := &fakeGate{t: t, review: func(_ context.Context, request admission.Request) webhooks.Answer {
			reviewed = request.UID
			return webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine"}
		}}
		sent := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/gate", bytes.NewReader(body))
		sent.Header.Set("Content-Type", "application/json")
		written := httptest.NewRecorder()
		webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{}).ServeHTTP(written, sent)

		var answer admissionv1.AdmissionReview
		if err := json.Unmarshal(written.Body.Bytes(), &answer); err != nil || written.Code != http.StatusOK {
			t.Fatalf("answer %d %q: %v", written.Code, written.Body, err)
		}
		switch response := answer.Response; {
		case response.Allowed != (reviewed != ""):
			t.Errorf("allowed = %t after request %q was reviewed", response.Allowed, reviewed)
		case response.Allowed && response.UID != reviewed:
			t.Errorf("answer to request %q, want to %q", response.UID, reviewed)
		case !response.Allowed && response.Result.Message == "":
			t.Error("denied without a message")
		}
	})
}
