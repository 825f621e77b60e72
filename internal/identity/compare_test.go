package identity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"warrantgate.dev/internal/identity"
)

func TestSameOwner(t *testing.T) {
	raw := serviceAccount().String()
	rewritten := rewrittenServiceAccount().String()
	const cutDown, cutDownGlobal = `{"username":"system:serviceaccount:default:bot"}`, `{"username":"` + globalName + `"}`
	alice := userIn("cluster:parent").String()
	ofTeam := `{"user":"bob"}`
	withWarrants := func(warrants ...string) string {
		return identity.Owner{Username: "alice", Extra: map[string][]string{identity.WarrantKey: warrants}}.String()
	}
	const lent = `{"user":"rest","groups":["system:kcp:admin"]}`
	warranted := serviceAccount(withExtra(identity.WarrantKey, ofTeam)).String()

	for name, tc := range map[string]struct {
		workspace, cluster string
		ready              bool
		want               bool
	}{
		"the same":                                       {workspace: raw, cluster: raw, want: true},
		"the same in another spelling":                   {workspace: alice, cluster: " " + alice, want: true},
		"rewritten on both":                              {workspace: rewritten, cluster: rewritten, want: true},
		"rewritten on the LogicalCluster":                {workspace: raw, cluster: rewritten, want: true},
		"rewritten with a warrant that is kept":          {workspace: warranted, cluster: rewrittenServiceAccount(ofTeam).String(), want: true},
		"rewritten with a warrant that it did not have":  {workspace: raw, cluster: rewrittenServiceAccount(ofTeam).String()},
		"rewritten without the warrant that it had":      {workspace: warranted, cluster: rewritten, want: true},
		"in scope, without an administrator's warrant":   {workspace: withWarrants(lent), cluster: `{"username":"alice"}`, want: true},
		"in scope, with one of two warrants":             {workspace: withWarrants(lent, ofTeam), cluster: withWarrants(ofTeam), want: true},
		"in scope, with a warrant that it did not have":  {workspace: withWarrants(lent), cluster: withWarrants(ofTeam)},
		"in scope, with another group":                   {workspace: withWarrants(lent), cluster: `{"username":"alice","groups":["system:masters"]}`},
		"Ready and cut down":                             {workspace: raw, cluster: cutDown, ready: true, want: true},
		"Ready, rewritten and cut down":                  {workspace: cutDown, cluster: rewritten, ready: true, want: true},
		"Ready, rewritten and cut down on both":          {workspace: cutDown, cluster: cutDownGlobal, ready: true, want: true},
		"a scoped user, rewritten on the LogicalCluster": {workspace: alice, cluster: userIn("cluster:parent,cluster:m82w61j76ws21znq").String(), want: true},
		"a scoped user, rewritten with a warrant that is kept": {
			workspace: userWith(userIn("cluster:parent"), ofTeam).String(), cluster: userWith(userIn("cluster:parent,cluster:m82w61j76ws21znq"), ofTeam).String(), want: true,
		},
		"a scoped user with the scope of another cluster": {workspace: alice, cluster: userIn("cluster:victim,cluster:parent,cluster:m82w61j76ws21znq").String()},
		"a scoped user with the new scope only":           {workspace: alice, cluster: userIn("cluster:m82w61j76ws21znq").String()},
		"impersonated in the parent, rewritten on the LogicalCluster": {
			workspace: impersonated("cluster:" + home).String(), cluster: rewrittenImpersonated().String(), want: true,
		},
		"impersonated in the parent, rewritten with a warrant of itself": {
			workspace: impersonated("cluster:" + home).String(), cluster: rewrittenImpersonated(selfWarrant).String(),
		},
		"impersonated in the parent, with the scope of another cluster": {
			workspace: impersonated("cluster:" + home).String(), cluster: strings.Replace(rewrittenImpersonated().String(), "cluster:"+home, "cluster:victim,cluster:"+home, 1),
		},
		"impersonated elsewhere, rewritten on the LogicalCluster": {
			workspace: impersonated("cluster:other").String(), cluster: strings.ReplaceAll(rewrittenImpersonated().String(), home, "other"),
		},
		"impersonated in the parent, when Ready, with a name of another home": {
			workspace: impersonated("cluster:" + home).String(), cluster: `{"username":"system:kcp:serviceaccount:other:default:bot"}`, ready: true,
		},
		"an owner of a deleted Workspace":               {workspace: "", cluster: raw, want: true},
		"one of the Workspace that is unreadable":       {workspace: "{", cluster: raw, want: true},
		"one of another user":                           {workspace: alice, cluster: `{"username":"root-boss","groups":["system:masters"]}`},
		"one of another user, when Ready":               {workspace: `{"username":"alice"}`, cluster: `{"username":"root-boss"}`, ready: true},
		"one with another group":                        {workspace: alice, cluster: `{"username":"alice","uid":"a1","groups":["system:masters"]}`},
		"one with another group and no UID, when Ready": {workspace: alice, cluster: `{"username":"alice","groups":["system:masters"]}`, ready: true},
		"one without the scope":                         {workspace: alice, cluster: `{"username":"alice"}`},
		"one that is the name only":                     {workspace: raw, cluster: cutDown},
		"one that was deleted":                          {workspace: raw, cluster: ""},
		"one of another user, and that of the Workspace is too large": {
			workspace: withWarrants(strings.Repeat("x", identity.MaxOwnerBytes)), cluster: `{"username":"root-boss","groups":["system:masters"]}`,
		},
		"one of a service account of another home, when Ready": {
			workspace: raw, cluster: `{"username":"system:kcp:serviceaccount:other:default:bot"}`, ready: true,
		},
		"one of another service account, when Ready": {
			workspace: cutDown, cluster: `{"username":"system:kcp:serviceaccount:` + home + `:default:other"}`, ready: true,
		},
		"one of a service account of the same name in another namespace, when Ready": {
			workspace: cutDown, cluster: `{"username":"system:kcp:serviceaccount:` + home + `:other:bot"}`, ready: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := identity.SameOwner(tc.workspace, tc.cluster, parent, newCluster, "", tc.ready); got != tc.want {
				t.Errorf("SameOwner() = %t, want %t", got, tc.want)
			}
		})
	}
}

// userWith returns the owner with warrants.
func userWith(owner identity.Owner, warrants ...string) identity.Owner {
	withExtra(identity.WarrantKey, warrants...)(&owner)
	return owner
}

func TestDescribeDifference(t *testing.T) {
	const hint = "it was changed there, as an administrator of the workspace can; delete the workspace"
	for name, tc := range map[string]struct {
		workspace, cluster string
		want               string
	}{
		"another user": {
			workspace: userIn("cluster:parent").String(), cluster: `{"username":"root-boss","groups":["system:masters"]}`,
			want: `kcp recorded user "alice" as the owner on the Workspace, but acts as user "root-boss" with what the LogicalCluster records: ` + hint,
		},
		"an owner that cannot be read": {
			workspace: `{"username":"alice"}`, cluster: `{"username":"root-boss","groups":1}`,
			want: `kcp recorded user "alice" as the owner on the Workspace, but acts as user "" with what the LogicalCluster records: ` + hint,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, identity.DescribeDifference(tc.workspace, tc.cluster)); diff != "" {
				t.Errorf("DescribeDifference() (-want +got):\n%s", diff)
			}
		})
	}
}
