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

func TestElsewhere(t *testing.T) {
	const (
		provider logicalcluster.Name = "pppppppp"
		consumer string              = "wwwwwwww"
		victim   string              = "vvvvvvvv"

		bot      = "system:serviceaccount:default:bot"
		carol    = `{"user":"carol","groups":["system:authenticated"]}`
		ofExport = `{"user":"system:serviceaccount:default:rest","groups":["system:kcp:admin"],"extra":{"authentication.kcp.io/cluster-name":["wwwwwwww"]}}`

		errClaimed = "the request came through a virtual workspace of kcp, where the author of a WorkspaceType or an APIExport can impersonate everybody"
	)
	authenticated := []string{"system:authenticated"}
	ofServiceAccount := []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}
	in := func(clusters ...string) []string {
		var values []string
		for _, cluster := range clusters {
			values = append(values, "cluster:"+cluster)
		}
		return values
	}
	extra := func(pairs ...any) map[string][]string { // keys and their values, by turns
		t.Helper()
		all, key := map[string][]string{}, ""
		for _, part := range pairs {
			switch part := part.(type) {
			case string:
				key = part
			case []string:
				all[key] = part
			default:
				t.Fatalf("%T is neither a key nor values", part)
			}
		}
		return all
	}
	for name, tc := range map[string]struct {
		owner   identity.Owner
		want    identity.Owner // empty: the owner itself
		wantErr string
	}{
		"a user who signed in": {
			owner: identity.Owner{Username: "alice", UID: "1", Groups: []string{"team", "system:authenticated"}, Extra: extra("credential", []string{"x"})},
		},
		"a user who signed in, with a warrant of kcp": {
			owner: identity.Owner{Username: "alice", Groups: authenticated, Extra: extra(identity.WarrantKey, []string{carol})},
		},
		"a user who was impersonated in the provider's workspace": {
			owner: identity.Owner{Username: "alice", Groups: authenticated, Extra: extra(identity.ScopesKey, in("pppppppp"), identity.WarrantKey, []string{carol})},
		},
		"a user who was impersonated in the consumer's workspace": {
			owner: identity.Owner{Username: "alice", UID: "1", Groups: authenticated, Extra: extra(identity.ScopesKey, in(consumer))},
			want:  identity.Owner{Username: "system:anonymous", Groups: []string{"system:authenticated", "system:cluster:wwwwwwww"}},
		},
		"with a forged warrant": {
			owner: identity.Owner{Username: "alice", Groups: authenticated, Extra: extra(identity.ScopesKey, in(consumer), identity.WarrantKey, []string{carol})},
			want:  identity.Owner{Username: "system:anonymous", Groups: []string{"system:authenticated", "system:cluster:wwwwwwww"}},
		},
		"with forged groups": {
			owner: identity.Owner{Username: "alice", Groups: []string{"system:masters", "system:cluster:vvvvvvvv", "team", "system:authenticated"}, Extra: extra(identity.ScopesKey, in(consumer))},
			want:  identity.Owner{Username: "system:anonymous", Groups: []string{"system:authenticated", "system:cluster:wwwwwwww"}},
		},
		"with a forged scope of the provider, to which kcp adds the true one": {
			owner: identity.Owner{Username: "alice", Groups: authenticated, Extra: extra(identity.ScopesKey, in("pppppppp", consumer))},
			want:  identity.Owner{Username: "system:anonymous", Groups: authenticated},
		},
		"with a forged choice of scopes": {
			owner: identity.Owner{Username: "alice", Groups: authenticated, Extra: extra(identity.ScopesKey, []string{"cluster:pppppppp,cluster:wwwwwwww", "cluster:wwwwwwww"})},
			want:  identity.Owner{Username: "system:anonymous", Groups: []string{"system:authenticated", "system:cluster:wwwwwwww"}},
		},
		"with the forged scope of another consumer": {
			owner: identity.Owner{Username: "alice", Groups: authenticated, Extra: extra(identity.ScopesKey, in(victim, consumer))},
			want:  identity.Owner{Username: "system:anonymous", Groups: authenticated},
		},
		"an anonymous user": {
			owner: identity.Owner{Username: "alice", Extra: extra(identity.ScopesKey, in(consumer))},
			want:  identity.Owner{Username: "system:anonymous", Groups: []string{"system:cluster:wwwwwwww"}},
		},
		"an impersonated global name": {
			owner: identity.Owner{Username: "system:kcp:serviceaccount:vvvvvvvv:default:bot", Groups: authenticated, Extra: extra(identity.ScopesKey, in(consumer))},
			want:  identity.Owner{Username: "system:anonymous", Groups: []string{"system:authenticated", "system:cluster:wwwwwwww"}},
		},
		"a global name as which kcp itself acts": {
			owner: identity.Owner{Username: "system:kcp:serviceaccount:wwwwwwww:default:bot", Groups: authenticated},
		},

		"system:masters, as which kcp itself acts": {
			owner: identity.Owner{Username: "system:apiserver", Groups: []string{"system:masters", "system:authenticated"}},
		},
		"system:masters that an initializer claims to be": {
			owner:   identity.Owner{Username: "system:apiserver", Groups: []string{"system:kcp:initializer:xxxxxxxx:trap", "system:masters", "system:authenticated"}},
			wantErr: errClaimed,
		},
		"a user that a terminator claims to be, in scope": {
			owner: identity.Owner{Username: "alice", Groups: []string{"system:authenticated", "system:kcp:terminator:xxxxxxxx:trap"},
				Extra: extra(identity.ScopesKey, in("pppppppp"))},
			wantErr: errClaimed,
		},
		"a user in the virtual workspace of an APIExport, who may be impersonated": {
			owner:   identity.Owner{Username: "alice", Groups: authenticated, Extra: extra(identity.WarrantKey, []string{carol, ofExport})},
			wantErr: errClaimed,
		},
		"a service account in the virtual workspace of an APIExport, which may be impersonated": {
			owner: identity.Owner{Username: bot, Groups: ofServiceAccount,
				Extra: extra(identity.ClusterNameKey, []string{victim}, identity.ScopesKey, in(victim), identity.WarrantKey, []string{ofExport})},
			wantErr: errClaimed,
		},
		"with more warrants than are read": {
			owner:   identity.Owner{Username: "alice", Groups: authenticated, Extra: extra(identity.WarrantKey, slices.Repeat([]string{carol}, 1000))},
			wantErr: errClaimed,
		},
		"a service account that an initializer claims to be": {
			owner: identity.Owner{Username: bot, Groups: append([]string{"system:kcp:initializer:"}, ofServiceAccount...),
				Extra: extra(identity.ClusterNameKey, []string{victim}, identity.ScopesKey, in(victim))},
			wantErr: errClaimed,
		},
		"a service account of the provider": {
			owner: identity.Owner{Username: bot, Groups: ofServiceAccount, Extra: extra(identity.ClusterNameKey, []string{"pppppppp"}, identity.ScopesKey, in("pppppppp"), identity.WarrantKey, []string{carol})},
		},
		"a service account of the consumer": {
			owner: identity.Owner{Username: bot, UID: "1", Groups: ofServiceAccount, Extra: extra(identity.ClusterNameKey, []string{consumer}, identity.ScopesKey, in(consumer))},
			want:  identity.Owner{Username: "system:kcp:serviceaccount:wwwwwwww:default:bot", Groups: []string{"system:authenticated", "system:cluster:wwwwwwww"}},
		},
		"that has no scopes": {
			owner: identity.Owner{Username: bot, Groups: ofServiceAccount, Extra: extra(identity.ClusterNameKey, []string{consumer})},
			want:  identity.Owner{Username: "system:kcp:serviceaccount:wwwwwwww:default:bot", Groups: authenticated},
		},
		"whose home is under the older key, for which kcp has no global name": {
			owner:   identity.Owner{Username: bot, Groups: ofServiceAccount, Extra: extra("authentication.kubernetes.io/cluster-name", []string{consumer}, identity.ScopesKey, in(consumer))},
			wantErr: "it does not come with exactly one home",
		},
		"with a forged warrant and groups": {
			owner: identity.Owner{Username: bot, Groups: append([]string{"system:masters"}, ofServiceAccount...), Extra: extra(
				identity.ClusterNameKey, []string{consumer}, identity.ScopesKey, in(consumer), identity.WarrantKey, []string{carol})},
			want: identity.Owner{Username: "system:kcp:serviceaccount:wwwwwwww:default:bot", Groups: []string{"system:authenticated", "system:cluster:wwwwwwww"}},
		},
		"of a forged home": {
			owner:   identity.Owner{Username: bot, Groups: authenticated, Extra: extra(identity.ClusterNameKey, []string{victim}, identity.ScopesKey, in(consumer))},
			wantErr: "its scopes do not include the home that it claims",
		},
		"of a forged home and its scope": {
			owner:   identity.Owner{Username: bot, Groups: authenticated, Extra: extra(identity.ClusterNameKey, []string{victim}, identity.ScopesKey, in(victim, consumer))},
			wantErr: "its scopes do not include the home that it claims",
		},
		"of the provider's home, forged": {
			owner:   identity.Owner{Username: bot, Groups: authenticated, Extra: extra(identity.ClusterNameKey, []string{"pppppppp"}, identity.ScopesKey, in("pppppppp", consumer))},
			wantErr: "its scopes do not include the home that it claims",
		},
		"of no home": {
			owner:   identity.Owner{Username: bot, Groups: authenticated, Extra: extra(identity.ScopesKey, in(consumer))},
			wantErr: "it does not come with exactly one home",
		},
		"of two homes": {
			owner:   identity.Owner{Username: bot, Groups: authenticated, Extra: extra(identity.ClusterNameKey, []string{consumer, victim}, identity.ScopesKey, in(consumer))},
			wantErr: "it does not come with exactly one home",
		},
		"of one home twice": {
			owner:   identity.Owner{Username: bot, Groups: authenticated, Extra: extra(identity.ClusterNameKey, []string{consumer, consumer}, identity.ScopesKey, in(consumer))},
			wantErr: "it does not come with exactly one home",
		},
		"of a home that is a path": {
			owner:   identity.Owner{Username: bot, Groups: authenticated, Extra: extra(identity.ClusterNameKey, []string{"root:org"}, identity.ScopesKey, []string{"cluster:root:org"})},
			wantErr: "it does not come with exactly one home",
		},
		"whose name would be the global name of another service account": {
			owner:   identity.Owner{Username: "system:serviceaccount:default:bot:x", Groups: authenticated, Extra: extra(identity.ClusterNameKey, []string{consumer}, identity.ScopesKey, in(consumer))},
			wantErr: `"system:serviceaccount:default:bot:x" is not the name of a service account`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.want
			if want.Username == "" && tc.wantErr == "" {
				want = tc.owner
			}
			got, err := identity.Elsewhere(tc.owner, provider)
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if gotErr != tc.wantErr {
				t.Errorf("Elsewhere() error = %q, want %q", gotErr, tc.wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Elsewhere() (-want +got):\n%s", diff)
			}
		})
	}
}

// A user who impersonates another chooses its scopes. A header has room for about a MiB of them. Splitting the others again for each scope allocates
// memory for each.
func TestElsewhereOfManyScopes(t *testing.T) {
	const many = 20_000
	var scopes strings.Builder
	for i := range many {
		fmt.Fprintf(&scopes, "cluster:%d,", i)
	}
	owner := identity.Owner{Username: "alice", Extra: map[string][]string{
		identity.ScopesKey: {scopes.String(), scopes.String(), "cluster:7"},
	}}
	want := identity.Owner{Username: "system:anonymous", Groups: []string{"system:cluster:7"}}
	allocations := testing.AllocsPerRun(1, func() {
		if known, err := identity.Elsewhere(owner, "pppppppp"); err != nil || !cmp.Equal(known, want) {
			t.Errorf("Elsewhere() = %s, %v, want %s", known, err, want)
		}
	})
	if allocations > many/10 {
		t.Errorf("Elsewhere() allocated memory %.0f times", allocations)
	}
}

// TestElsewhereIsEffective checks that the identity in another logical cluster is one of the effective identities of kcp there. Effective is
// compared with kcp in e2e/suites/identity.
func TestElsewhereIsEffective(t *testing.T) {
	once := cmp.Transformer("once", func(groups []string) []string {
		return slices.Compact(slices.Sorted(slices.Values(groups)))
	})
	asSet := cmp.Options{cmp.FilterPath(func(p cmp.Path) bool { return len(p) == 1 }, once)}
	foreign := 0
	cases := 5_000
	if testing.Short() {
		cases /= 10
	}
	for tc := range identitytest.Cases(14, cases) {
		for _, cluster := range append(slices.Clone(identitytest.Clusters), identitytest.NewCluster) {
			known, err := identity.Elsewhere(tc.Owner, cluster)
			if err != nil {
				continue // no identity
			}
			if !tc.Owner.InScope(cluster) {
				foreign++
				if len(known.Extra) > 0 || known.UID != "" {
					t.Fatalf("Elsewhere(%s, %s) = %s has more than a name and groups", tc.Owner, cluster, known)
				}
			}
			if !slices.Contains(tc.Owner.Groups, "system:authenticated") {
				continue // kcp has another anonymous user for them
			}
			if !slices.ContainsFunc(identity.Effective(tc.Owner, cluster, true), func(effective identity.Owner) bool {
				return effective.Username == known.Username && cmp.Equal(effective.Groups, known.Groups, asSet)
			}) {
				t.Fatalf("in %s kcp does not count %s as %s", cluster, tc.Owner, known)
			}
		}
	}
	if foreign < cases/5 {
		t.Errorf("only %d identities were foreign: the generator is of no use", foreign)
	}
}
