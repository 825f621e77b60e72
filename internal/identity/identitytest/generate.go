// Package identitytest generates owners for property tests: service accounts and users, with and without scopes, with nested warrants,
// privileged groups and per-request fields, and logical clusters for them.
package identitytest

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/internal/identity"
)

// Clusters are the homes and scopes of generated owners. NewCluster is not one of them.
var Clusters = []logicalcluster.Name{"aaaaaaaa", "bbbbbbbb", "cccccccc", "root"}

// NewCluster is the logical cluster of a new workspace. No generated owner has it as home or scope.
const NewCluster logicalcluster.Name = "nnnnnnnn"

// olderClusterNameKey is the former key of a service account's home, which kcp ignores.
const olderClusterNameKey = "authentication.kubernetes.io/cluster-name"

var groups = []string{
	"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:default", "team-a", "team-b", "ops",
	"system:masters", "system:kcp:admin", "system:kcp:logical-cluster-admin", "system:kcp:external-logical-cluster-admin",
	"system:kcp:tenancy:workspace-bootstrapper", "system:kcp:initializer:root:org", "system:kcp:terminator:root:org",
	"apis.kcp.io:binding:system:kcp:tenancy:workspace-bootstrapper",
}

var names = []string{
	"alice", "bob", "https://issuer.example.com#carol", "system:serviceaccount:default:bot", "system:serviceaccount:kube-system:rest",
	"system:kcp:serviceaccount:aaaaaaaa:default:bot", // impersonated
}

// requiredGroups are values of the annotation authorization.kcp.io/required-groups.
var requiredGroups = []string{"", "team-a", "team-a,team-b;ops", "system:kcp:admin;ops", "system:kcp:admin", "system:authenticated", ";", "a,,b"}

// policies are delegation policies, from one that keeps nothing to one that keeps all.
var policies = []identity.Policy{{}, {Users: []string{"*"}}, {Groups: []string{"team-*"}}, {Users: []string{"*", "*/*", "*/*/*"}, Groups: []string{"*"}}}

// Case is the input of a rewrite.
type Case struct {
	Owner identity.Owner
	// Parent is the logical cluster that contains the Workspace.
	Parent         logicalcluster.Name
	RequiredGroups string
	Policy         identity.Policy
}

// Rewrite rewrites the owner of the case for NewCluster, and returns the owner to record.
func (c Case) Rewrite() (string, identity.Report) {
	return Rewrite(c.Owner.String(), c.Parent, NewCluster, c.RequiredGroups, c.Policy)
}

// Rewrite calls identity.Rewrite, and returns the owner to record.
func Rewrite(raw string, parent, newCluster logicalcluster.Name, requiredGroups string, policy identity.Policy) (string, identity.Report) {
	owner, report := identity.Rewrite(raw, parent, newCluster, requiredGroups, policy)
	if !report.Changed() {
		return raw, report
	}
	return owner.String(), report
}

// Cases generates cases. The same seed returns the same cases.
func Cases(seed uint64, count int) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		random := rand.New(rand.NewPCG(4038, seed)) //nolint:gosec // made up again in each run, not kept secret
		for range count {
			c := Case{
				Owner: owner(random), Parent: pick(random, Clusters), RequiredGroups: pick(random, requiredGroups), Policy: pick(random, policies),
			}
			if random.IntN(6) == 0 {
				c.impersonateInParent(random)
			}
			if !yield(c) {
				return
			}
		}
	}
}

// owner generates an owner that kcp may record.
func owner(r *rand.Rand) identity.Owner {
	return identity.Owner{Username: pick(r, names), UID: uid(r), Groups: someGroups(r), Extra: extra(r, 3)}
}

// impersonateInParent makes the owner a service account that was impersonated in the logical cluster that contains the Workspace, sometimes with a
// scope that the impersonator has added.
func (c *Case) impersonateInParent(r *rand.Rand) {
	c.Owner.Username = pick(r, names[3:5])
	delete(c.Owner.Extra, identity.ClusterNameKey)
	delete(c.Owner.Extra, olderClusterNameKey)
	c.Owner.Extra[identity.ScopesKey] = []string{"cluster:" + c.Parent.String()}
	if r.IntN(4) == 0 {
		c.Owner.Extra[identity.ScopesKey] = append([]string{"cluster:" + cluster(r)}, c.Owner.Extra[identity.ScopesKey]...)
	}
}

func extra(r *rand.Rand, depth int) map[string][]string {
	extra := map[string][]string{}
	home := cluster(r)
	switch r.IntN(8) {
	case 0: // no home
	case 1:
		extra[identity.ClusterNameKey] = []string{home, cluster(r)}
	case 2:
		extra[olderClusterNameKey] = []string{home}
	default:
		extra[identity.ClusterNameKey] = []string{home}
	}
	if r.IntN(2) == 0 { // as in kcp's own tokens
		extra[identity.ScopesKey] = []string{"cluster:" + home}
	}
	for range r.IntN(3) { // set by an impersonator
		scope := "cluster:" + cluster(r)
		if r.IntN(3) == 0 {
			scope += ",cluster:" + cluster(r)
		}
		extra[identity.ScopesKey] = append(extra[identity.ScopesKey], scope)
	}
	if r.IntN(2) == 0 {
		extra["authentication.kubernetes.io/credential-id"] = []string{"JTI=" + uid(r)}
	}
	if r.IntN(4) == 0 {
		extra["example.com/department"] = []string{"a", "b"}
	}
	for range r.IntN(3) {
		if depth > 0 {
			extra[identity.WarrantKey] = append(extra[identity.WarrantKey], warrant(r, depth-1))
		}
	}
	return extra
}

func warrant(r *rand.Rand, depth int) string {
	if r.IntN(10) == 0 {
		return pick(r, []string{"", "{", "null", `{"user":1}`, `{"username":"alice"}`})
	}
	raw, err := json.Marshal(identity.Warrant{User: pick(r, names), UID: uid(r), Groups: someGroups(r), Extra: extra(r, depth)})
	if err != nil {
		panic(err) // strings, slices and maps of strings always marshal
	}
	return string(raw)
}

func someGroups(r *rand.Rand) []string {
	var some []string
	for range r.IntN(4) {
		some = append(some, pick(r, groups))
	}
	return some
}

func cluster(r *rand.Rand) string {
	return pick(r, Clusters).String()
}

func uid(r *rand.Rand) string {
	return fmt.Sprintf("%08x", r.Uint32())
}

func pick[T any](r *rand.Rand, from []T) T {
	return from[r.IntN(len(from))]
}
