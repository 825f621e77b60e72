package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/internal/identity"
)

func TestAsWhomAnOwnerCounts(t *testing.T) {
	raw, _ := identity.Rewrite(serviceAccount().String(), newCluster, "", identity.Policy{})
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
		"somebody without groups who is scoped elsewhere": {
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

func TestWhereAnOwnerIsAtHome(t *testing.T) {
	raw, _ := identity.Rewrite(serviceAccount().String(), newCluster, "", identity.Policy{})
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
		"a person":                          {owner: person()},
		"a person with scopes":              {owner: person("cluster:org-a,cluster:org-b"), want: []logicalcluster.Name{"org-a", "org-b"}},
		"a person with scopes, all of them": {owner: person("cluster:org-a,cluster:org-b", "cluster:org-b"), want: []logicalcluster.Name{"org-b"}},
		"a name that only looks global":     {owner: identity.Owner{Username: "system:kcp:serviceaccount:a:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, identity.Homes(tc.owner)); diff != "" {
				t.Errorf("Homes() (-want +got):\n%s", diff)
			}
		})
	}
}
