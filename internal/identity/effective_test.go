package identity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/identity/identitytest"
)

func TestEffective(t *testing.T) {
	raw, _ := identitytest.Rewrite(serviceAccount().String(), parent, newCluster, "", identity.Policy{})
	rewritten, err := identity.ParseOwner(raw)
	if err != nil {
		t.Fatal(err)
	}
	const anonymous, anonymousOfHome = "system:anonymous [system:authenticated]", "system:anonymous [system:authenticated system:cluster:" + home + "]"
	for name, tc := range map[string]struct {
		owner     identity.Owner
		cluster   logicalcluster.Name
		withoutSA bool
		want      []string
	}{
		"a service account at home": {
			owner: serviceAccount(), cluster: home,
			want: []string{
				"system:serviceaccount:default:bot [system:serviceaccounts system:serviceaccounts:default system:authenticated]",
				globalName + " [system:authenticated system:cluster:" + home + "]",
			},
		},
		"a service account elsewhere": {
			owner: serviceAccount(), cluster: newCluster,
			want: []string{globalName + " [system:authenticated system:cluster:" + home + "]", anonymousOfHome},
		},
		"a service account elsewhere, where global service accounts are off": {
			owner: serviceAccount(), cluster: newCluster, withoutSA: true, want: []string{anonymousOfHome},
		},
		"an impersonated service account, rewritten, at home": {
			owner: rewrittenImpersonated(), cluster: home,
			want: []string{globalName + " [system:serviceaccounts system:serviceaccounts:default system:authenticated]"},
		},
		"an impersonated service account, rewritten, elsewhere": {
			owner: rewrittenImpersonated(), cluster: "third",
			want: []string{"system:anonymous [system:authenticated system:cluster:" + home + " system:cluster:" + newCluster.String() + "]"},
		},
		"a rewritten service account in its new workspace": {
			owner: rewritten, cluster: newCluster, withoutSA: true, want: []string{globalName + " [system:authenticated]", anonymous},
		},
		"a rewritten service account at home": {
			owner: rewritten, cluster: home, withoutSA: true,
			want: []string{
				globalName + " [system:authenticated]",
				"system:serviceaccount:default:bot [system:serviceaccounts system:serviceaccounts:default system:authenticated system:cluster:" + home + "]",
			},
		},
		"a user without groups who is scoped elsewhere": {
			owner:   identity.Owner{Username: "alice", Extra: map[string][]string{identity.ScopesKey: {"cluster:a"}}},
			cluster: newCluster, want: []string{"system:anonymous [system:unauthenticated]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, as := range identity.Effective(tc.owner, tc.cluster, !tc.withoutSA) {
				text := as.Username + " ["
				for i, group := range as.Groups {
					if i > 0 {
						text += " "
					}
					text += group
				}
				got = append(got, text+"]")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Effective() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRewriteGainsNothingElsewhere checks the permissions of the rewritten owner in all logical clusters except the new one.
// e2e/suites/identity checks the same with kcp's own code.
func TestRewriteGainsNothingElsewhere(t *testing.T) {
	var users, tokens, impersonated int
	cases := 10_000
	if testing.Short() {
		cases /= 10
	}
	for tc := range identitytest.Cases(7, cases) {
		raw, report := tc.Rewrite()
		switch {
		case !report.Reason.Rewritten():
			continue
		case tc.Impersonated():
			impersonated++
		case report.Reason == identity.UserRewritten:
			users++
		default:
			tokens++
		}
		result, err := identity.ParseOwner(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, cluster := range append(slices.Clone(identitytest.Clusters), "tttttttt") {
			for _, global := range []bool{true, false} {
				if err := tc.CheckElsewhere(result, cluster, global, identity.Effective); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("rewritten: %d users, %d service accounts with a home, %d impersonated service accounts", users, tokens, impersonated)
	if min(users, tokens, impersonated) < cases/20 {
		t.Error("the generator tests too little")
	}
}

func TestHomes(t *testing.T) {
	raw, _ := identitytest.Rewrite(serviceAccount().String(), parent, newCluster, "", identity.Policy{})
	rewritten, err := identity.ParseOwner(raw)
	if err != nil {
		t.Fatal(err)
	}
	var many []string
	var first []logicalcluster.Name
	for i := range 3000 {
		cluster := logicalcluster.Name(fmt.Sprintf("org-%d", i))
		many = append(many, "cluster:"+cluster.String())
		if i < 16 {
			first = append(first, cluster)
		}
	}
	for name, tc := range map[string]struct {
		owner identity.Owner
		want  []logicalcluster.Name
	}{
		"a service account":           {owner: serviceAccount(), want: []logicalcluster.Name{home}},
		"a rewritten service account": {owner: rewritten, want: []logicalcluster.Name{home}},
		"a service account without a home": {
			owner: identity.Owner{Username: "system:serviceaccount:default:bot"},
		},
		"a service account that was impersonated":                      {owner: impersonated("cluster:org-a"), want: []logicalcluster.Name{"org-a"}},
		"a service account that was impersonated, with a forged scope": {owner: impersonated("cluster:org-b", "cluster:org-a")},
		"a service account that was impersonated, rewritten":           {owner: rewrittenImpersonated(), want: []logicalcluster.Name{home, newCluster}},
		"a service account that claims another home than its scope":    {owner: serviceAccount(withExtra(identity.ScopesKey, "cluster:org-a")), want: []logicalcluster.Name{home}},
		"a user":                                 {owner: userIn()},
		"a user with scopes":                     {owner: userIn("cluster:org-a,cluster:org-b"), want: []logicalcluster.Name{"org-a", "org-b"}},
		"a user with scopes that all must match": {owner: userIn("cluster:org-a,cluster:org-b", "cluster:org-b"), want: []logicalcluster.Name{"org-b"}},
		"a user with the warrant of a service account and an invalid warrant": {
			owner: identity.Owner{Username: "alice", Extra: map[string][]string{identity.WarrantKey: {"{", selfWarrant}}},
			want:  []logicalcluster.Name{home},
		},
		"a user with many scopes": {owner: userIn(strings.Join(many, ",")), want: first},
		"a malformed global name": {owner: identity.Owner{Username: "system:kcp:serviceaccount:a:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, identity.Homes(tc.owner)); diff != "" {
				t.Errorf("Homes() (-want +got):\n%s", diff)
			}
		})
	}
}
