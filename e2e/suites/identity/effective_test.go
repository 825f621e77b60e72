//go:build e2e

package identity_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/identity/identitytest"
)

// TestEffectiveAgreesWithKCP compares, in order, the effective users of an owner before and after a rewrite.
func TestEffectiveAgreesWithKCP(t *testing.T) {
	ask := startOracle(t)
	for tc := range identitytest.Cases(6, 2_000) {
		owners := []identity.Owner{tc.Owner}
		if raw, report := tc.Rewrite(); report.Reason.Rewritten() {
			rewritten, err := identity.ParseOwner(raw)
			if err != nil {
				t.Fatal(err)
			}
			owners = append(owners, rewritten)
		}
		for _, owner := range owners {
			for _, cluster := range append(slices.Clone(identitytest.Clusters), third, identitytest.NewCluster) {
				for _, global := range []bool{true, false} {
					want := ask(question{cluster, owner, global}).Effective
					if diff := cmp.Diff(want, identity.Effective(owner, cluster, global), cmpopts.EquateEmpty()); diff != "" {
						t.Fatalf("Effective(%s, %s, %t) (-kcp +got):\n%s", owner, cluster, global, diff)
					}
				}
			}
		}
	}
}
