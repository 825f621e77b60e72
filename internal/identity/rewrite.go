package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Rewrite returns the owner with which kcp can initialize the logical cluster newCluster, and a report.
//
// raw is the recorded owner. parent is the logical cluster that contains the Workspace. requiredGroups is the annotation
// authorization.kcp.io/required-groups of the workspace: "a,b;c" means a and b, or c. It is empty if no groups are required. An owner that
// is valid in newCluster is not changed, except that it loses the warrants that Policy does not keep: kcp adds an administrator's warrant to
// requests through an APIExport's virtual workspace, and stores it. An owner that cannot be rewritten loses them, too, and an impersonated
// one also its privileged groups. A user who may impersonate in any workspace can forge all extra fields: a service account, a user with
// scopes and one of a virtual workspace keep no warrant of others, whatever Policy names. In a third logical cluster, the owner gains at most the
// permissions of the group system:cluster:<newCluster>. Rewrite of the result changes nothing.
//
// If Report.Changed returns false, raw stays the recorded owner, and the returned owner is the decoded raw or the zero value.
//
// kcp-dev/kcp#4038 describes the problem. Effective returns the permissions of the result in each logical cluster.
func Rewrite(raw string, parent, newCluster logicalcluster.Name, requiredGroups string, policy Policy) (Owner, Report) {
	if strings.TrimSpace(raw) == "" {
		return Owner{}, Report{Reason: Absent, Message: "no owner is recorded, so kcp can impersonate no user"}
	}
	if len(raw) > maxAnnotationBytes {
		return Owner{}, Report{Reason: TooLarge, Message: fmt.Sprintf("the recorded owner was not read: %v", errTooLarge)}
	}
	owner, err := parseOwner(raw)
	if err != nil {
		return Owner{}, Report{Reason: Malformed, Message: fmt.Sprintf("the recorded owner cannot be read: %s", oneLine(err))}
	}
	warrants, err := readWarrants(owner.Extra)
	r := rewriting{
		owner: owner, warrants: warrants, parent: parent, newCluster: newCluster, requiredGroups: requiredGroups, policy: policy,
		report: Report{Privileged: privilegedIn(owner.Groups, warrants)},
	}
	result := owner
	switch {
	case err == nil && len(raw) > MaxOwnerBytes:
		r.unchanged(TooLarge, "the recorded owner was not read: %v", errTooLarge)
	case err != nil:
		r.unchanged(TooLarge, "the recorded owner was not read: %v", err)
	default:
		result = r.run()
	}
	if r.report.Reason.Rewritten() && len(result.String()) > MaxOwnerBytes {
		result, r.report = owner, Report{
			Reason: TooLarge, Privileged: r.report.Privileged,
			Message: fmt.Sprintf("the owner was not rewritten, because it would be larger than %d bytes", MaxOwnerBytes),
		}
	}
	if r.report.Reason.Rewritten() || r.report.Reason == NoNewCluster {
		return result, r.report
	}
	left, dropped := r.withoutWarrants(err)
	if len(dropped) == 0 {
		return result, r.report
	}
	// Without what was dropped, the owner may be valid input. Rewrite must return the same result for the owner that is then recorded.
	result, report := Rewrite(left.String(), parent, newCluster, requiredGroups, policy)
	if !report.Changed() {
		result = left
	}
	report.Privileged, report.Dropped = r.report.Privileged, append(dropped, report.Dropped...)
	if report.Reason == InScope {
		report.Message += "; " + report.DescribeDropped()
	}
	return result, report
}

// confined reports whether the owner may be an impersonated identity. All of these have a scope, unless system:masters impersonates.
func (r *rewriting) confined() bool {
	return r.owner.IsServiceAccount() || len(r.owner.Extra[ScopesKey]) > 0
}

// withoutWarrants returns an owner that is not rewritten without the warrants that must not stay, and the dropped parts. An impersonated
// owner that kcp cannot act as also loses its privileged groups. The owner keeps everything else, such as home and scopes. unread is the
// error if not all warrants could be decoded.
func (r *rewriting) withoutWarrants(unread error) (Owner, []Drop) {
	r.report.Dropped = nil
	left := Owner{Username: r.owner.Username, UID: r.owner.UID, Groups: r.owner.Groups, Extra: maps.Clone(r.owner.Extra)}
	if !r.report.Reason.Harmless() && r.confined() {
		left.Groups = r.passableGroups()
	}
	delete(left.Extra, WarrantKey)
	if unread != nil {
		r.drop(DroppedWarrant, Unreadable, "")
	} else if kept := r.keptWarrants(); len(kept) > 0 {
		left.Extra[WarrantKey] = kept
	}
	return left, r.report.Dropped
}

// keptWarrants returns the warrants that the owner may keep, and reports all others as dropped. It decides for every owner, whether it is
// rewritten or not. A confined owner keeps none: neither the token of a service account nor a workspace's own authentication adds one, so only an
// impersonator can. Nor does one that anybody can have claimed in a virtual workspace. An owner that is in scope also keeps the warrants of
// itself that an earlier Rewrite has added.
func (r *rewriting) keptWarrants() (kept []string) {
	for _, w := range r.warrants {
		reason := r.policy.dropReason(w)
		if reason == "" && (r.confined() || isClaimed(r.owner)) {
			reason = Forgeable // kcp adds a scope to an impersonated user, and none to its warrants
		}
		switch {
		case (reason == NotDelegated || reason == Forgeable) && r.report.Reason == InScope && r.owner.isBackedBy(w):
			kept = append(kept, w.raw)
		case reason != "":
			r.drop(DroppedWarrant, reason, w.warrant.User)
		default:
			kept = append(kept, w.raw)
			r.report.Kept = append(r.report.Kept, w.warrant.User)
		}
	}
	slices.Sort(r.report.Kept)
	return kept
}

// passableGroups returns the groups of the owner without the privileged ones, which it reports as dropped.
func (r *rewriting) passableGroups() []string {
	groups := make([]string, 0, len(r.owner.Groups))
	for _, group := range r.owner.Groups {
		if isPrivileged(group) {
			r.drop(DroppedGroup, Privileged, group)
			continue
		}
		groups = append(groups, group)
	}
	return groups
}

// rewriting is the state of one call of Rewrite.
type rewriting struct {
	owner              Owner
	warrants           []carried
	parent, newCluster logicalcluster.Name
	requiredGroups     string
	policy             Policy
	report             Report
}

func (r *rewriting) run() Owner {
	switch {
	case r.newCluster.Empty():
		return r.unchanged(NoNewCluster, "the workspace has no logical cluster yet")
	case !r.newCluster.IsValid():
		return r.unchanged(Malformed, "%q is not the name of a logical cluster", r.newCluster)
	case r.owner.IsServiceAccount():
		return r.serviceAccount()
	default:
		return r.user()
	}
}

func (r *rewriting) unchanged(reason Reason, format string, args ...any) Owner {
	r.report.Reason = reason
	r.report.Message = fmt.Sprintf(format, args...)
	return r.owner
}

func (r *rewriting) inScope() Owner {
	return r.unchanged(InScope, "%q is in scope in logical cluster %q", r.owner.Username, r.newCluster)
}

// serviceAccount returns the global name of a service account. The local name must not stay: in the new logical cluster, every user with
// access can create a service account of that name (kcp-dev/kcp#4038).
func (r *rewriting) serviceAccount() Owner {
	username := r.owner.Username
	namespace, name, err := serviceaccount.SplitUsername(username)
	if err != nil {
		return r.unchanged(Malformed, "%q is not the name of a service account", username)
	}
	homes := r.owner.homes()
	switch {
	case len(homes) == 0:
		return r.unchanged(HomeUnknown, "service account %q does not name its home logical cluster (extra %q), so its workspace is unknown",
			username, ClusterNameKey)
	case len(homes) > 1:
		return r.unchanged(HomeAmbiguous, "service account %q names several home clusters (%s)", username, strings.Join(homes, ", "))
	case !logicalcluster.Name(homes[0]).IsValid() || strings.Contains(homes[0], ":"):
		return r.unchanged(Malformed, "the home cluster %q of service account %q is not the name of a logical cluster", homes[0], username)
	}
	home := logicalcluster.Name(homes[0])
	switch atHome := r.owner.at(home); {
	case r.owner.Impersonated() && home != r.parent:
		return r.unchanged(HomeUnknown, "service account %q was impersonated in logical cluster %q, but its workspace was not created there", username, home)
	case !atHome.InScope(home):
		return r.unchanged(HomeOutOfScope, "service account %q is scoped to %s, which leaves out its home, logical cluster %q: "+
			"it was impersonated elsewhere, so its home is only claimed", username, r.scopes(), home)
	case atHome.InScope(r.newCluster):
		return r.inScope()
	}

	createdBy := strings.Join([]string{home.String(), namespace, name}, ":")
	rewritten, how := r.backed(home)
	rewritten.Username = globalServiceAccountPrefix + createdBy
	clause, note := requiredClause(r.requiredGroups, rewritten.Groups)
	if len(clause) > 0 {
		// kcp exempts local names of service accounts from the required groups, but not global names. With this warrant, the owner
		// has the missing groups in its new logical cluster only.
		missing := slices.DeleteFunc(slices.Clone(clause), func(group string) bool { return slices.Contains(rewritten.Groups, group) })
		rewritten.Extra[WarrantKey] = append(rewritten.Extra[WarrantKey], Warrant{
			User: rewritten.Username, Groups: missing, Extra: map[string][]string{ScopesKey: {scopeOf(r.newCluster)}},
		}.String())
	}

	r.report.Reason = ServiceAccountRewritten
	r.report.RequiredGroups = clause
	r.report.CreatedBy = createdBy
	r.report.Message = fmt.Sprintf("service account %q of logical cluster %q is foreign in logical cluster %q; kcp acts as %q, %s%s",
		username, home, r.newCluster, rewritten.Username, how, note)
	return rewritten
}

// backed returns the owner for a service account, without its name, and what gives the owner its permissions. It has the service account as a
// warrant if that has authenticated. A service account that was impersonated gets no such warrant, because kcp counts the global name of a
// service account with a home as valid whatever its scopes are: the impersonator would get that name everywhere.
func (r *rewriting) backed(home logicalcluster.Name) (owner Owner, how string) {
	if r.owner.Impersonated() {
		owner = r.widened()
		owner.UID = "" // of the local name
		return owner, "scoped to both, so only permissions of this name count"
	}
	self := r.delegate()
	if slices.Contains(r.owner.Groups, user.AllAuthenticated) {
		owner.Groups = []string{user.AllAuthenticated}
	}
	owner.Extra = map[string][]string{WarrantKey: {self.at(home).warrant().String()}}
	return owner, "backed by its warrant"
}

// user adds the new logical cluster to the scopes of a user. Without a scope, a requester who impersonated the user would get the permissions
// of the user in all logical clusters.
func (r *rewriting) user() Owner {
	if r.owner.InScope(r.newCluster) {
		return r.inScope()
	}
	rewritten := r.widened()
	note := ""
	if unmet(r.requiredGroups, rewritten.Groups) {
		// kcp exempts no users from the required groups.
		note = "; it is in none of the groups that the workspace requires, so kcp will deny it access"
	}
	r.report.Reason = UserRewritten
	r.report.CreatedBy = r.owner.Username
	r.report.Message = fmt.Sprintf("user %q is scoped to %s and foreign in logical cluster %q; kcp acts as the same user, scoped to that, too%s",
		r.owner.Username, r.scopes(), r.newCluster, note)
	return rewritten
}

// widened returns the owner with the new logical cluster as an alternative in each of its scopes. In all other logical clusters, kcp
// evaluates it as before: in those of its scopes as itself, elsewhere as anonymous in the groups system:cluster:<name> of its scopes. In
// addition, it has the group of the new logical cluster there.
func (r *rewriting) widened() Owner {
	widened := r.delegate()
	scopes := slices.Clone(widened.Extra[ScopesKey])
	for i, alternatives := range scopes {
		if !slices.Contains(strings.Split(alternatives, ","), scopeOf(r.newCluster)) {
			scopes[i] += "," + scopeOf(r.newCluster)
		}
	}
	widened.Extra[ScopesKey] = scopes
	return widened
}

// scopes returns the scopes of the owner for a message.
func (r *rewriting) scopes() string { return strings.Join(r.owner.Extra[ScopesKey], " and ") }

// delegate returns the owner without warrants, privileged groups and per-request fields. An owner that is rewritten keeps no warrant, because it
// is confined.
func (r *rewriting) delegate() Owner {
	self := Owner{
		Username: r.owner.Username, UID: r.owner.UID,
		Groups: r.passableGroups(), Extra: make(map[string][]string, len(r.owner.Extra)),
	}
	for _, key := range slices.Sorted(maps.Keys(r.owner.Extra)) {
		switch {
		case key == WarrantKey:
		case slices.Contains(perRequestKeys, key):
			r.drop(DroppedExtra, PerRequest, key)
		default:
			self.Extra[key] = r.owner.Extra[key]
		}
	}
	r.keptWarrants() // reports them
	return self
}

func (r *rewriting) drop(kind DropKind, reason DropReason, name string) {
	r.report.Dropped = append(r.report.Dropped, Drop{Kind: kind, Reason: reason, Name: name})
}

// requiredClause returns the first clause of the required groups that the owner of a new workspace may get. It returns none if the
// groups of the owner are sufficient, and never a clause with a privileged group. note is appended to the message of the report.
func requiredClause(requiredGroups string, has []string) (clause []string, note string) {
	if !unmet(requiredGroups, has) {
		return nil, ""
	}
	// In every logical cluster, kcp checks whether an identity is authenticated, so an owner must not get this group.
	authenticated := slices.Contains(has, user.AllAuthenticated)
	for _, groups := range clauses(requiredGroups) {
		if !slices.ContainsFunc(groups, func(group string) bool {
			return group == "" || isPrivileged(group) || group == user.AllAuthenticated && !authenticated
		}) {
			return groups, fmt.Sprintf("; there it also counts as a member of the required groups %q", strings.Join(groups, ","))
		}
	}
	return nil, "; the workspace requires groups that the owner must not get, so kcp will deny it access"
}

// unmet reports whether groups are required and none of the clauses matches the given groups.
func unmet(requiredGroups string, has []string) bool {
	if requiredGroups == "" {
		return false
	}
	return !slices.ContainsFunc(clauses(requiredGroups), func(groups []string) bool {
		return !slices.ContainsFunc(groups, func(group string) bool { return !slices.Contains(has, group) })
	})
}

func clauses(requiredGroups string) [][]string {
	var all [][]string
	for clause := range strings.SplitSeq(requiredGroups, ";") {
		all = append(all, strings.Split(clause, ","))
	}
	return all
}

// oneLine returns the error of a decoder on one line, short enough for an Event.
func oneLine(err error) string {
	const most = 256
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
