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

// Rewrite returns the owner under which kcp can set up the logical cluster newCluster, and a report of what was done.
//
// raw is the recorded owner, requiredGroups the workspace's annotation authorization.kcp.io/required-groups
// ("a,b;c" means a and b, or c; empty where no groups are required). An owner that is valid in newCluster is not changed.
// Neither is one that cannot be understood, except that it loses an administrator's power: whoever may
// impersonate somewhere may forge any extra field, and must not keep a forged warrant by making the rest unusable.
// Nobody gains a permission in a third logical cluster. Rewriting the result again changes nothing.
//
// Unless the report says that the owner was changed, raw stays what is recorded, and the returned owner is what was read of it,
// or the zero value.
//
// See kcp-dev/kcp#4038 for why, and the effective users of kcp's RBAC for what the result is worth where.
func Rewrite(raw string, newCluster logicalcluster.Name, requiredGroups string, policy Policy) (Owner, Report) {
	if strings.TrimSpace(raw) == "" {
		return Owner{}, Report{Reason: Absent, Message: "no owner is recorded, so kcp has nobody to act as"}
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
		owner: owner, warrants: warrants, newCluster: newCluster, requiredGroups: requiredGroups, policy: policy,
		report: Report{Privileged: privilegedIn(owner.Groups, warrants)},
	}
	result := owner
	switch {
	case err == nil && len(raw) > MaxOwnerBytes:
		r.unchanged(TooLarge, "the recorded owner was not read: %v", errTooLarge)
	case err != nil:
		r.unchanged(TooLarge, "the recorded owner was not read: %v", err)
	default:
		if rewritten := r.run(); r.report.Reason.Rewritten() {
			result = rewritten
		}
	}
	if r.report.Reason.Rewritten() && len(result.String()) > MaxOwnerBytes {
		result, r.report = owner, Report{
			Reason: TooLarge, Privileged: r.report.Privileged,
			Message: fmt.Sprintf("the owner was not rewritten, because it would be larger than %d bytes", MaxOwnerBytes),
		}
	}
	if r.report.Reason.Harmless() || !r.confined() || err == nil && !r.powerful() {
		return result, r.report
	}
	// Without that power, which it does not have the next time, the owner may be one that can be rewritten.
	left, dropped := r.withoutPower(err)
	result, report := Rewrite(left.String(), newCluster, requiredGroups, policy)
	if !report.Reason.Rewritten() {
		result = left
	}
	report.Privileged, report.Dropped = r.report.Privileged, append(dropped, report.Dropped...)
	return result, report
}

// confined tells whether somebody may have impersonated the owner. Whoever is impersonated, but by system:masters, carries a
// scope.
func (r *rewriting) confined() bool {
	return r.owner.IsServiceAccount() || len(r.owner.Extra[ScopesKey]) > 0
}

// powerful tells whether the owner carries an administrator's power, or warrants that kcp may read otherwise than this
// package does.
func (r *rewriting) powerful() bool {
	return len(r.report.Privileged) > 0 || anyUnreadable(r.warrants)
}

// withoutPower returns the owner without its warrants and without an administrator's groups, and what was dropped. What
// restricts the owner, such as its home and scopes, stays. The error is why not all warrants were read.
func (r *rewriting) withoutPower(unread error) (Owner, []Drop) {
	r.report.Dropped = nil
	left := Owner{Username: r.owner.Username, UID: r.owner.UID, Groups: r.passableGroups(), Extra: maps.Clone(r.owner.Extra)}
	delete(left.Extra, WarrantKey)
	for _, w := range r.warrants {
		reason := Lent
		switch {
		case anyUnreadable([]carried{w}):
			reason = Unreadable
		case len(privilegedIn(w.warrant.Groups, w.nested)) > 0:
			reason = Privileged
		}
		r.drop(DroppedWarrant, reason, w.warrant.User)
	}
	if unread != nil {
		r.drop(DroppedWarrant, Unreadable, "")
	}
	return left, r.report.Dropped
}

// passableGroups returns the owner's groups but those with an administrator's power, which it reports as dropped.
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

// rewriting is one call of Rewrite: what was asked, read, and the report as it grows.
type rewriting struct {
	owner          Owner
	warrants       []carried
	newCluster     logicalcluster.Name
	requiredGroups string
	policy         Policy
	report         Report
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
		return r.person()
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

// serviceAccount gives a service account the name that kcp knows it by outside its home, backed by a warrant of
// what it is there. The bare name must not stay: in the new logical cluster it would be the name of a service
// account that anybody with access can make (kcp-dev/kcp#4038).
func (r *rewriting) serviceAccount() Owner {
	username := r.owner.Username
	namespace, name, err := serviceaccount.SplitUsername(username)
	if err != nil {
		return r.unchanged(Malformed, "%q is not the name of a service account", username)
	}
	homes := r.owner.homes()
	switch {
	case len(homes) == 0:
		return r.unchanged(HomeUnknown, "service account %q comes without its home cluster (extra %q), so it cannot be told which one it is",
			username, ClusterNameKey)
	case len(homes) > 1:
		return r.unchanged(HomeAmbiguous, "service account %q names several home clusters (%s)", username, strings.Join(homes, ", "))
	case !logicalcluster.Name(homes[0]).IsValid() || strings.Contains(homes[0], ":"):
		return r.unchanged(Malformed, "the home cluster %q of service account %q is not the name of a logical cluster", homes[0], username)
	}
	home := logicalcluster.Name(homes[0])
	switch atHome := r.owner.at(home); {
	case !atHome.InScope(home):
		return r.unchanged(HomeOutOfScope, "service account %q is scoped to %s, which leaves out its home, logical cluster %q: "+
			"it was impersonated elsewhere, so its home is only claimed", username, r.scopes(), home)
	case atHome.InScope(r.newCluster):
		return r.inScope()
	}

	createdBy := strings.Join([]string{home.String(), namespace, name}, ":")

	self, kept := r.delegate()
	self = self.at(home)
	if scope := scopeOf(home); !slices.Contains(self.Extra[ScopesKey], scope) {
		self.Extra[ScopesKey] = append(slices.Clone(self.Extra[ScopesKey]), scope)
	}

	rewritten := Owner{Username: globalServiceAccountPrefix + createdBy}
	if slices.Contains(r.owner.Groups, user.AllAuthenticated) {
		rewritten.Groups = []string{user.AllAuthenticated}
	}
	backing := append([]string{self.warrant().String()}, kept...)
	clause, note := requiredClause(r.requiredGroups, rewritten.Groups)
	if len(clause) > 0 {
		// kcp lets a service account pass a workspace's required groups by the look of its name, and judges the
		// global name as anybody else's. This gives it in its own new logical cluster what it could do anyway.
		backing = append(backing, Warrant{
			User: rewritten.Username, Groups: clause, Extra: map[string][]string{ScopesKey: {scopeOf(r.newCluster)}},
		}.String())
	}
	rewritten.Extra = map[string][]string{WarrantKey: backing}

	r.report.Reason = ServiceAccountRewritten
	r.report.RequiredGroups = clause
	r.report.CreatedBy = createdBy
	r.report.Message = fmt.Sprintf("service account %q of logical cluster %q is foreign in logical cluster %q; kcp acts as %q, backed by its warrant%s",
		username, home, r.newCluster, rewritten.Username, note)
	return rewritten
}

// person moves the scope of a person to the new logical cluster and keeps the person as it was as a warrant.
// Dropping the scope instead would hand the rights of the person everywhere to whoever impersonated it.
func (r *rewriting) person() Owner {
	if r.owner.InScope(r.newCluster) {
		return r.inScope()
	}
	self, kept := r.delegate()

	rewritten := Owner{Username: self.Username, UID: self.UID, Groups: self.Groups, Extra: maps.Clone(self.Extra)}
	rewritten.Extra[ScopesKey] = []string{scopeOf(r.newCluster)}
	rewritten.Extra[WarrantKey] = append([]string{self.warrant().String()}, kept...)

	note := ""
	if unmet(r.requiredGroups, self.Groups) {
		// A person passes by its own groups or not at all: kcp makes no exception that could be carried over.
		note = "; it is in none of the groups that the workspace requires, so kcp will refuse it there"
	}
	r.report.Reason = PersonRewritten
	r.report.CreatedBy = r.owner.Username
	r.report.Message = fmt.Sprintf("user %q is scoped to %s and foreign in logical cluster %q; kcp acts as the same user scoped to it, backed by its warrant%s",
		r.owner.Username, r.scopes(), r.newCluster, note)
	return rewritten
}

// scopes names the owner's scopes for a message, all of which have to be met.
func (r *rewriting) scopes() string { return strings.Join(r.owner.Extra[ScopesKey], " and ") }

// delegate returns the owner as it may be stored, without warrants, and the warrants that the policy keeps.
func (r *rewriting) delegate() (self Owner, kept []string) {
	self = Owner{
		Username: r.owner.Username, UID: r.owner.UID,
		Groups: r.passableGroups(), Extra: make(map[string][]string, len(r.owner.Extra)),
	}
	keys := slices.AppendSeq(make([]string, 0, len(r.owner.Extra)), maps.Keys(r.owner.Extra))
	slices.Sort(keys)
	for _, key := range keys {
		switch {
		case key == WarrantKey:
		case slices.Contains(perRequestKeys, key):
			r.drop(DroppedExtra, PerRequest, key)
		default:
			self.Extra[key] = r.owner.Extra[key]
		}
	}
	for _, w := range r.warrants {
		if reason := r.policy.refuses(w); reason != "" {
			r.drop(DroppedWarrant, reason, w.warrant.User)
			continue
		}
		kept = append(kept, w.raw)
		r.report.Kept = append(r.report.Kept, w.warrant.User)
	}
	slices.Sort(r.report.Kept)
	return self, kept
}

func (r *rewriting) drop(kind DropKind, reason DropReason, name string) {
	r.report.Dropped = append(r.report.Dropped, Drop{Kind: kind, Reason: reason, Name: name})
}

// requiredClause picks the first clause of the required groups that may be given to the owner of a new workspace:
// none where the groups it has suffice, and never one with an administrator's group. The note is a half-sentence
// for the report.
func requiredClause(requiredGroups string, has []string) (clause []string, note string) {
	if !unmet(requiredGroups, has) {
		return nil, ""
	}
	// Whoever is out of scope somewhere still counts there as authenticated or not, so that group is never given.
	authenticated := slices.Contains(has, user.AllAuthenticated)
	for _, groups := range clauses(requiredGroups) {
		if !slices.ContainsFunc(groups, func(group string) bool {
			return group == "" || isPrivileged(group) || group == user.AllAuthenticated && !authenticated
		}) {
			return groups, fmt.Sprintf("; there it also counts as a member of the required groups %q", strings.Join(groups, ","))
		}
	}
	return nil, "; the workspace requires groups that must not be given away, so kcp will refuse it there"
}

// unmet tells whether groups are required and the groups at hand meet none of the clauses.
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

// oneLine keeps a decoder's words on one line and short enough for an Event.
func oneLine(err error) string {
	const most = 256
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
