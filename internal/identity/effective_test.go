package identity_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/identity/identitytest"
)

func TestEffective(t *testing.T) {
	raw, _ := identitytest.Rewrite(serviceAccount().String(), newCluster, "", identity.Policy{})
	rewritten, err := identity.ParseOwner(raw)
	if err != nil {
		t.Fatal(err)
	}
	anonymous := "system:anonymous [system:authenticated]"
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
				globalName + " [system:authenticated]",
			},
		},
		"a service account elsewhere": {
			owner: serviceAccount(), cluster: newCluster, want: []string{globalName + " [system:authenticated]", anonymous},
		},
		"a service account elsewhere, where global service accounts are off": {
			owner: serviceAccount(), cluster: newCluster, withoutSA: true, want: []string{anonymous},
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

// TestRewriteGainsNothingInAThirdCluster checks that in all logical clusters except the new one, the effective identities of the new owner
// are effective identities of the creator. e2e/suites/identity checks the same with kcp's own code.
func TestRewriteGainsNothingInAThirdCluster(t *testing.T) {
	rewritten := 0
	cases := 10_000
	if testing.Short() {
		cases /= 10
	}
	for tc := range identitytest.Cases(7, cases) {
		raw, report := tc.Rewrite()
		if !report.Reason.Rewritten() {
			continue
		}
		rewritten++
		result, err := identity.ParseOwner(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, cluster := range append(slices.Clone(identitytest.Clusters), "tttttttt") {
			before := identity.Effective(tc.Creator(), cluster, true)
			for _, now := range identity.Effective(result, cluster, true) {
				if !slices.ContainsFunc(before, func(was identity.Owner) bool { return includes(was, now) }) {
					t.Fatalf("in %s the new owner counts as %s\nbefore: %v\nowner: %s\nnew:   %s", cluster, now, before, tc.Owner, raw)
				}
			}
		}
	}
	t.Logf("%d owners were rewritten", rewritten)
	if rewritten < cases*3/10 {
		t.Errorf("only %d owners were rewritten: the generator is of no use", rewritten)
	}
}

// includes reports whether the identity was has at least the permissions of now. The anonymous user is always included, and kcp adds the
// groups system:cluster:<name> for scopes.
func includes(was, now identity.Owner) bool {
	if now.Username == "system:anonymous" {
		return now.Groups[0] == "system:unauthenticated" || slices.Contains(was.Groups, "system:authenticated")
	}
	return was.Username == now.Username && was.UID == now.UID && !slices.ContainsFunc(now.Groups, func(group string) bool {
		return !strings.HasPrefix(group, "system:cluster:") && !slices.Contains(was.Groups, group)
	})
}

func TestHomes(t *testing.T) {
	raw, _ := identitytest.Rewrite(serviceAccount().String(), newCluster, "", identity.Policy{})
	rewritten, err := identity.ParseOwner(raw)
	if err != nil {
		t.Fatal(err)
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
		"a user":                                 {owner: userIn()},
		"a user with scopes":                     {owner: userIn("cluster:org-a,cluster:org-b"), want: []logicalcluster.Name{"org-a", "org-b"}},
		"a user with scopes that all must match": {owner: userIn("cluster:org-a,cluster:org-b", "cluster:org-b"), want: []logicalcluster.Name{"org-b"}},
		"a user with the warrant of a service account and an invalid warrant": {
			owner: identity.Owner{Username: "alice", Extra: map[string][]string{identity.WarrantKey: {"{", selfWarrant}}},
			want:  []logicalcluster.Name{home},
		},
		"a malformed global name": {owner: identity.Owner{Username: "system:kcp:serviceaccount:a:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, identity.Homes(tc.owner)); diff != "" {
				t.Errorf("Homes() (-want +got):\n%s", diff)
			}
		})
	}
}
