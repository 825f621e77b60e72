package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reason is the result of Rewrite, for metrics, audit annotations and Events.
type Reason string

// Reasons. Only the first two change the identity of the owner. All others but NoNewCluster, Absent and undecodable owners can lose
// warrants, see Report.Dropped.
const (
	// ServiceAccountRewritten: the owner is a service account of another logical cluster, and gets its global name.
	ServiceAccountRewritten Reason = "ServiceAccountRewritten"
	// UserRewritten: the owner is a user whose scopes exclude the new logical cluster, and is scoped to the new one, too.
	UserRewritten Reason = "UserRewritten"
	// InScope: the owner is valid in the new logical cluster.
	InScope Reason = "InScope"
	// NoNewCluster: the workspace has no logical cluster yet.
	NoNewCluster Reason = "NoNewCluster"
	// Absent: no owner is recorded.
	Absent Reason = "OwnerAbsent"
	// Malformed: the owner or the name of the new logical cluster is invalid.
	Malformed Reason = "OwnerMalformed"
	// TooLarge: the owner exceeds MaxOwnerBytes, MaxWarrantDepth or MaxWarrants, or the rewritten owner would.
	TooLarge Reason = "OwnerTooLarge"
	// HomeUnknown: the owner is a service account without a home, and was not impersonated in the logical cluster that contains the Workspace.
	HomeUnknown Reason = "HomeUnknown"
	// HomeAmbiguous: the owner is a service account with several homes.
	HomeAmbiguous Reason = "HomeAmbiguous"
	// HomeOutOfScope: the owner is a service account whose scopes do not include its home. kcp scopes the token of a service account
	// to its home, and an impersonated user to the logical cluster of the impersonator. So this owner was impersonated in another
	// logical cluster, by a user who may have no permissions in the home that the owner names (kcp-dev/kcp#4226).
	HomeOutOfScope Reason = "HomeOutOfScope"
)

// Rewritten reports whether Rewrite changed the identity of the owner.
func (r Reason) Rewritten() bool {
	return r == ServiceAccountRewritten || r == UserRewritten
}

// Harmless reports whether kcp can impersonate the owner after Rewrite.
func (r Reason) Harmless() bool {
	return r.Rewritten() || r == InScope || r == NoNewCluster
}

// DropKind is the kind of a dropped part of an owner.
type DropKind string

// Kinds of dropped parts.
const (
	DroppedWarrant DropKind = "warrant"
	DroppedGroup   DropKind = "group"
	DroppedExtra   DropKind = "extra"
)

// DropReason is the reason why a part of an owner is dropped.
type DropReason string

// Reasons for drops.
const (
	// Privileged: it has the permissions of an administrator, which are never delegated.
	Privileged DropReason = "Privileged"
	// NotDelegated: the warrant was valid for one request, and the policy does not name it.
	NotDelegated DropReason = "NotDelegated"
	// Forgeable: the policy names the warrant, but its owner is a service account, has scopes, or acted in a virtual workspace. An impersonator can
	// have added it.
	Forgeable DropReason = "Forgeable"
	// Unreadable: the warrant cannot be decoded. kcp ignores it.
	Unreadable DropReason = "Unreadable"
	// HomeInvalid: the warrant is of a service account without exactly one home. kcp ignores it.
	HomeInvalid DropReason = "HomeInvalid"
	// PerRequest: the extra field describes one credential or one request.
	PerRequest DropReason = "PerRequest"
)

// Drop is a part of the identity of the creator that the new owner does not have.
type Drop struct {
	Kind   DropKind
	Reason DropReason
	// Name is the user of a warrant, the name of a group, or the key of an extra field. It may name another user than the creator, so it
	// is for the operator's log only, and not for messages to tenants.
	Name string
}

// Report describes the result of Rewrite.
type Report struct {
	// Reason is the result.
	Reason Reason
	// Message explains the result for users of kubectl. It names no other user.
	Message string
	// CreatedBy is the name of the creator: <home cluster>:<namespace>:<name> of a service account, otherwise the user name. It is empty
	// if the owner was not rewritten.
	CreatedBy string
	// Kept are the users of the kept warrants, sorted.
	Kept []string
	// Dropped are the dropped parts, in the order of occurrence.
	Dropped []Drop
	// RequiredGroups is the clause of the required groups that the owner has in its new logical cluster by a warrant. It is empty if none
	// was necessary.
	RequiredGroups []string
	// Privileged are the privileged groups of the recorded owner and its warrants, including nested ones, sorted.
	Privileged []string
}

// Changed reports whether the owner differs from the recorded one: it was rewritten, or a part was dropped.
func (r Report) Changed() bool { return r.Reason.Rewritten() || len(r.Dropped) > 0 }

// dropTexts say why a warrant or group was dropped, without naming its user.
var dropTexts = map[DropReason]string{
	Privileged:   "had an administrator's permissions, which are never delegated",
	NotDelegated: "valid for one request only and not named by the delegation policy",
	Forgeable:    "that an impersonator can have added",
	Unreadable:   "could not be read",
	HomeInvalid:  "of a service account without one home cluster",
}

// DescribeDropped says which permissions of the creator the owner does not have, for users of kubectl. It names no user. It returns "" if
// only extra fields about a single request were dropped.
func (r Report) DescribeDropped() string {
	counts := map[string]int{}
	for _, drop := range r.Dropped {
		if drop.Kind != DroppedExtra {
			counts[fmt.Sprintf("%s %s", drop.Kind, dropTexts[drop.Reason])]++
		}
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[what], what))
	}
	if len(parts) == 0 {
		return ""
	}
	return "not passed on to the owner: " + strings.Join(parts, "; ")
}
