package webhooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// unreadable is the answer to what is no review that could be judged.
func unreadable(code int32, message string) admissionv1.AdmissionReview {
	return admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{
		Result: &metav1.Status{Code: code, Message: message},
	}}
}

// withoutUID is the answer to what can be decoded and asks nothing.
func withoutUID(apiVersion, kind string) admissionv1.AdmissionReview {
	want := answered(refused("denied", http.StatusForbidden, metav1.StatusReasonForbidden, "NoRequest", "the body holds no admission request"))
	want.APIVersion, want.Kind, want.Response.UID = apiVersion, kind, ""
	want.Response.AuditAnnotations["decision-id"] = ""
	return want
}

func TestWhatIsNoReviewIsRefusedWithoutAskingTheGate(t *testing.T) {
	raw := func(r admissionv1.AdmissionReview) string {
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	const megabyte = 1 << 20

	for name, tc := range map[string]struct {
		contentType string // application/json where it is empty
		body        string
		want        admissionv1.AdmissionReview
	}{
		"no body": {
			body: "",
			want: unreadable(400, "the body is not a JSON object"),
		},
		"a body of blanks": {
			body: "  \n",
			want: unreadable(400, "the body is not a JSON object"),
		},
		"a body over 7 MiB": {
			body: raw(review()) + strings.Repeat(" ", 7*megabyte),
			want: unreadable(413, "request entity is too large; limit is 7340032 bytes"),
		},
		"another content type": {
			contentType: "text/plain",
			body:        raw(review()),
			want:        unreadable(400, "contentType=text/plain, expected application/json"),
		},
		"YAML": {
			body: "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest: {uid: d1}\n",
			want: unreadable(400, "the body is not a JSON object"),
		},
		"YAML that looks like JSON": {
			body: "{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {uid: d1}}",
			want: unreadable(400, "couldn't get version/kind; json parse error: invalid character 'a' looking for beginning of object key string"),
		},
		"7 MiB of a list": {
			body: "[" + strings.Repeat("1,", 7*megabyte/2-2) + "1]",
			want: unreadable(400, "the body is not a JSON object"),
		},
		"half a review": {
			body: raw(review())[:100],
			want: unreadable(400, "couldn't get version/kind; json parse error: unexpected end of JSON input"),
		},
		"two reviews": {
			body: raw(review()) + raw(review()),
			want: unreadable(400, "couldn't get version/kind; json parse error: invalid character '{' after top-level value"),
		},
		"100,000 brackets": {
			body: strings.Repeat("[", 100_000),
			want: unreadable(400, "the body is not a JSON object"),
		},
		"100,000 brackets within a review": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"d1","object":` +
				strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + "}}",
			want: unreadable(400, "couldn't get version/kind; json parse error: invalid character '{' exceeded max depth"),
		},
		"bytes": {
			body: "\x00\xff\xfe",
			want: unreadable(400, "the body is not a JSON object"),
		},
		"a field of another type": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":1}}`,
			want: unreadable(400, "json: cannot unmarshal number into Go struct field AdmissionRequest.AdmissionReview.request.uid of type types.UID"),
		},
		"an empty object": {
			body: "{}",
			want: withoutUID(admissionv1.SchemeGroupVersion.String(), "AdmissionReview"),
		},
		"a review without a request": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
			want: withoutUID(admissionv1.SchemeGroupVersion.String(), "AdmissionReview"),
		},
		"a review whose request is null": {
			body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`,
			want: withoutUID(admissionv1.SchemeGroupVersion.String(), "AdmissionReview"),
		},
		"another object": {
			body: `{"apiVersion":"v1","kind":"Pod","spec":{}}`,
			want: withoutUID("v1", "Pod"),
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

func TestOddReviewsAreJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want admission.Request
		// wantVersion is the version of the answer, which is that of the question.
		wantVersion string
	}{
		"the version before v1 has the same fields": {
			body:        `{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"d1","name":"team-a"}}`,
			want:        admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "d1", Name: "team-a"}},
			wantVersion: "admission.k8s.io/v1beta1",
		},
		// The API server sends the versions of the registration only, which is v1. The decoder does not insist.
		"a version that does not exist is read as v1": {
			body:        `{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","request":{"uid":"d1","name":"team-a"}}`,
			want:        admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "d1", Name: "team-a"}},
			wantVersion: "admission.k8s.io/v2",
		},
		"text that is not UTF-8 is mended": {
			body:        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"d\xff1\",\"name\":\"\xc3\"}}",
			want:        admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "d\ufffd1", Name: "\ufffd"}},
			wantVersion: "admission.k8s.io/v1",
		},
		"fields that nobody knows are left out": {
			body:        `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"d1","color":"blue"}}`,
			want:        admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "d1"}},
			wantVersion: "admission.k8s.io/v1",
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
				t.Errorf("judged (-want +got):\n%s", diff)
			}
			want := answered(refused("denied", 403, "Forbidden", "R", strings.TrimSpace("about "+tc.want.Name)))
			want.APIVersion, want.Response.UID, want.Response.AuditAnnotations["decision-id"] = tc.wantVersion, tc.want.UID, string(tc.want.UID)
			if diff := cmp.Diff(want, answer); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// A body costs memory only up to the bound, however long it is.
func TestABodyWithoutEndIsCutOff(t *testing.T) {
	server := serve(t, webhooks.Handler(&fakeGate{t: t}, v1beta1.Enforce, &fakeRecorder{}))
	body := &endless{}
	got := post(t, server, "", "application/json", body)
	if diff := cmp.Diff(unreadable(http.StatusRequestEntityTooLarge, "request entity is too large; limit is 7340032 bytes"), got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	// Some more than the bound is on its way before the server's no arrives.
	if taken := body.read.Load(); taken > 16<<20 {
		t.Errorf("%d bytes were taken", taken)
	}
	if got := ask(t, serve(t, webhooks.Handler(gateSaying(t, webhooks.Answer{Decision: webhooks.Allowed, Reason: "Fine"}),
		v1beta1.Enforce, &fakeRecorder{})), "", review()); !got.Response.Allowed {
		t.Errorf("the next request: %v", got.Response)
	}
}

// endless is a body that never ends.
type endless struct{ read atomic.Int64 }

var _ io.Reader = &endless{}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, bytes.Repeat([]byte("{"), len(p)))
	e.read.Add(int64(n))
	return n, nil
}
