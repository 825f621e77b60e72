package identity_test

import (
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/identity/identitytest"
)

const (
	home = "1dz6n4ubraua7pul"
	// parent contains the Workspace. It is the home of service accounts, and in the scopes of users.
	parent     = logicalcluster.Name(home)
	newCluster = logicalcluster.Name("m82w61j76ws21znq")
)

// serviceAccount is the owner that kcp records for a token of default:bot, changed by modify.
func serviceAccount(modify ...func(*identity.Owner)) identity.Owner {
	owner := identity.Owner{
		Username: "system:serviceaccount:default:bot",
		UID:      "6a1b",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		Extra: map[string][]string{
			"authentication.kcp.io/cluster-name":         {home},
			"authentication.kcp.io/scopes":               {"cluster:" + home},
			"authentication.kubernetes.io/credential-id": {"JTI=7d0c"},
		},
	}
	for _, m := range modify {
		m(&owner)
	}
	return owner
}

// impersonated is the owner that kcp records for default:bot if a GitOps tool impersonates it, with these scopes.
func impersonated(scopes ...string) identity.Owner {
	return identity.Owner{
		Username: "system:serviceaccount:default:bot",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"},
		Extra:    map[string][]string{"authentication.kcp.io/scopes": scopes},
	}
}

// rewrittenImpersonated is the owner in place of a service account that was impersonated in its home.
func rewrittenImpersonated(warrants ...string) identity.Owner {
	owner := impersonated("cluster:" + home + ",cluster:m82w61j76ws21znq")
	owner.Username = globalName
	if len(warrants) > 0 {
		owner.Extra[identity.WarrantKey] = warrants
	}
	return owner
}

func userIn(scopes ...string) identity.Owner {
	return identity.Owner{
		Username: "alice", UID: "a1", Groups: []string{"team-a", "system:authenticated"},
		Extra: map[string][]string{"authentication.kcp.io/scopes": scopes},
	}
}

func withExtra(key string, values ...string) func(*identity.Owner) {
	return func(o *identity.Owner) { o.Extra[key] = values }
}

func without(key string) func(*identity.Owner) {
	return func(o *identity.Owner) { delete(o.Extra, key) }
}

func warrantJSON(w identity.Warrant) string { return w.String() }

const (
	selfWarrant = `{"user":"system:serviceaccount:default:bot","uid":"6a1b",` +
		`"groups":["system:serviceaccounts","system:serviceaccounts:default","system:authenticated"],` +
		`"extra":{"authentication.kcp.io/cluster-name":["` + home + `"],"authentication.kcp.io/scopes":["cluster:` + home + `"]}}`
	globalName = "system:kcp:serviceaccount:" + home + ":default:bot"
)

func rewrittenServiceAccount(warrants ...string) identity.Owner {
	return identity.Owner{
		Username: globalName, Groups: []string{"system:authenticated"},
		Extra: map[string][]string{"authorization.kcp.io/warrant": append([]string{selfWarrant}, warrants...)},
	}
}

// deep is a warrant with one level more than MaxWarrantDepth.
var deep = func() string {
	deep := warrantJSON(identity.Warrant{User: "bob"})
	for range identity.MaxWarrantDepth {
		deep = warrantJSON(identity.Warrant{User: "bob", Extra: map[string][]string{identity.WarrantKey: {deep}}})
	}
	return deep
}()

func TestRewriteOfForeignOwners(t *testing.T) {
	addedByAPIExport := warrantJSON(identity.Warrant{
		User: "system:serviceaccount:default:rest", Groups: []string{"system:kcp:admin"},
		Extra: map[string][]string{identity.ClusterNameKey: {"consumer"}},
	})
	ofTeam := warrantJSON(identity.Warrant{User: "bob", Groups: []string{"team-b", "system:authenticated"}})
	nested := func(inner string) string {
		return warrantJSON(identity.Warrant{User: "bob", Groups: []string{"team-b"}, Extra: map[string][]string{identity.WarrantKey: {inner}}})
	}
	credential := identity.Drop{Kind: identity.DroppedExtra, Reason: identity.PerRequest, Name: "authentication.kubernetes.io/credential-id"}
	plain := identity.Report{Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Dropped: []identity.Drop{credential}}

	for name, tc := range map[string]struct {
		owner    identity.Owner
		required string
		policy   identity.Policy
		want     identity.Owner
		// wantReport has no message. TestMessages compares the messages.
		wantReport identity.Report
	}{
		"a service account becomes its global name, backed by itself at home": {
			owner:      serviceAccount(),
			want:       rewrittenServiceAccount(),
			wantReport: plain,
		},
		"required groups become a warrant in the new cluster only": {
			owner:    serviceAccount(),
			required: "team-a,team-b;ops",
			want: rewrittenServiceAccount(`{"user":"` + globalName + `","groups":["team-a","team-b"],` +
				`"extra":{"authentication.kcp.io/scopes":["cluster:m82w61j76ws21znq"]}}`),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Dropped: []identity.Drop{credential},
				RequiredGroups: []string{"team-a", "team-b"},
			},
		},
		"a clause with an administrator's group is never taken": {
			owner:    serviceAccount(),
			required: "system:kcp:admin,team-a;ops",
			want: rewrittenServiceAccount(`{"user":"` + globalName + `","groups":["ops"],` +
				`"extra":{"authentication.kcp.io/scopes":["cluster:m82w61j76ws21znq"]}}`),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Dropped: []identity.Drop{credential},
				RequiredGroups: []string{"ops"},
			},
		},
		"where only administrators may enter, nothing is given": {
			owner:      serviceAccount(),
			required:   "system:masters;system:kcp:initializer:root:org",
			want:       rewrittenServiceAccount(),
			wantReport: plain,
		},
		"a required clause with system:authenticated": {
			owner:    serviceAccount(),
			required: "system:authenticated,team-a",
			want: rewrittenServiceAccount(`{"user":"` + globalName + `","groups":["team-a"],` +
				`"extra":{"authentication.kcp.io/scopes":["cluster:m82w61j76ws21znq"]}}`),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Dropped: []identity.Drop{credential},
				RequiredGroups: []string{"system:authenticated", "team-a"},
			},
		},
		"an unauthenticated service account is only given a clause that needs no authentication": {
			owner:    serviceAccount(func(o *identity.Owner) { o.Groups = nil }),
			required: "system:authenticated,team-a;ops",
			want: identity.Owner{
				Username: globalName,
				Extra: map[string][]string{identity.WarrantKey: {
					warrantJSON(identity.Warrant{User: "system:serviceaccount:default:bot", UID: "6a1b", Extra: map[string][]string{
						identity.ClusterNameKey: {home}, identity.ScopesKey: {"cluster:" + home},
					}}),
					`{"user":"` + globalName + `","groups":["ops"],"extra":{"authentication.kcp.io/scopes":["cluster:m82w61j76ws21znq"]}}`,
				}},
			},
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Dropped: []identity.Drop{credential},
				RequiredGroups: []string{"ops"},
			},
		},
		"required groups that all users have need no warrant": {
			owner:      serviceAccount(),
			required:   "team-a;system:authenticated",
			want:       rewrittenServiceAccount(),
			wantReport: plain,
		},
		"the warrant that an APIExport added to one request is dropped": {
			owner: serviceAccount(withExtra(identity.WarrantKey, addedByAPIExport)),
			want:  rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Privileged: []string{"system:kcp:admin"},
				Dropped: []identity.Drop{
					credential,
					{Kind: identity.DroppedWarrant, Reason: identity.Privileged, Name: "system:serviceaccount:default:rest"},
				},
			},
		},
		"no configuration keeps an administrator's warrant, nested or not": {
			owner:  serviceAccount(withExtra(identity.WarrantKey, addedByAPIExport, nested(addedByAPIExport))),
			policy: identity.Policy{Users: []string{"*"}, Groups: []string{"*"}},
			want:   rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Privileged: []string{"system:kcp:admin"},
				Dropped: []identity.Drop{
					credential,
					{Kind: identity.DroppedWarrant, Reason: identity.Privileged, Name: "system:serviceaccount:default:rest"},
					{Kind: identity.DroppedWarrant, Reason: identity.Privileged, Name: "bob"},
				},
			},
		},
		"a warrant that the policy does not name is dropped": {
			owner:  serviceAccount(withExtra(identity.WarrantKey, ofTeam)),
			policy: identity.Policy{Users: []string{"carol"}, Groups: []string{"team-a"}},
			want:   rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot",
				Dropped: []identity.Drop{credential, {Kind: identity.DroppedWarrant, Reason: identity.NotDelegated, Name: "bob"}},
			},
		},
		"a warrant that an administrator of the home can have added is dropped, whatever the policy names": {
			owner:  serviceAccount(withExtra(identity.WarrantKey, ofTeam)),
			policy: identity.Policy{Users: []string{"b*"}, Groups: []string{"team-*"}},
			want:   rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot",
				Dropped: []identity.Drop{credential, {Kind: identity.DroppedWarrant, Reason: identity.Forgeable, Name: "bob"}},
			},
		},
		"a warrant with a nested one that the policy does not name is dropped whole": {
			owner:  serviceAccount(withExtra(identity.WarrantKey, nested(warrantJSON(identity.Warrant{User: "carol"})))),
			policy: identity.Policy{Users: []string{"bob"}},
			want:   rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot",
				Dropped: []identity.Drop{credential, {Kind: identity.DroppedWarrant, Reason: identity.NotDelegated, Name: "bob"}},
			},
		},
		"warrants that kcp would ignore are dropped": {
			owner: serviceAccount(withExtra(identity.WarrantKey,
				"{", `{"user":"bob","extra":{"k":"no list"}}`, warrantJSON(identity.Warrant{User: "system:serviceaccount:default:rest"}))),
			policy: identity.Policy{Users: []string{"*"}},
			want:   rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot",
				Dropped: []identity.Drop{
					credential,
					{Kind: identity.DroppedWarrant, Reason: identity.Unreadable},
					{Kind: identity.DroppedWarrant, Reason: identity.Unreadable},
					{Kind: identity.DroppedWarrant, Reason: identity.HomeInvalid, Name: "system:serviceaccount:default:rest"},
				},
			},
		},
		"a service account without scopes gets none, and with them no group of its home": {
			owner: serviceAccount(without(identity.ScopesKey)),
			want: identity.Owner{
				Username: globalName, Groups: []string{"system:authenticated"},
				Extra: map[string][]string{identity.WarrantKey: {strings.Replace(selfWarrant,
					`,"authentication.kcp.io/scopes":["cluster:`+home+`"]`, "", 1)}},
			},
			wantReport: plain,
		},
		"a service account keeps its own scopes": {
			owner: serviceAccount(withExtra(identity.ScopesKey, "cluster:other,cluster:"+home)),
			want: identity.Owner{
				Username: globalName, Groups: []string{"system:authenticated"},
				Extra: map[string][]string{identity.WarrantKey: {strings.Replace(selfWarrant,
					`["cluster:`+home+`"]`, `["cluster:other,cluster:`+home+`"]`, 1)}},
			},
			wantReport: plain,
		},
		"a service account that was impersonated at home, with several scopes that all include it": {
			owner: serviceAccount(withExtra(identity.ScopesKey, "cluster:"+home, "cluster:other,cluster:"+home)),
			want: identity.Owner{
				Username: globalName, Groups: []string{"system:authenticated"},
				Extra: map[string][]string{identity.WarrantKey: {strings.Replace(selfWarrant,
					`["cluster:`+home+`"]`, `["cluster:`+home+`","cluster:other,cluster:`+home+`"]`, 1)}},
			},
			wantReport: plain,
		},
		"warrants that are nested too deep are dropped": {
			owner:  serviceAccount(withExtra(identity.WarrantKey, deep)),
			policy: identity.Policy{Users: []string{"*"}, Groups: []string{"*"}},
			want:   rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot",
				Dropped: []identity.Drop{{Kind: identity.DroppedWarrant, Reason: identity.Unreadable}, credential},
			},
		},
		"too many warrants are dropped": {
			owner: serviceAccount(withExtra(identity.WarrantKey,
				slices.Repeat([]string{warrantJSON(identity.Warrant{User: "bob"})}, identity.MaxWarrants+1)...)),
			policy: identity.Policy{Users: []string{"*"}, Groups: []string{"*"}},
			want:   rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot",
				Dropped: []identity.Drop{{Kind: identity.DroppedWarrant, Reason: identity.Unreadable}, credential},
			},
		},
		"an administrator's warrant of an owner that is too large with it": {
			owner: serviceAccount(withExtra(identity.WarrantKey, warrantJSON(identity.Warrant{
				User: strings.Repeat("x", identity.MaxOwnerBytes), Groups: []string{"system:kcp:admin"}}), `{"user":"bob"}`)),
			want: rewrittenServiceAccount(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Privileged: []string{"system:kcp:admin"},
				Dropped: []identity.Drop{
					{Kind: identity.DroppedWarrant, Reason: identity.Privileged, Name: strings.Repeat("x", identity.MaxOwnerBytes)},
					{Kind: identity.DroppedWarrant, Reason: identity.NotDelegated, Name: "bob"}, credential},
			},
		},
		"an impersonated global name is rewritten like any user": {
			owner: identity.Owner{
				Username: globalName, Groups: []string{"system:authenticated"},
				Extra: map[string][]string{identity.ScopesKey: {"cluster:attacker"}},
			},
			want: identity.Owner{
				Username: globalName, Groups: []string{"system:authenticated"},
				Extra: map[string][]string{identity.ScopesKey: {"cluster:attacker,cluster:m82w61j76ws21znq"}},
			},
			wantReport: identity.Report{Reason: identity.UserRewritten, CreatedBy: globalName},
		},
		"an unauthenticated service account does not become authenticated": {
			owner: serviceAccount(func(o *identity.Owner) { o.Groups = nil }, without("authentication.kubernetes.io/credential-id")),
			want: identity.Owner{
				Username: globalName,
				Extra: map[string][]string{identity.WarrantKey: {warrantJSON(identity.Warrant{
					User: "system:serviceaccount:default:bot", UID: "6a1b", Extra: map[string][]string{
						identity.ClusterNameKey: {home}, identity.ScopesKey: {"cluster:" + home},
					},
				})}},
			},
			wantReport: identity.Report{Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot"},
		},
		"a service account that was impersonated in the parent becomes its global name, valid in the parent and the new cluster": {
			owner: impersonated("cluster:" + home),
			want:  rewrittenImpersonated(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot",
			},
		},
		"a service account that was impersonated, with a UID and fields of the impersonator": {
			owner: func() identity.Owner {
				o := impersonated("cluster:" + home)
				o.UID = "6a1b"
				o.Groups = append(o.Groups, "team-a", "system:kcp:admin")
				o.Extra["example.com/sync"] = []string{"42"}
				o.Extra["authentication.kubernetes.io/credential-id"] = []string{"JTI=7d0c"}
				return o
			}(),
			want: func() identity.Owner {
				o := rewrittenImpersonated()
				o.Groups = append(o.Groups, "team-a")
				o.Extra["example.com/sync"] = []string{"42"}
				return o
			}(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", Privileged: []string{"system:kcp:admin"},
				Dropped: []identity.Drop{{Kind: identity.DroppedGroup, Reason: identity.Privileged, Name: "system:kcp:admin"}, credential},
			},
		},
		"a service account that was impersonated has the required groups in the new cluster only": {
			owner:    impersonated("cluster:" + home),
			required: "team-a,system:authenticated",
			want: rewrittenImpersonated(`{"user":"` + globalName + `","groups":["team-a"],` +
				`"extra":{"authentication.kcp.io/scopes":["cluster:m82w61j76ws21znq"]}}`),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot", RequiredGroups: []string{"team-a", "system:authenticated"},
			},
		},
		"a service account that was impersonated gets no warrant of itself with a home, which it claims to have arrived with": {
			owner: func() identity.Owner {
				o := impersonated("cluster:" + home)
				withExtra(identity.WarrantKey, selfWarrant)(&o)
				return o
			}(),
			want: rewrittenImpersonated(),
			wantReport: identity.Report{
				Reason: identity.ServiceAccountRewritten, CreatedBy: home + ":default:bot",
				Dropped: []identity.Drop{{Kind: identity.DroppedWarrant, Reason: identity.NotDelegated, Name: "system:serviceaccount:default:bot"}},
			},
		},
		"a scoped user keeps its name and scopes, with the new cluster as an alternative": {
			owner: userIn("cluster:parent"),
			want: identity.Owner{
				Username: "alice", UID: "a1", Groups: []string{"team-a", "system:authenticated"},
				Extra: map[string][]string{identity.ScopesKey: {"cluster:parent,cluster:m82w61j76ws21znq"}},
			},
			wantReport: identity.Report{Reason: identity.UserRewritten, CreatedBy: "alice"},
		},
		"the new cluster is an alternative in each scope of a user": {
			owner: userIn("cluster:a,cluster:b", "cluster:b", "", "cluster:m82w61j76ws21znq"),
			want: identity.Owner{
				Username: "alice", UID: "a1", Groups: []string{"team-a", "system:authenticated"},
				Extra: map[string][]string{identity.ScopesKey: {
					"cluster:a,cluster:b,cluster:m82w61j76ws21znq", "cluster:b,cluster:m82w61j76ws21znq", ",cluster:m82w61j76ws21znq", "cluster:m82w61j76ws21znq",
				}},
			},
			wantReport: identity.Report{Reason: identity.UserRewritten, CreatedBy: "alice"},
		},
		"a scoped user keeps no warrant, whatever the policy names": {
			owner: func() identity.Owner {
				o := userIn("cluster:parent")
				withExtra(identity.WarrantKey, ofTeam, `{"user":"carol"}`)(&o)
				return o
			}(),
			policy: identity.Policy{Users: []string{"bob"}},
			want: identity.Owner{
				Username: "alice", UID: "a1", Groups: []string{"team-a", "system:authenticated"},
				Extra: map[string][]string{identity.ScopesKey: {"cluster:parent,cluster:m82w61j76ws21znq"}},
			},
			wantReport: identity.Report{
				Reason: identity.UserRewritten, CreatedBy: "alice",
				Dropped: []identity.Drop{
					{Kind: identity.DroppedWarrant, Reason: identity.Forgeable, Name: "bob"},
					{Kind: identity.DroppedWarrant, Reason: identity.NotDelegated, Name: "carol"},
				},
			},
		},
		"a scoped user gets no required group": {
			owner:    userIn("cluster:parent"),
			required: "ops",
			want: identity.Owner{
				Username: "alice", UID: "a1", Groups: []string{"team-a", "system:authenticated"},
				Extra: map[string][]string{identity.ScopesKey: {"cluster:parent,cluster:m82w61j76ws21znq"}},
			},
			wantReport: identity.Report{Reason: identity.UserRewritten, CreatedBy: "alice"},
		},
		"a scoped administrator's permissions are dropped": {
			owner: func() identity.Owner {
				o := userIn("cluster:parent")
				o.Groups = append([]string{"system:kcp:admin"}, o.Groups...)
				return o
			}(),
			want: identity.Owner{
				Username: "alice", UID: "a1", Groups: []string{"team-a", "system:authenticated"},
				Extra: map[string][]string{identity.ScopesKey: {"cluster:parent,cluster:m82w61j76ws21znq"}},
			},
			wantReport: identity.Report{
				Reason: identity.UserRewritten, CreatedBy: "alice", Privileged: []string{"system:kcp:admin"},
				Dropped: []identity.Drop{{Kind: identity.DroppedGroup, Reason: identity.Privileged, Name: "system:kcp:admin"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, report := identitytest.Rewrite(tc.owner.String(), parent, newCluster, tc.required, tc.policy)
			if diff := cmp.Diff(tc.want.String(), got); diff != "" {
				t.Errorf("Rewrite() (-want +got):\n%s", diff)
			}
			if report.Message == "" {
				t.Error("the report has no message")
			}
			report.Message = ""
			if diff := cmp.Diff(tc.wantReport, report); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			again, second := identitytest.Rewrite(got, parent, newCluster, tc.required, tc.policy)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("rewriting again changes it (-first +second):\n%s", diff)
			}
			if second.Reason != identity.InScope {
				t.Errorf("rewriting again: %s, want %s", second.Reason, identity.InScope)
			}
		})
	}
}

func TestRewriteDoesNotChange(t *testing.T) {
	for name, tc := range map[string]struct {
		raw         string
		cluster     logicalcluster.Name
		want        identity.Reason
		wantMessage string
		privileged  []string
	}{
		"a user without scopes": {
			raw:  `{"username":"alice","groups":["system:authenticated"]}`,
			want: identity.InScope, wantMessage: `"alice" is in scope in logical cluster "m82w61j76ws21znq"`,
		},
		"an owner in unusual spelling": {
			raw:  "{ \"groups\": [] ,\n\"username\": \"alice\" }",
			want: identity.InScope, wantMessage: `"alice" is in scope in logical cluster "m82w61j76ws21znq"`,
		},
		"an administrator, with a notice": {
			raw:  `{"username":"kcp-admin","groups":["system:kcp:admin","system:authenticated"]}`,
			want: identity.InScope, wantMessage: `"kcp-admin" is in scope in logical cluster "m82w61j76ws21znq"`,
			privileged: []string{"system:kcp:admin"},
		},
		"a user scoped to the new cluster among others": {
			raw:  userIn("cluster:parent,cluster:m82w61j76ws21znq").String(),
			want: identity.InScope, wantMessage: `"alice" is in scope in logical cluster "m82w61j76ws21znq"`,
		},
		"a service account at home": {
			raw: serviceAccount().String(), cluster: home,
			want: identity.InScope, wantMessage: `"system:serviceaccount:default:bot" is in scope in logical cluster "` + home + `"`,
		},
		"no new cluster yet": {
			raw: serviceAccount().String(), cluster: "-",
			want: identity.NoNewCluster, wantMessage: "the workspace has no logical cluster yet",
		},
		"a new cluster that is a path": {
			raw: serviceAccount().String(), cluster: "root:orgs",
			want: identity.Malformed, wantMessage: `"root:orgs" is not the name of a logical cluster`,
		},
		"a service account without a home": {
			raw:         serviceAccount(without(identity.ClusterNameKey), without(identity.ScopesKey)).String(),
			want:        identity.HomeUnknown,
			wantMessage: homeUnknown,
		},
		"a service account that was impersonated in another logical cluster than the parent": {
			raw:         impersonated("cluster:attacker").String(),
			want:        identity.HomeUnknown,
			wantMessage: `service account "system:serviceaccount:default:bot" was impersonated in logical cluster "attacker", but its workspace was not created there`,
		},
		"a service account with a forged scope beside the parent's": {
			raw: impersonated("cluster:attacker", "cluster:"+home).String(), want: identity.HomeUnknown, wantMessage: homeUnknown,
		},
		"a service account with the parent's scope twice": {
			raw: impersonated("cluster:"+home, "cluster:"+home).String(), want: identity.HomeUnknown, wantMessage: homeUnknown,
		},
		"a service account with a forged scope as an alternative": {
			raw: impersonated("cluster:" + home + ",cluster:attacker").String(), want: identity.HomeUnknown, wantMessage: homeUnknown,
		},
		"a service account with a scope that is no logical cluster": {
			raw: impersonated(home).String(), want: identity.HomeUnknown, wantMessage: homeUnknown,
		},
		"a service account with a scope that is a path": {
			raw: impersonated("cluster:a:b").String(), want: identity.Malformed,
			wantMessage: `the home cluster "a:b" of service account "system:serviceaccount:default:bot" is not the name of a logical cluster`,
		},
		"a service account with a scope without a name": {
			raw: impersonated("cluster:").String(), want: identity.Malformed,
			wantMessage: `the home cluster "" of service account "system:serviceaccount:default:bot" is not the name of a logical cluster`,
		},
		"a service account with two homes": {
			raw:         serviceAccount(withExtra(identity.ClusterNameKey, home, "other")).String(),
			want:        identity.HomeAmbiguous,
			wantMessage: `service account "system:serviceaccount:default:bot" names several home clusters (` + home + `, other)`,
		},
		"a service account whose home could be mistaken for more": {
			raw:         serviceAccount(withExtra(identity.ClusterNameKey, "a:b")).String(),
			want:        identity.Malformed,
			wantMessage: `the home cluster "a:b" of service account "system:serviceaccount:default:bot" is not the name of a logical cluster`,
		},
		"a service account with an empty home": {
			raw:         serviceAccount(withExtra(identity.ClusterNameKey, "")).String(),
			want:        identity.Malformed,
			wantMessage: `the home cluster "" of service account "system:serviceaccount:default:bot" is not the name of a logical cluster`,
		},
		"a malformed name of a service account": {
			raw:         serviceAccount(func(o *identity.Owner) { o.Username = "system:serviceaccount:default:bot:x" }).String(),
			want:        identity.Malformed,
			wantMessage: `"system:serviceaccount:default:bot:x" is not the name of a service account`,
		},
		"no owner": {raw: "", want: identity.Absent, wantMessage: "no owner is recorded, so kcp can impersonate no user"},
		"blanks":   {raw: " \n", want: identity.Absent, wantMessage: "no owner is recorded, so kcp can impersonate no user"},
		"an owner without a name": {
			raw: `{}`, want: identity.Malformed, wantMessage: "the recorded owner cannot be read: it names no user",
		},
		"null": {
			raw: `null`, want: identity.Malformed, wantMessage: "the recorded owner cannot be read: it names no user",
		},
		"not JSON": {
			raw: `{"username":`, want: identity.Malformed, wantMessage: `the recorded owner cannot be read: unexpected EOF within "/username" after offset 12`,
		},
		"not an object": {
			raw: `["alice"]`, want: identity.Malformed, wantMessage: "the recorded owner cannot be read: it is not a JSON object",
		},
		"a wrong type": {
			raw:         `{"username":"alice","groups":"team-a"}`,
			want:        identity.Malformed,
			wantMessage: `the recorded owner cannot be read: wrong type of value at "/groups"`,
		},
		"an extra value that is no list": {
			raw:         `{"username":"alice","extra":{"k":"v"}}`,
			want:        identity.Malformed,
			wantMessage: `the recorded owner cannot be read: wrong type of value at "/extra/k"`,
		},
		"a field in other case, which another reader might take for the same": {
			raw:         `{"username":"alice","Username":"bob"}`,
			want:        identity.Malformed,
			wantMessage: `the recorded owner cannot be read: unknown field "/Username"`,
		},
		"a repeated field": {
			raw:         `{"username":"alice","username":"bob"}`,
			want:        identity.Malformed,
			wantMessage: `the recorded owner cannot be read: duplicate object member name "username"`,
		},
		"an unknown field, which might restrict the owner": {
			raw:         `{"username":"alice","notAfter":"2020-01-01"}`,
			want:        identity.Malformed,
			wantMessage: `the recorded owner cannot be read: unknown field "/notAfter"`,
		},
		"an unknown field whose name is as long as a message may be": {
			raw:         `{"username":"alice","` + strings.Repeat("x", 239) + `":1}`,
			want:        identity.Malformed,
			wantMessage: `the recorded owner cannot be read: unknown field "/` + strings.Repeat("x", 239) + `"`,
		},
		"an unknown field whose name is too long for a message": {
			raw:         `{"username":"alice","` + strings.Repeat("x", 240) + `":1}`,
			want:        identity.Malformed,
			wantMessage: `the recorded owner cannot be read: unknown field "/` + strings.Repeat("x", 240) + `…`,
		},
		"as large as is read": {
			raw:  ofSize(identity.MaxOwnerBytes),
			want: identity.InScope, wantMessage: `"kcp-admin" is in scope in logical cluster "m82w61j76ws21znq"`,
			privileged: []string{"system:kcp:admin"},
		},
		"an administrator who signed in, with more than the maximum size": {
			raw:  ofSize(identity.MaxOwnerBytes + 1),
			want: identity.TooLarge, wantMessage: "the recorded owner was not read: it is larger than 65536 bytes",
			privileged: []string{"system:kcp:admin"},
		},
		"too large": {
			raw:  serviceAccount(withExtra("example.com/x", strings.Repeat("x", identity.MaxOwnerBytes))).String(),
			want: identity.TooLarge, wantMessage: "the recorded owner was not read: it is larger than 65536 bytes",
		},
		"too large once rewritten": {
			raw:  serviceAccount(withExtra("example.com/x", strings.Repeat(`"`, identity.MaxOwnerBytes/2-1000))).String(),
			want: identity.TooLarge, wantMessage: "the owner was not rewritten, because it would be larger than 65536 bytes",
		},
		"a service account of a forged home": {
			raw:  serviceAccount(withExtra(identity.ScopesKey, "cluster:attacker")).String(),
			want: identity.HomeOutOfScope, wantMessage: homeOutOfScope("cluster:attacker"),
		},
		"a service account of a forged home, with a forged scope beside the one that kcp appends": {
			raw:  serviceAccount(withExtra(identity.ScopesKey, "cluster:"+home, "cluster:attacker")).String(),
			want: identity.HomeOutOfScope, wantMessage: homeOutOfScope("cluster:" + home + " and cluster:attacker"),
		},
		"a service account of a forged home, with a forged scope of both": {
			raw:  serviceAccount(withExtra(identity.ScopesKey, "cluster:attacker,cluster:"+home, "cluster:attacker")).String(),
			want: identity.HomeOutOfScope, wantMessage: homeOutOfScope("cluster:attacker,cluster:" + home + " and cluster:attacker"),
		},
		"a service account of a forged home under the older key, which kcp ignores": {
			raw: serviceAccount(without(identity.ClusterNameKey), withExtra("authentication.kubernetes.io/cluster-name", home),
				withExtra(identity.ScopesKey, "cluster:attacker")).String(),
			want:        identity.HomeUnknown,
			wantMessage: `service account "system:serviceaccount:default:bot" was impersonated in logical cluster "attacker", but its workspace was not created there`,
		},
		"a service account whose forged home is the new cluster": {
			raw: serviceAccount(withExtra(identity.ScopesKey, "cluster:attacker")).String(), cluster: home,
			want: identity.HomeOutOfScope, wantMessage: homeOutOfScope("cluster:attacker"),
		},
		"a service account whose scopes only start like its home": {
			raw:  serviceAccount(withExtra(identity.ScopesKey, "cluster:"+home+"x")).String(),
			want: identity.HomeOutOfScope, wantMessage: homeOutOfScope("cluster:" + home + "x"),
		},
		"a service account with an empty scope": {
			raw:  serviceAccount(withExtra(identity.ScopesKey, "")).String(),
			want: identity.HomeOutOfScope, wantMessage: homeOutOfScope(""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster
			if tc.cluster != "" {
				cluster = logicalcluster.Name(strings.TrimPrefix(tc.cluster.String(), "-"))
			}
			got, report := identitytest.Rewrite(tc.raw, parent, cluster, "team-a", identity.Policy{})
			if got != tc.raw {
				t.Errorf("Rewrite() changed the owner to %s", got)
			}
			if diff := cmp.Diff(identity.Report{Reason: tc.want, Message: tc.wantMessage, Privileged: tc.privileged}, report); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRewriteDropsWarrants checks which warrants an owner keeps that is not rewritten. Nothing else changes, the groups of administrators
// included.
func TestRewriteDropsWarrants(t *testing.T) {
	lent := warrantJSON(identity.Warrant{
		User: "system:serviceaccount:default:rest", Groups: []string{"system:kcp:admin"},
		Extra: map[string][]string{identity.ClusterNameKey: {"consumer"}},
	})
	ofBob := warrantJSON(identity.Warrant{User: "bob", Groups: []string{"team-b"}})
	inside := func(raw string) string {
		return warrantJSON(identity.Warrant{User: "bob", Extra: map[string][]string{identity.WarrantKey: {raw}}})
	}
	group := func(group string) string { return warrantJSON(identity.Warrant{User: "bob", Groups: []string{group}}) }
	const parentWarrant = `{"user":"alice","uid":"a1","groups":["team-a","system:authenticated"],"extra":{"authentication.kcp.io/scopes":["cluster:parent"]}}`
	bobs := identity.Policy{Users: []string{"bob"}}
	all := identity.Policy{Users: []string{"*"}, Groups: []string{"*", "*:*", "*:*:*"}}
	dropped := func(pairs ...string) []identity.Drop {
		var drops []identity.Drop
		for pair := range slices.Chunk(pairs, 2) {
			drops = append(drops, identity.Drop{Kind: identity.DroppedWarrant, Reason: identity.DropReason(pair[0]), Name: pair[1]})
		}
		return drops
	}
	for name, tc := range map[string]struct {
		owner      identity.Owner
		warrants   []string
		policy     identity.Policy
		want       []string
		wantReason identity.Reason // default: InScope
		wantDrops  []identity.Drop
	}{
		"that of an APIExport's virtual workspace": {
			owner: userIn(), warrants: []string{lent}, wantDrops: dropped("Privileged", "system:serviceaccount:default:rest"),
		},
		"it, with a credential of one request, which stays": {
			owner:    identity.Owner{Username: "alice", Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"X509SHA256=1f"}}},
			warrants: []string{lent}, wantDrops: dropped("Privileged", "system:serviceaccount:default:rest"),
		},
		"that of an administrator's request, whose groups stay": {
			owner:    identity.Owner{Username: "kcp-admin", Groups: []string{"system:kcp:admin", "system:authenticated"}, Extra: map[string][]string{}},
			warrants: []string{lent}, policy: all, wantDrops: dropped("Privileged", "system:serviceaccount:default:rest"),
		},
		"nested in one that the policy keeps": {
			owner: userIn(), warrants: []string{inside(lent), inside(inside(lent))}, policy: all, wantDrops: dropped("Privileged", "bob", "Privileged", "bob"),
		},
		"with escapes that mean the same": {
			owner: userIn(), warrants: []string{strings.Replace(lent, "system:kcp", `\u0073ystem\u003akcp`, 1)}, policy: all,
			wantDrops: dropped("Privileged", "system:serviceaccount:default:rest"),
		},
		"of every group of administrators": {
			owner: userIn(), policy: all,
			warrants: []string{
				group("system:masters"), group("system:kcp:logical-cluster-admin"), group("system:kcp:external-logical-cluster-admin"),
				group("system:kcp:tenancy:workspace-bootstrapper"), group("apis.kcp.io:binding:system:kcp:tenancy:workspace-bootstrapper"),
				group("system:kcp:initializer:root:org"), group("system:kcp:terminator:root:org"),
			},
			wantDrops: dropped(slices.Repeat([]string{"Privileged", "bob"}, 7)...),
		},
		"that kcp reads, but this program does not": {
			owner: userIn(), policy: all,
			warrants: []string{
				`{"user":"bob","groups":["system:masters"],"note":1}`, `{"user":"bob","groups":["x"],"groups":["system:masters"]}`,
				`{"User":"bob","Groups":["system:masters"]}`, inside(`{"user":"bob","GROUPS":["system:masters"]}`),
			},
			wantDrops: dropped("Unreadable", "", "Unreadable", "", "Unreadable", "", "Unreadable", "bob"),
		},
		"one that the policy does not name, and one that it names": {
			owner: userIn(), warrants: []string{ofBob, group("team-c"), `{"user":"carol"}`}, policy: bobs,
			want: []string{ofBob, group("team-c")}, wantDrops: dropped("NotDelegated", "carol"),
		},
		"one that it names, beside that of an APIExport's virtual workspace, where anybody can be claimed": {
			owner: userIn(), warrants: []string{ofBob, lent}, policy: bobs,
			wantDrops: dropped("Forgeable", "bob", "Privileged", "system:serviceaccount:default:rest"),
		},
		"one that it names, with the group of an initializer's virtual workspace": {
			owner:    identity.Owner{Username: "alice", Groups: []string{"system:kcp:initializer:root:org"}, Extra: map[string][]string{}},
			warrants: []string{ofBob}, policy: bobs, wantDrops: dropped("Forgeable", "bob"),
		},
		"of a service account without a home": {
			owner: userIn(), warrants: []string{warrantJSON(identity.Warrant{User: "system:serviceaccount:default:rest"})}, policy: all,
			wantDrops: dropped("HomeInvalid", "system:serviceaccount:default:rest"),
		},
		"beside those of the owner itself": {
			owner: identity.Owner{Username: globalName, Extra: map[string][]string{}}, warrants: []string{
				selfWarrant, lent, `{"user":"` + globalName + `","groups":["team-a"],"extra":{"authentication.kcp.io/scopes":["cluster:m82w61j76ws21znq"]}}`,
			},
			want: []string{
				selfWarrant, `{"user":"` + globalName + `","groups":["team-a"],"extra":{"authentication.kcp.io/scopes":["cluster:m82w61j76ws21znq"]}}`,
			},
			wantDrops: dropped("Privileged", "system:serviceaccount:default:rest"),
		},
		"of a user that a former rewrite has scoped to the workspace": {
			owner: userIn("cluster:m82w61j76ws21znq"), warrants: []string{parentWarrant, lent, ofBob}, policy: all,
			want: []string{parentWarrant}, wantDrops: dropped("Privileged", "system:serviceaccount:default:rest", "Forgeable", "bob"),
		},
		"that only look like those of the owner itself": {
			owner: identity.Owner{Username: globalName, Extra: map[string][]string{}}, warrants: []string{
				strings.Replace(selfWarrant, ":bot", ":other", 1), strings.Replace(selfWarrant, home+`"]`, `other"]`, 1), // another account, another home
				strings.Replace(selfWarrant, `"system:authenticated"`, `"system:masters"`, 1),
				warrantJSON(identity.Warrant{User: globalName, Groups: []string{"team-a"}}), // everywhere
				warrantJSON(identity.Warrant{User: globalName, Extra: map[string][]string{
					identity.ScopesKey: {"cluster:m82w61j76ws21znq"}, identity.WarrantKey: {`{"user":"carol"}`}}}),
			},
			wantDrops: dropped("NotDelegated", "system:serviceaccount:default:other", "NotDelegated", "system:serviceaccount:default:bot",
				"Privileged", "system:serviceaccount:default:bot", "NotDelegated", globalName, "NotDelegated", globalName),
		},
		"nested too deep": {owner: userIn(), warrants: []string{deep}, policy: all, wantDrops: dropped("Unreadable", "")},
		"too many": {
			owner: userIn(), warrants: slices.Repeat([]string{ofBob}, identity.MaxWarrants+1), policy: all, wantDrops: dropped("Unreadable", ""),
		},
		"with which the owner is too large": {
			owner: userIn(), warrants: []string{warrantJSON(identity.Warrant{User: strings.Repeat("x", identity.MaxOwnerBytes), Groups: []string{"system:masters"}})},
			wantDrops: dropped("Privileged", strings.Repeat("x", identity.MaxOwnerBytes)),
		},
		"of an owner that is too large without them": {
			owner:    identity.Owner{Username: "alice", Extra: map[string][]string{"example.com/x": {strings.Repeat("x", identity.MaxOwnerBytes)}}},
			warrants: []string{lent, ofBob}, policy: bobs,
			wantReason: identity.TooLarge, wantDrops: dropped("Privileged", "system:serviceaccount:default:rest", "Forgeable", "bob"),
		},
		"of a service account of a forged home, one that the policy names, and one that it does not": {
			owner: serviceAccount(withExtra(identity.ScopesKey, "cluster:attacker")), warrants: []string{ofBob, `{"user":"carol"}`}, policy: bobs,
			wantReason: identity.HomeOutOfScope, wantDrops: dropped("Forgeable", "bob", "NotDelegated", "carol"),
		},
		"of a service account of a forged home, with that home": {
			owner: serviceAccount(withExtra(identity.ScopesKey, "cluster:attacker")), warrants: []string{selfWarrant},
			wantReason: identity.HomeOutOfScope, wantDrops: dropped("NotDelegated", "system:serviceaccount:default:bot"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			owner := tc.owner
			owner.Extra = maps.Clone(owner.Extra)
			owner.Extra[identity.WarrantKey] = tc.warrants
			got, report := identitytest.Rewrite(owner.String(), home, newCluster, "team-a", tc.policy)
			if delete(owner.Extra, identity.WarrantKey); len(tc.want) > 0 {
				owner.Extra[identity.WarrantKey] = tc.want
			}
			if diff := cmp.Diff(owner.String(), got); diff != "" {
				t.Errorf("Rewrite() (-want +got):\n%.3000s", diff)
			}
			if want := stdcmp.Or(tc.wantReason, identity.InScope); report.Reason != want {
				t.Errorf("%s, want %s", report.Reason, want)
			}
			if diff := cmp.Diff(tc.wantDrops, report.Dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%.3000s", diff)
			}
			if again, second := identitytest.Rewrite(got, home, newCluster, "team-a", tc.policy); again != got || second.Changed() {
				t.Errorf("rewriting again changes it to %.3000s", again)
			}
		})
	}
}

// ofSize returns an owner of this many bytes. It has no scopes, so it was not impersonated.
func ofSize(bytes int) string {
	owner := identity.Owner{Username: "kcp-admin", Groups: []string{"system:kcp:admin"}, Extra: map[string][]string{"example.com/x": {""}}}
	withExtra("example.com/x", strings.Repeat("x", bytes-len(owner.String())))(&owner)
	return owner.String()
}

// TestLargestRewrite: an owner is rewritten if the result can be read again, up to the last byte.
func TestLargestRewrite(t *testing.T) {
	padded := func(bytes int) string {
		return serviceAccount(withExtra("example.com/x", strings.Repeat("x", bytes))).String()
	}
	smallest, _ := identitytest.Rewrite(padded(0), parent, newCluster, "", identity.Policy{})
	fits := identity.MaxOwnerBytes - len(smallest)
	for padding, want := range map[int]identity.Reason{fits: identity.ServiceAccountRewritten, fits + 1: identity.TooLarge} {
		got, report := identitytest.Rewrite(padded(padding), parent, newCluster, "", identity.Policy{})
		if report.Reason != want {
			t.Errorf("%d bytes more than the smallest: %s, want %s", padding, report.Reason, want)
		}
		if _, err := identity.ParseOwner(got); err != nil {
			t.Errorf("the result cannot be read: %v", err)
		}
	}
}

func homeOutOfScope(scopes string) string {
	return `service account "system:serviceaccount:default:bot" is scoped to ` + scopes + `, which leaves out its home, ` +
		`logical cluster "` + home + `": it was impersonated elsewhere, so its home is only claimed`
}

const homeUnknown = `service account "system:serviceaccount:default:bot" does not name its home logical cluster ` +
	`(extra "authentication.kcp.io/cluster-name"), so its workspace is unknown`

// TestForgedWarrantIsDropped checks that forged warrants, of an administrator and of a user, are dropped, whatever the other fields and the
// configuration are. A user who may impersonate in one workspace can forge every extra field.
func TestForgedWarrantIsDropped(t *testing.T) {
	administrators := map[string]string{
		"plain":                              `{"user":"root-boss","groups":["system:masters"]}`,
		"nested":                             warrantJSON(identity.Warrant{User: "bob", Extra: map[string][]string{identity.WarrantKey: {`{"user":"root-boss","groups":["system:masters"]}`}}}),
		"with a field that kcp ignores":      `{"user":"root-boss","groups":["system:masters"],"note":1}`,
		"with a repeated field":              `{"user":"root-boss","groups":["x"],"groups":["system:masters"]}`,
		"nested deeper than is read":         strings.Replace(deep, "bob", "system:masters", 1),
		"next to something that is too long": `{"user":"` + strings.Repeat("x", identity.MaxOwnerBytes) + `","groups":["system:masters"]}`,
	}
	forged := func(owner identity.Owner, modify ...func(*identity.Owner)) identity.Owner {
		for _, m := range append(modify, withExtra(identity.ScopesKey, "cluster:attacker")) {
			m(&owner)
		}
		return owner
	}
	long := withExtra("example.com/x", strings.Repeat("x", identity.MaxOwnerBytes))
	for name, tc := range map[string]struct {
		owner identity.Owner
		want  identity.Reason
	}{
		"a user":                                  {forged(userIn()), identity.UserRewritten},
		"a user with a field that is too long":    {forged(userIn(), long), identity.TooLarge},
		"a forged home":                           {forged(serviceAccount()), identity.HomeOutOfScope},
		"a forged home, and a field that is long": {forged(serviceAccount(), long), identity.TooLarge},
		"no home":                                 {forged(serviceAccount(), without(identity.ClusterNameKey)), identity.HomeUnknown},
		"two homes":                               {forged(serviceAccount(), withExtra(identity.ClusterNameKey, home, "b")), identity.HomeAmbiguous},
		"a home that is no name":                  {forged(serviceAccount(), withExtra(identity.ClusterNameKey, "a:b")), identity.Malformed},
		"a name like a service account's":         {forged(identity.Owner{Username: "system:serviceaccount:a:b:c", Extra: map[string][]string{}}), identity.Malformed},
		"the global name of a service account":    {forged(identity.Owner{Username: globalName, Extra: map[string][]string{}}), identity.UserRewritten},
		"a service account with a forged warrant": {serviceAccount(), identity.ServiceAccountRewritten},
	} {
		for kind, warrant := range administrators {
			for _, policy := range []identity.Policy{{}, {Users: []string{"*"}, Groups: []string{"*", "*:*", "*:*:*"}}} {
				t.Run(fmt.Sprintf("%s, %s, keepWarrants %v", name, kind, policy.Users), func(t *testing.T) {
					owner := tc.owner
					owner.Extra = maps.Clone(owner.Extra)
					owner.Extra[identity.WarrantKey] = []string{`{"user":"bob","groups":["platform-admins"]}`, warrant}
					got, report := identitytest.Rewrite(owner.String(), parent, newCluster, "", policy)
					if report.Reason != tc.want {
						t.Errorf("%s, want %s: %s", report.Reason, tc.want, report.Message)
					}
					if strings.Contains(got, "system:masters") || strings.Contains(got, "root-boss") || strings.Contains(got, "bob") {
						t.Errorf("a warrant stays: %.2000s", got)
					}
					left, err := identity.ParseOwner(got)
					if tc.want == identity.TooLarge {
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if !tc.want.Rewritten() {
						if diff := cmp.Diff(tc.owner, left, cmpopts.EquateEmpty()); diff != "" {
							t.Errorf("the other fields of the owner (-want +got):\n%s", diff)
						}
					}
				})
			}
		}
	}
}

func TestRewriteMessages(t *testing.T) {
	for name, tc := range map[string]struct {
		owner    identity.Owner
		required string
		want     string
	}{
		"a service account": {
			owner: serviceAccount(),
			want: `service account "system:serviceaccount:default:bot" of logical cluster "` + home + `" is foreign in logical cluster ` +
				`"m82w61j76ws21znq"; kcp acts as "` + globalName + `", backed by its warrant`,
		},
		"a service account with required groups": {
			owner: serviceAccount(), required: "team-a,team-b",
			want: `service account "system:serviceaccount:default:bot" of logical cluster "` + home + `" is foreign in logical cluster ` +
				`"m82w61j76ws21znq"; kcp acts as "` + globalName + `", backed by its warrant; ` +
				`there it also counts as a member of the required groups "team-a,team-b"`,
		},
		"a service account where only administrators may enter": {
			owner: serviceAccount(), required: "system:masters",
			want: `service account "system:serviceaccount:default:bot" of logical cluster "` + home + `" is foreign in logical cluster ` +
				`"m82w61j76ws21znq"; kcp acts as "` + globalName + `", backed by its warrant; ` +
				`the workspace requires groups that the owner must not get, so kcp will deny it access`,
		},
		"a service account that was impersonated in the parent": {
			owner: impersonated("cluster:" + home), required: "team-a,team-b",
			want: `service account "system:serviceaccount:default:bot" of logical cluster "` + home + `" is foreign in logical cluster ` +
				`"m82w61j76ws21znq"; kcp acts as "` + globalName + `", scoped to both, so only permissions of this name count; ` +
				`there it also counts as a member of the required groups "team-a,team-b"`,
		},
		"a scoped user": {
			owner: userIn("cluster:a,cluster:b", "cluster:b"), required: "team-a",
			want: `user "alice" is scoped to cluster:a,cluster:b and cluster:b and foreign in logical cluster "m82w61j76ws21znq"; ` +
				`kcp acts as the same user, scoped to that, too`,
		},
		"a scoped user without a required group": {
			owner: userIn("cluster:a"), required: "ops",
			want: `user "alice" is scoped to cluster:a and foreign in logical cluster "m82w61j76ws21znq"; ` +
				`kcp acts as the same user, scoped to that, too; ` +
				`it is in none of the groups that the workspace requires, so kcp will deny it access`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, report := identity.Rewrite(tc.owner.String(), parent, newCluster, tc.required, identity.Policy{})
			if diff := cmp.Diff(tc.want, report.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKCPDecodesTheOwner decodes the rewritten owner with kcp's own types.
func TestKCPDecodesTheOwner(t *testing.T) {
	raw, _ := identitytest.Rewrite(serviceAccount().String(), parent, newCluster, "team-a", identity.Policy{})
	var annotation authenticationv1.UserInfo
	if err := json.Unmarshal([]byte(raw), &annotation); err != nil {
		t.Fatal(err)
	}
	var createdBy corev1alpha1.OwnerUserInfo
	if err := json.Unmarshal([]byte(raw), &createdBy); err != nil {
		t.Fatal(err)
	}
	want, err := identity.ParseOwner(raw)
	if err != nil {
		t.Fatal(err)
	}
	for name, decoded := range map[string]any{"annotation": annotation, "createdBy": createdBy} {
		encoded, err := json.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		got, err := identity.ParseOwner(string(encoded))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// privilegedParts are parts of the names of privileged groups.
var privilegedParts = []string{
	"system:masters", "system:kcp:admin", "logical-cluster-admin", "workspace-bootstrapper", "system:kcp:initializer", "system:kcp:terminator",
}

// TestGeneratedOwners checks the properties that every owner must have, without a kcp.
func TestGeneratedOwners(t *testing.T) {
	rewritten := 0
	cases := 20_000
	if testing.Short() {
		cases /= 10
	}
	for tc := range identitytest.Cases(1, cases) {
		owner := tc.Owner
		got, report := tc.Rewrite()
		if !report.Reason.Rewritten() {
			if changed := got != owner.String(); changed != (len(report.Dropped) > 0) {
				t.Fatalf("%s, changed %t\n from %s\n to   %s", report.Reason, changed, owner, got)
			}
			if !report.Reason.Harmless() && (strings.Contains(got, "system:masters") || strings.Contains(got, "system:kcp:admin")) {
				t.Fatalf("%s, and the permissions of an administrator stay:\n from %s\n to   %s", report.Reason, owner, got)
			}
			left, err := identity.ParseOwner(got)
			if err != nil {
				t.Fatal(err)
			}
			for _, privileged := range privilegedParts {
				if slices.ContainsFunc(left.Extra[identity.WarrantKey], func(raw string) bool { return strings.Contains(raw, privileged) }) {
					t.Fatalf("%s, and a warrant of %s stays:\n from %s\n to   %s", report.Reason, privileged, owner, got)
				}
			}
			if again, second := identitytest.Rewrite(got, tc.Parent, identitytest.NewCluster, tc.RequiredGroups, tc.Policy); again != got || second.Changed() {
				t.Fatalf("not idempotent:\n first  %s\n second %s", got, again)
			}
			if report.Reason == identity.InScope {
				if delete(left.Extra, identity.WarrantKey); !cmp.Equal(owner.Groups, left.Groups, cmpopts.EquateEmpty()) || left.Username != owner.Username {
					t.Fatalf("more than warrants was dropped:\n from %s\n to   %s", owner, got)
				}
			}
			continue
		}
		rewritten++
		again, _ := identitytest.Rewrite(got, tc.Parent, identitytest.NewCluster, tc.RequiredGroups, tc.Policy)
		if again != got {
			t.Fatalf("not idempotent:\n first  %s\n second %s", got, again)
		}
		for _, privileged := range privilegedParts {
			if strings.Contains(got, privileged) {
				t.Fatalf("%s is passed on:\n from %s\n to   %s", privileged, owner, got)
			}
		}
		if strings.Contains(got, "credential-id") {
			t.Fatalf("a field of one request is stored:\n from %s\n to   %s", owner, got)
		}
		result, err := identity.ParseOwner(got)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(result.Username, "system:serviceaccount:") || !result.InScope(identitytest.NewCluster) {
			t.Fatalf("kcp cannot act as %s", got)
		}
	}
	if rewritten < cases/4 {
		t.Errorf("only %d owners were foreign, so the generator tests too little", rewritten)
	}
}

func FuzzParseOwner(f *testing.F) {
	f.Add(serviceAccount().String())
	f.Add(`{"username":"alice","extra":{"k":["v"]}}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, raw string) {
		owner, err := identity.ParseOwner(raw)
		if err != nil {
			return
		}
		again, err := identity.ParseOwner(owner.String())
		if err != nil {
			if len(owner.String()) > identity.MaxOwnerBytes { // escapes in JSON make it longer
				return
			}
			t.Fatalf("%s cannot be read: %v", owner, err)
		}
		if diff := cmp.Diff(owner, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("decoding the written owner (-want +got):\n%s", diff)
		}
	})
}

func FuzzParseWarrant(f *testing.F) {
	f.Add(selfWarrant)
	f.Add(`{"groups":["team-a"]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		warrant, err := identity.ParseWarrant(raw)
		if err != nil {
			return
		}
		again, err := identity.ParseWarrant(warrant.String())
		if err != nil {
			t.Fatalf("%s cannot be read: %v", warrant, err)
		}
		if diff := cmp.Diff(warrant, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("decoding the written owner (-want +got):\n%s", diff)
		}
	})
}

func FuzzRewrite(f *testing.F) {
	for tc := range identitytest.Cases(2, 50) {
		f.Add(tc.Owner.String(), newCluster.String(), "team-a,team-b;ops", "*")
	}
	f.Add(strings.Repeat(`{"extra":{"authorization.kcp.io/warrant":["`, 20), "x", ";,", "[")
	f.Fuzz(func(t *testing.T, raw, cluster, required, pattern string) {
		policy := identity.Policy{Users: []string{pattern}, Groups: []string{pattern}}
		got, report := identitytest.Rewrite(raw, parent, logicalcluster.Name(cluster), required, policy)
		if report.Reason == "" || report.Message == "" || strings.Contains(report.Message, "\n") {
			t.Fatalf("report %+v", report)
		}
		if !report.Reason.Rewritten() {
			if got != raw && len(report.Dropped) == 0 {
				t.Fatalf("%s, but changed to %s", report.Reason, got)
			}
			return
		}
		if again, _ := identitytest.Rewrite(got, parent, logicalcluster.Name(cluster), required, policy); again != got {
			t.Fatalf("not idempotent:\n first  %s\n second %s", got, again)
		}
	})
}
