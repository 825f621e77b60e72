package workspace_test

import (
	"testing"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/webhooks/workspace"
)

// BenchmarkOwnerRewrite is a verdict without transport, log and metrics.
func BenchmarkOwnerRewrite(b *testing.B) {
	old := object(annotations(ownerKey, rawServiceAccount))
	placed := object(annotations(ownerKey, rawServiceAccount, clusterKey, newCluster))
	asked := request(b, old, placed, apiServer)
	gate := workspace.NewOwnerRewrite(identity.Policy{}, v1beta1.Enforce)
	b.ReportAllocs()
	for b.Loop() {
		gate.Review(b.Context(), asked)
	}
}
