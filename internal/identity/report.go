package identity

// Reason is a stable word for what Rewrite found, for metrics, audit annotations and Events.
type Reason string

// What Rewrite does with an owner. All but the first two leave it byte for byte as it was, except that an owner which is
// not harmless loses its warrants if they carry an administrator's power or cannot be read; see Report.Dropped.
const (
	// ServiceAccountRewritten: a service account of another logical cluster became its global name.
	ServiceAccountRewritten Reason = "ServiceAccountRewritten"
	// PersonRewritten: a person whose scopes lie elsewhere was scoped to the new logical cluster.
	PersonRewritten Reason = "PersonRewritten"
	// InScope: the owner is valid in the new logical cluster as it is.
	InScope Reason = "InScope"
	// NoNewCluster: the workspace has no logical cluster yet, so nobody can be foreign in it.
	NoNewCluster Reason = "NoNewCluster"
	// Absent: no owner is recorded.
	Absent Reason = "OwnerAbsent"
	// Malformed: the owner, or the new cluster's name, cannot be read.
	Malformed Reason = "OwnerMalformed"
	// TooLarge: the owner exceeds MaxOwnerBytes, MaxWarrantDepth or MaxWarrants, or would when rewritten.
	TooLarge Reason = "OwnerTooLarge"
	// HomeUnknown: a service account without a home cluster; whose it is must not be guessed.
	HomeUnknown Reason = "HomeUnknown"
	// HomeAmbiguous: a service account that names several home clusters.
	HomeAmbiguous Reason = "HomeAmbiguous"
	// HomeOutOfScope: a service account whose scopes do not include its home. kcp scopes a service account's own token to
	// its home, and an impersonated user to the logical cluster of the impersonator. So this one was impersonated
	// elsewhere, by somebody who need not have any permission in the home that the owner names (kcp-dev/kcp#4226).
	HomeOutOfScope Reason = "HomeOutOfScope"
)

// Rewritten tells whether the owner was changed.
func (r Reason) Rewritten() bool {
	return r == ServiceAccountRewritten || r == PersonRewritten
}

// Harmless tells whether kcp can work with the owner as Rewrite leaves it.
func (r Reason) Harmless() bool {
	return r.Rewritten() || r == InScope || r == NoNewCluster
}

// DropKind is the kind of a thing that is not passed on.
type DropKind string

// What can be dropped from an owner.
const (
	DroppedWarrant DropKind = "warrant"
	DroppedGroup   DropKind = "group"
	DroppedExtra   DropKind = "extra"
)

// DropReason is a stable word for why something is not passed on.
type DropReason string

// Why something is dropped.
const (
	// Privileged: it carries an administrator's power, which is never delegated.
	Privileged DropReason = "Privileged"
	// Lent: the warrant was lent for one request and the policy does not name it.
	Lent DropReason = "Lent"
	// Unreadable: the warrant cannot be read; kcp would ignore it.
	Unreadable DropReason = "Unreadable"
	// Homeless: the warrant is a service account's without one home; kcp would ignore it.
	Homeless DropReason = "Homeless"
	// PerRequest: the extra field is about one credential or one request.
	PerRequest DropReason = "PerRequest"
)

// Drop is a thing that the creator arrived with and that the new owner does not have.
type Drop struct {
	Kind   DropKind
	Reason DropReason
	// Name is the user of a warrant, the name of a group, the key of an extra field. It may name another user
	// than the creator, so it is for the operator's log and not for texts that a tenant reads.
	Name string
}

// Report says what Rewrite did and why.
type Report struct {
	// Reason is what was found.
	Reason Reason
	// Message says it in a sentence, for the person who reads it in kubectl. It names no other user.
	Message string
	// CreatedBy names the creator for good: <home cluster>:<namespace>:<name> of a service account, else the user
	// name. Empty where the owner was not rewritten.
	CreatedBy string
	// Kept are the users of the warrants that the policy let pass, sorted.
	Kept []string
	// Dropped is what was not passed on, in the order in which it was met.
	Dropped []Drop
	// RequiredGroups is the clause of the parent's required groups that the owner was given in its own new
	// logical cluster; empty where none was needed.
	RequiredGroups []string
	// Privileged are the groups with an administrator's power that the recorded owner carried, in its groups or
	// at any depth of its warrants, sorted.
	Privileged []string
}

// Changed tells whether the owner is another than the recorded one: it was rewritten, or something was dropped.
func (r Report) Changed() bool { return r.Reason.Rewritten() || len(r.Dropped) > 0 }
