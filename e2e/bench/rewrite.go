package main

import (
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/internal/identity"
)

// measureRewrite measures the decision without transport.
func measureRewrite(out *figures) error {
	workspace, err := scheduled()
	if err != nil {
		return err
	}
	owner := workspace.Annotations[kcptest.OwnerAnnotation]
	cluster := logicalcluster.Name(workspace.Annotations["internal.tenancy.kcp.io/cluster"])

	progress("identity.Rewrite")
	result := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if _, report := identity.Rewrite(owner, cluster, "", identity.Policy{}); !report.Reason.Rewritten() {
				b.Fatal(report)
			}
		}
	})
	out.show("rewrite_ns", float64(result.NsPerOp()), "ns")
	out.show("rewrite_allocs", float64(result.AllocsPerOp()), "allocs")
	return nil
}
