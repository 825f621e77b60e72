package keystone_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// TestResponses compares whole responses.
func TestResponses(t *testing.T) {
	audit := func(decision, reason string) map[string]string {
		return map[string]string{"decision": decision, "reason": reason, "decision-id": "d1"}
	}
	event := func(reason, message string) *fakeRecorder {
		return &fakeRecorder{events.Event{Object: self("ConfigMap"), Type: corev1.EventTypeWarning, Reason: reason, Message: message}}
	}
	success := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK}
	message := ofConfigMap + "1 error: " + saidOfBroken + seeAll
	warning := ofConfigMap + "1 warning: " + saidOfDoubtful + seeAll
	denied := &admissionv1.AdmissionResponse{
		UID: "d1", AuditAnnotations: audit("denied", "KeystonePolicyBroken"), Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: "KeystonePolicyBroken", Message: message, Field: "data[policy.yaml]"},
				{Type: "unknown-attribute", Message: saidOfBroken, Field: "data[policy.yaml]"},
			}},
		},
	}
	admitted := func(decision, reason string, warnings ...string) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{UID: "d1", Allowed: true, Result: success, Warnings: warnings, AuditAnnotations: audit(decision, reason)}
	}

	for name, tc := range map[string]struct {
		mode       v1beta1.Mode
		dryRun     bool
		policy     string
		want       *admissionv1.AdmissionResponse
		wantEvents *fakeRecorder
	}{
		"sound":    {mode: v1beta1.Enforce, policy: sound, want: admitted("allowed", "KeystonePolicySound"), wantEvents: &fakeRecorder{}},
		"broken":   {mode: v1beta1.Enforce, policy: broken, want: denied, wantEvents: event("KeystonePolicyBroken", "Denied: "+message)},
		"doubtful": {mode: v1beta1.Enforce, policy: doubtful, want: admitted("warned", "KeystonePolicyDoubtful", "KeystonePolicyDoubtful: "+warning), wantEvents: event("KeystonePolicyDoubtful", "Admitted with a warning: "+warning)},
		"broken on a dry run, which has no Events": {
			mode: v1beta1.Enforce, dryRun: true, policy: broken, want: denied, wantEvents: &fakeRecorder{},
		},
		"broken, in mode Warn": {
			mode: v1beta1.Warn, policy: broken,
			want:       admitted("warned", "KeystonePolicyBroken", "KeystonePolicyBroken (mode Warn, nothing was changed or denied): "+message),
			wantEvents: event("KeystonePolicyBroken", "Admitted with a warning: "+message),
		},
		"broken, in mode Off": {mode: v1beta1.Off, policy: broken, want: admitted("allowed", "Off"), wantEvents: &fakeRecorder{}},
	} {
		t.Run(name, func(t *testing.T) {
			gate := newGate(t, config(func(c *v1beta1.KeystonePolicy) { c.Mode = tc.mode }))
			r := request(t, configMap(), configMap("policy.yaml", tc.policy))
			r.DryRun = ptr.To(tc.dryRun)
			recorder := &fakeRecorder{}
			if diff := cmp.Diff(tc.want, serve(t, webhooks.Handler(gate.Gate, tc.mode, recorder), r)); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantEvents, recorder); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
}
