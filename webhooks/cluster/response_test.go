package cluster_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
)

type fakeRecorder []string

var _ webhooks.EventRecorder = &fakeRecorder{}

func (r *fakeRecorder) Record(event events.Event) { *r = append(*r, event.Message) }

// TestResponses compares whole responses.
func TestResponses(t *testing.T) {
	message := `spec.userEmail` + ofCluster + `user "alice" may not impersonate "tenant@example.com"` + remedy + grantAlice
	unanswered := `spec.userEmail` + ofCluster + `the permissions of the requester could not be checked; try again`
	annotations := func(decision, reason string) map[string]string {
		return map[string]string{"decision": decision, "reason": reason, "decision-id": "d1"}
	}
	denied := func(code int32, status metav1.StatusReason, decision, reason, message string) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{
			UID: "d1", AuditAnnotations: annotations(decision, reason), Result: &metav1.Status{
				Status: metav1.StatusFailure, Code: code, Reason: status, Message: message,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
					{Type: metav1.CauseType(reason), Message: message, Field: "spec.userEmail"},
				}},
			},
		}
	}
	success := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK}

	for name, tc := range map[string]struct {
		mode       v1beta1.Mode
		dryRun     bool
		reviewer   *fakeReviewer
		want       *admissionv1.AdmissionResponse
		wantEvents []string
	}{
		"allowed": {
			reviewer: reviewerThatAllows(impersonate("tenant@example.com")),
			want: &admissionv1.AdmissionResponse{
				UID: "d1", Allowed: true, Result: success, AuditAnnotations: annotations("allowed", "ImpersonationAllowed"),
			},
		},
		"denied": {
			reviewer:   reviewerThatAllows(),
			want:       denied(http.StatusForbidden, metav1.StatusReasonForbidden, "denied", "ImpersonationNotAllowed", message),
			wantEvents: []string{"Denied: " + message},
		},
		"denied on a dry run, with the same reviews and no Events": {
			dryRun: true, reviewer: reviewerThatAllows(),
			want: denied(http.StatusForbidden, metav1.StatusReasonForbidden, "denied", "ImpersonationNotAllowed", message),
		},
		"denied by a gate that only warns": {
			mode: v1beta1.Warn, reviewer: reviewerThatAllows(),
			want: &admissionv1.AdmissionResponse{
				UID: "d1", Allowed: true, Result: success, AuditAnnotations: annotations("warned", "ImpersonationNotAllowed"),
				Warnings: []string{"ImpersonationNotAllowed (mode Warn, nothing was changed or denied): " + message},
			},
			wantEvents: []string{"Admitted with a warning: " + message},
		},
		"undecided, because the API server does not respond": {
			reviewer:   &fakeReviewer{err: http.ErrServerClosed},
			want:       denied(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "error", "ImpersonationUnknown", unanswered),
			wantEvents: []string{"Denied: " + unanswered},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mode := v1beta1.Enforce
			if tc.mode != "" {
				mode = tc.mode
			}
			r := request(t, "cloudsigmaclusters", clusterWith(object{}), clusterWith(object{"userEmail": "tenant@example.com"})).AdmissionRequest
			r.DryRun = ptr.To(tc.dryRun)
			recorder := &fakeRecorder{}
			handler := webhooks.Handler(newGate(v1beta1.Cluster{Impersonation: v1beta1.ClusterImpersonation{Mode: mode}}, tc.reviewer, &fakeUsers{}, nil).Gate, mode, recorder)
			if diff := cmp.Diff(tc.want, serve(t, handler, &r)); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if !slices.Equal(tc.wantEvents, *recorder) {
				t.Errorf("Events = %q, want %q", *recorder, tc.wantEvents)
			}
			if len(tc.reviewer.requested) == 0 {
				t.Error("there was no review")
			}
		})
	}
}

func serve(t *testing.T, handler http.Handler, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body := encode(t, admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, cluster.Path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(answer.Body.Bytes(), &review); err != nil {
		t.Fatalf("decode %q: %v", answer.Body, err)
	}
	return review.Response
}
