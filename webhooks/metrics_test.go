package webhooks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

// series returns the number of series, and fails if a label contains one of the forbidden words.
func series(t *testing.T, forbidden ...string) int {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatalf("gather metrics: %v", err)
	}
	count := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			count++
			for _, label := range metric.GetLabel() {
				for _, word := range forbidden {
					if strings.Contains(label.GetValue(), word) {
						t.Errorf("%s has label %s=%q", family.GetName(), label.GetName(), label.GetValue())
					}
				}
			}
		}
	}
	return count
}

func TestSeriesDoNotGrowWithRequests(t *testing.T) {
	gate := &fakeGate{t: t, review: func(_ context.Context, request admission.Request) webhooks.Answer {
		return webhooks.Answer{Reason: "OwnerChangeDenied", Message: "not for " + request.UserInfo.Username}
	}}
	server := serve(t, webhooks.Handler(gate, v1beta1.Enforce, &fakeRecorder{}))
	send(t, server, "", review())
	before, counted := series(t), newAdmissions(t)
	for i := range 1000 {
		send(t, server, "", review(withUID(types.UID(fmt.Sprintf("metrics-id-%d", i))), func(r *admissionv1.AdmissionReview) {
			r.Request.Name, r.Request.Namespace = fmt.Sprintf("metrics-name-%d", i), fmt.Sprintf("metrics-namespace-%d", i)
			r.Request.UserInfo.Username = fmt.Sprintf("metrics-user-%d", i)
		}))
	}
	if after := series(t, "metrics-"); after != before {
		t.Errorf("%d series after 1000 requests, want %d as after the first", after, before)
	}
	if diff := cmp.Diff(map[string]float64{"denied/OwnerChangeDenied": 1000}, counted()); diff != "" {
		t.Errorf("warrantgate_admissions_total (-want +got):\n%s", diff)
	}
}
