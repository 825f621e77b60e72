package webhooks_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
)

// tenantGate records the tenant of its request.
type tenantGate struct{ seen share.Tenant }

func (*tenantGate) Name() string { return "tenant" }

func (g *tenantGate) Review(ctx context.Context, _ admission.Request) webhooks.Answer {
	g.seen = share.FromContext(ctx)
	return webhooks.Answer{Decision: webhooks.Allowed, Reason: "Judged"}
}

func TestTenantOfARequest(t *testing.T) {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"d1","operation":"UPDATE",
		"namespace":"team-a","userInfo":{"username":"alice"},
		"object":{"metadata":{"annotations":{"kcp.io/cluster":"1dz6n4ubraua7pul"}}},
		"oldObject":{"metadata":{"annotations":{"kcp.io/cluster":"1dz6n4ubraua7pul"}}}}}`
	for name, tc := range map[string]struct {
		wrap func(webhooks.Gate) webhooks.Gate
		want share.Tenant
	}{
		"on Kubernetes": {
			wrap: func(gate webhooks.Gate) webhooks.Gate { return gate },
			want: share.Tenant{Namespace: "team-a"},
		},
		"on kcp": {
			wrap: func(gate webhooks.Gate) webhooks.Gate {
				return webhooks.PerCluster("tenant", func(logicalcluster.Name) (webhooks.Gate, error) { return gate, nil })
			},
			want: share.Tenant{LogicalCluster: "1dz6n4ubraua7pul"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := &tenantGate{}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(review))
			request.Header.Set("Content-Type", "application/json")
			webhooks.Handler(tc.wrap(gate), v1beta1.Enforce, nil).ServeHTTP(httptest.NewRecorder(), request)
			if diff := cmp.Diff(tc.want, gate.seen); diff != "" {
				t.Errorf("tenant (-want +got):\n%s", diff)
			}
		})
	}
}
