package webhooks_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kcp-dev/logicalcluster/v3"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// clusterGate answers with the logical cluster that it is of, and with an Event.
type clusterGate struct{ cluster logicalcluster.Name }

func (clusterGate) Name() string { return "cluster" }

func (g clusterGate) Review(context.Context, admission.Request) webhooks.Answer {
	return webhooks.Answer{
		Decision: webhooks.Allowed, Reason: "Judged", Message: g.cluster.String(), Events: []events.Event{{Reason: "Judged"}},
	}
}

func TestEachRequestIsJudgedInItsLogicalCluster(t *testing.T) {
	const in, otherwise = `{"metadata":{"annotations":{"kcp.io/cluster":"1dz6n4ubraua7pul"}}}`, `{"metadata":{"name":"a"}}`
	judged := webhooks.Answer{
		Decision: webhooks.Allowed, Reason: "Judged", Message: "1dz6n4ubraua7pul",
		Events: []events.Event{{Cluster: "1dz6n4ubraua7pul", Reason: "Judged"}},
	}
	nowhere := webhooks.Answer{Reason: "NoLogicalCluster", Message: "the request does not say in which logical cluster the object is"}
	for name, tc := range map[string]struct {
		object, old string
		err         error
		want        webhooks.Answer
	}{
		"as the object says":                         {object: in, want: judged},
		"as it was, if an update does not repeat it": {object: otherwise, old: in, want: judged},
		"nowhere, if nothing says so":                {object: otherwise, old: otherwise, want: nowhere},
		"nowhere, if the object cannot be read":      {object: `[]`, want: nowhere},
		"not at all, if the cluster cannot be reached": {
			object: in, err: errors.New("no address"),
			want: webhooks.Answer{
				Decision: webhooks.Undecided, Reason: "NoLogicalCluster", Message: "the logical cluster of the object cannot be addressed",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := webhooks.PerCluster("machine-ownership", func(cluster logicalcluster.Name) (webhooks.Gate, error) {
				return clusterGate{cluster}, tc.err
			})
			got := gate.Review(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Object: runtime.RawExtension{Raw: []byte(tc.object)}, OldObject: runtime.RawExtension{Raw: []byte(tc.old)},
			}})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(webhooks.Answer{}, "Details")); diff != "" {
				t.Errorf("Review() (-want +got):\n%s", diff)
			}
			if gate.Name() != "machine-ownership" {
				t.Errorf("Name() = %q", gate.Name())
			}
		})
	}
}
