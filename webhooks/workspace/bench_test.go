package workspace_test

import (
	"testing"

	"warrantgate.dev/internal/config/v1beta1"
)

// BenchmarkOwnerRewrite is a verdict without transport, log and metrics.
func BenchmarkOwnerRewrite(b *testing.B) {
	old := object(annotations(ownerKey, rawServiceAccount))
	placed := object(annotations(ownerKey, rawServiceAccount, clusterKey, newCluster))
	called := request(b, old, placed, apiServer)
	gate := newRewrite(v1beta1.Enforce).Gate
	b.ReportAllocs()
	for b.Loop() {
		gate.Review(b.Context(), called)
	}
}
