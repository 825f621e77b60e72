package oslopolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Witness is a minimal request for which two policies have different answers.
type Witness struct {
	// Can is the operation.
	Can string `json:"can"`
	// As is the token, in the format of "check keystone-policy --as".
	As string `json:"as"`
	// Target contains the attributes of the target.
	Target map[string]any `json:"target,omitempty"`
	// Before is the answer of the first policy, After that of the second one.
	Before string `json:"before"`
	After  string `json:"after"`
}

// Command returns the command with which the request can be evaluated, and both answers. The FILE is that of the finding.
func (w Witness) Command() string {
	return fmt.Sprintf("check keystone-policy FILE --can %s %s", w.Can, w)
}

// String returns the request as flags of "check keystone-policy" in a shell, and both answers.
func (w Witness) String() string {
	text := "--as " + quoted(w.As)
	for _, name := range slices.Sorted(maps.Keys(w.Target)) {
		if value, ok := w.Target[name].(string); ok {
			text += " --target " + quoted(name+"="+value)
			continue
		}
		value, err := json.Marshal(w.Target[name])
		if err != nil { // values are JSON
			value = []byte("?")
		}
		text += " --target " + quoted(fmt.Sprintf("%s:=%s", name, value))
	}
	return fmt.Sprintf("%s: %s, before %s", text, w.After, w.Before)
}

// plainArgument matches arguments that need no quotes in a shell.
var plainArgument = regexp.MustCompile(`^[\w.+@:,/=-]+$`)

// quoted returns an argument for a shell. Values of a policy may be anything.
func quoted(argument string) string {
	if plainArgument.MatchString(argument) {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}

// direction selects the requests to search: those that only the second policy allows (more), or only the first one (less).
type direction bool

const (
	more direction = true
	less direction = false
)

const (
	// maxAtoms is the maximum number of different checks of two rules.
	maxAtoms = 64
	// maxTries is the maximum number of requests for an operation in one direction. Usual rules need some hundreds.
	maxTries = 20_000
	// maxTokens is the maximum number of tokens for an operation, without their roles.
	maxTokens = 1000
	// foreign is the prefix of values that are equal to no other value.
	foreign = "another"
	// tooLarge is the reason for an incomplete search that a rule exceeds the limits of an evaluation.
	tooLarge = "the rules are too large"
	// ownDomain is the domain of a token.
	ownDomain = "own-domain"
	// homeDomain is the domain of a user with a token for another domain, or for a project of another domain.
	homeDomain = "home-domain"
)

// search searches requests for which two rules for an operation differ. It tries tokens of each scope with every set of the roles in both rules
// that can make a difference, and for each attribute the values that the rules compare it with and another value. For speed, it does not evaluate the policies for each request: both
// rules become formulas of their checks (atoms), and a request is the set of the atoms that are true. Each result is confirmed by an
// evaluation of both policies.
type search struct {
	operation     *shippedRule
	before, after *Policy
	// atoms contains the index in asked for each check of both rules, by its text.
	atoms map[string]int
	asked []check
	// first and second are the rules.
	first, second formula
	// attributes are the attributes in the rules, sorted.
	attributes []string
	// merged are the keys of checks that another one stands for.
	merged map[string]bool
	// open contains for each attribute the atoms that depend on it or on one before it.
	open []uint64
	// held contains for each role of the rules the atoms that are true for a token with it.
	held []uint64
	// requests are the requests to try, without roles.
	requests []request
	// same is true if both rules are equal, so that there is no difference.
	same bool
	// incomplete is the reason why the search may miss a difference, "" if there is none.
	incomplete string
	// cut means that the search does not try all requests that the second policy may allow and the first one denies.
	cut bool
	// doubtful are the atoms whose value can be another one than that in the requests that are tried, because the token or the target is
	// not known completely, or because another host gives the answer. turned are those of them that have the other value.
	doubtful, turned uint64
	// assumed are the values of the doubtful checks, nil if they are evaluated as far as that is possible.
	assumed map[string]assumption
	// truncated means that a formula does not contain all of its rule, so that equal formulas do not mean equal rules.
	truncated bool
	// ended reports whether the caller has stopped waiting for the result. It can be nil.
	ended func() bool
}

// newSearch prepares a search. apart are names of roles that make a difference to the caller.
func newSearch(operation *shippedRule, before, after *Policy, apart ...string) *search {
	s := &search{operation: operation, before: before, after: after, atoms: map[string]int{}, merged: map[string]bool{}}
	s.merge(apart)
	s.first, s.second = s.compile(before), s.compile(after)
	for _, c := range s.asked {
		pattern, _ := templateOf(c)
		for _, name := range pattern.attributes() {
			if !slices.Contains(s.attributes, name) {
				s.attributes = append(s.attributes, name)
			}
		}
	}
	slices.Sort(s.attributes)
	s.open = make([]uint64, len(s.attributes)+1)
	for i, name := range s.attributes {
		s.open[i+1] = s.open[i]
		for n, c := range s.asked {
			if generic, ok := c.(genericCheck); ok && slices.Contains(generic.match.attributes(), name) {
				s.open[i+1] |= 1 << uint(n)
			}
		}
	}
	s.doubtNames()
	if s.truncated {
		s.same = haveSameRules(before, after, operation.name)
	} else {
		s.same = reflect.DeepEqual(s.first, s.second)
	}
	if s.same {
		s.incomplete, s.cut = "", false
	}
	return s
}

// doubtNames makes the check of a name doubtful if another credential is compared with the same attribute, or the ID of the same object with a
// constant too: the tried tokens have names that are equal to the IDs, and users choose the names of their objects.
func (s *search) doubtNames() {
	for n, c := range s.asked {
		name, ok := c.(genericCheck)
		if !ok || name.class != kindPath || !hasWord(nameCredentials, name.kind) {
			continue
		}
		if slices.ContainsFunc(s.asked, func(c check) bool {
			other, ok := c.(genericCheck)
			if !ok || other.class != kindPath || other.kind == name.kind {
				return false
			}
			if name.match.parts == nil {
				return hasWord(idsOf[name.kind], other.kind) && other.match.parts == nil
			}
			return other.match.text == name.match.text
		}) {
			s.doubtful |= 1 << uint(n)
		}
	}
}

// haveSameRules reports whether a rule, and those that it refers to, have the same text in two policies.
func haveSameRules(one, other *Policy, name string) bool {
	return !slices.ContainsFunc(append(reached(one, name), name), func(name string) bool {
		return !reflect.DeepEqual(one.rules[name], other.rules[name])
	}) && reflect.DeepEqual(one.rules[defaultRule], other.rules[defaultRule])
}

// request is a token without roles, with the values of the atoms that do not check roles.
type request struct {
	caller Caller
	// fixed are the atoms that are true for every target.
	fixed uint64
	// values are the values to try for each attribute, and holds the atoms that are true for each value.
	values [][]any
	holds  [][]uint64
}

// acceptance decides whether a difference, which is not confirmed, is one to find. completed is the target with all attributes that follow from it.
type acceptance func(caller Caller, target, completed map[string]any) bool

// find returns a minimal request in a direction for which accept returns true, or nil. It prefers requests with few roles.
func (s *search) find(which direction, accept acceptance) *Witness {
	tries := 0
	return s.findWithin(&tries, which, accept)
}

// findMore returns a request that only the second policy allows, or else one that it may allow, and the checks on whose unknown values that
// depends. It prefers requests with few of these.
func (s *search) findMore(accept acceptance) (*Witness, []string) {
	if w := s.find(more, accept); w != nil || s.same || s.cut || s.doubtful == 0 || s.isEnded() {
		return w, nil
	}
	defer func() { s.turned, s.assumed = 0, nil }()
	var doubtful []uint64
	for n := range s.asked {
		if bit := uint64(1) << uint(n); s.doubtful&bit != 0 {
			doubtful = append(doubtful, bit)
		}
	}
	tries := 0
	for size := range len(doubtful) + 1 {
		for set := range subsets(len(doubtful), size) {
			s.turned = 0
			for _, i := range set {
				s.turned |= doubtful[i]
			}
			s.assumed = s.assumptions()
			if w := s.findWithin(&tries, more, accept); w != nil {
				return w, s.unknown()
			}
			if s.isEnded() || tries > maxTries {
				return nil, nil
			}
		}
	}
	return nil, nil
}

// assumptions returns the values of the doubtful checks.
func (s *search) assumptions() map[string]assumption {
	values := map[string]assumption{}
	for n, c := range s.asked {
		if s.doubtful&(1<<uint(n)) == 0 {
			continue
		}
		turned := s.turned&(1<<uint(n)) != 0
		opaque, ok := c.(malformed)
		switch {
		case ok && turned:
			values[opaque.word] = assumedTrue
		case ok:
			values[opaque.word] = assumedFalse
		case turned:
			values[textOf(c)] = assumedOther
		}
	}
	return values
}

// unknown returns the checks on whose values the result of a search depends: those that are turned, or else all that are assumed to be false.
func (s *search) unknown() []string {
	var turned []string
	for text, value := range s.assumed {
		if value != assumedFalse {
			turned = append(turned, text)
		}
	}
	slices.Sort(turned)
	if len(turned) > 0 {
		return turned
	}
	return slices.Sorted(maps.Keys(s.assumed))
}

func (s *search) findWithin(tries *int, which direction, accept acceptance) *Witness {
	if s.same {
		return nil
	}
	if s.requests == nil {
		s.requests = s.newRequests()
	}
	roles := s.roles()
	if s.held == nil {
		for _, role := range roles {
			s.held = append(s.held, s.bits([]string{role}))
		}
	}
	for size := range s.mostRoles(which, len(roles)) + 1 {
		for _, r := range s.requests {
			if size > 0 && !r.caller.isScoped() {
				continue
			}
			for held := range subsets(len(roles), size) {
				w := s.try(which, r, roles, held, tries, accept)
				if w != nil {
					return w
				}
				if s.isEnded() {
					return nil
				}
				if *tries > maxTries {
					s.cut = s.cut || which == more
					s.incomplete = fmt.Sprintf("there are more than %d requests to try", maxTries)
					return nil
				}
			}
		}
	}
	return nil
}

// try tries all targets for a token with some of the roles.
func (s *search) try(which direction, r request, roles []string, held []int, tries *int, accept acceptance) *Witness {
	set := r.fixed
	for _, i := range held {
		set |= s.held[i]
	}
	if !s.differ(which, set, s.open[len(s.attributes)]) {
		*tries++
		return nil
	}
	chosen := make([]int, len(r.values))
	// The first n attributes have no value yet.
	var choose func(n int, atoms uint64) *Witness
	choose = func(n int, atoms uint64) *Witness {
		if *tries++; *tries > maxTries || s.isEnded() || !s.differ(which, atoms, s.open[n]) {
			return nil
		}
		if n == 0 {
			var names []string
			for _, i := range held {
				names = append(names, roles[i])
			}
			caller, target := s.minimal(which, r, names, chosen, atoms)
			completed, ok := s.operation.complete(target, caller)
			if ok && (accept == nil || accept(caller, target, completed)) && s.confirms(which, caller, target, completed) {
				return s.newWitness(which, caller, target)
			}
			return nil
		}
		for choice := range r.values[n-1] {
			chosen[n-1] = choice
			if w := choose(n-1, atoms|r.holds[n-1][choice]); w != nil {
				return w
			}
		}
		return nil
	}
	return choose(len(chosen), set)
}

// isEnded reports whether the caller has stopped waiting for the result.
func (s *search) isEnded() bool { return s.ended != nil && s.ended() }

// mostRoles returns how many of n roles a token needs at most to make a difference. The token does not need any other role: a role changes
// the result only if the rule that allows the request requires it, or if the rule that denies the request requires its absence.
func (s *search) mostRoles(which direction, n int) int {
	passes, denies := &s.second, &s.first
	if which == less {
		passes, denies = denies, passes
	}
	return min(s.needed(passes, true)+s.needed(denies, false), n)
}

// needed returns how many roles a token needs at most for a formula to have a value. One alternative is enough for an "or" to be true, and
// one part for an "and" to be false.
func (s *search) needed(f *formula, value bool) int {
	switch f.kind {
	case formulaAtom:
		if _, ok := s.asked[f.atom].(roleCheck); ok && value {
			return 1
		}
	case formulaNot:
		return s.needed(&f.inner[0], !value)
	case formulaAnd, formulaOr:
		sum, most := 0, 0
		for i := range f.inner {
			n := s.needed(&f.inner[i], value)
			sum, most = sum+n, max(most, n)
		}
		if (f.kind == formulaAnd) == value {
			return sum
		}
		return most
	case formulaConstant:
	}
	return 0
}

// impliedRoles are the roles that each token with a role has too, since "keystone-manage bootstrap" makes these implications. From managerRelease
// on, it also makes the role manager, between admin and member.
var impliedRoles = map[string][]string{"admin": {"manager", "member", "reader"}, "manager": {"member", "reader"}, "member": {"reader"}}

// with returns roles and those that they imply.
func (s *search) with(roles []string) []string {
	all := slices.Clone(roles)
	for _, role := range roles {
		hasManager := s.after.table != nil && s.after.table.rules[managedRoles] != nil
		for _, implied := range impliedRoles[lower(role)] {
			if (hasManager || lower(role) != "manager" && implied != "manager") && !hasRole(all, implied) {
				all = append(all, implied)
			}
		}
	}
	return all
}

// bits returns the atoms of roles and of those that they imply.
func (s *search) bits(roles []string) uint64 {
	var atoms uint64
	for _, role := range s.with(roles) {
		if n, ok := s.atoms["role:"+lower(role)]; ok {
			atoms |= 1 << uint(n)
		}
	}
	return atoms
}

// differ reports whether the rules can differ in a direction if these atoms are true, or those whose value is turned are not.
func (s *search) differ(which direction, atoms, unknown uint64) bool {
	atoms ^= s.turned
	return s.first.can(!bool(which), atoms, unknown) && s.second.can(bool(which), atoms, unknown)
}

// minimal removes roles and attributes that make no difference. A check whose value is turned needs its attributes, and Keystone always fills in
// attributes of the token.
func (s *search) minimal(which direction, r request, roles []string, chosen []int, atoms uint64) (Caller, map[string]any) {
	caller, target := r.caller, map[string]any{}
	for i, choice := range chosen {
		if r.values[i][choice] == missing {
			continue
		}
		_, always := s.operation.fromToken(s.attributes[i], caller)
		if without := atoms &^ r.holds[i][choice]; !always && s.differ(which, without, 0) && !s.turns(s.attributes[i]) {
			atoms = without
			continue
		}
		target[s.attributes[i]] = r.values[i][choice]
	}
	rest := atoms &^ s.bits(roles)
	for i := 0; i < len(roles); {
		fewer := slices.Delete(slices.Clone(roles), i, i+1)
		if s.differ(which, rest|s.bits(fewer), 0) {
			roles = fewer
		} else {
			i++
		}
	}
	for _, role := range s.with(roles) {
		if _, ok := s.atoms["role:"+lower(role)]; ok {
			caller.Roles = append(caller.Roles, role)
		}
	}
	return caller, target
}

// turns reports whether the value of a check of an attribute is turned.
func (s *search) turns(attribute string) bool {
	for n, c := range s.asked {
		if generic, ok := c.(genericCheck); ok && s.turned&(1<<uint(n)) != 0 && slices.Contains(generic.match.attributes(), attribute) {
			return true
		}
	}
	return false
}

// newWitness returns a witness. Keystone issues tokens for a scope only to users with a role there, so a token that needs none has any.
func (s *search) newWitness(which direction, caller Caller, target map[string]any) *Witness {
	if len(caller.Roles) == 0 && caller.isScoped() {
		for _, role := range []string{"any", "any-other"} {
			with := caller
			with.Roles = []string{role}
			if s.confirms(which, with, target) {
				caller = with
				break
			}
		}
	}
	w := &Witness{Can: s.operation.name, As: caller.String(), Target: target, Before: AnswerPass, After: AnswerDeny}
	if which == more {
		w.Before, w.After = w.After, w.Before
	}
	return w
}

// confirms evaluates both policies for targets, of which each is part of the next.
func (s *search) confirms(which direction, caller Caller, targets ...map[string]any) bool {
	credentials := caller.Credentials()
	former := -1
	for _, target := range targets {
		if len(target) == former { // the same
			continue
		}
		former = len(target)
		if s.passes(s.before, target, credentials) == bool(which) || s.passes(s.after, target, credentials) != bool(which) {
			return false
		}
	}
	return true
}

// passes evaluates a policy. An error is a denial.
func (s *search) passes(policy *Policy, target, credentials map[string]any) bool {
	passed, err := policy.assume(s.operation.name, target, credentials, s.assumed)
	if errors.Is(err, errTooLarge) {
		s.incomplete, s.cut = tooLarge, true
	}
	return passed && err == nil
}

// roles returns the roles in the rules, as written there.
func (s *search) roles() []string {
	var roles []string
	for _, c := range s.asked {
		if role, ok := c.(roleCheck); ok {
			roles = append(roles, role.match.text)
		}
	}
	return roles
}

// missing is the value of an attribute that is not in the target.
var missing any = struct{}{}

// Credentials for which the search tries every value that makes a difference: texts, and flags.
const (
	textCredentials = "user_id token.user.id user_domain_id token.user.domain.id domain_id token.domain.id project_id token.project.id " +
		"project_domain_id token.project.domain.id system_scope system " + nameCredentials
	nameCredentials = "token.user.name token.user.domain.name token.domain.name token.project.name token.project.domain.name"
	// No token has is_admin: Keystone evaluates no rule for the token of keystone.conf that had it.
	flagCredentials = "is_admin_project token.system.all is_admin"
)

// idsOf are the credentials with the ID of the object that a credential names.
var idsOf = map[string]string{ //nolint:gosec // the names of attributes, no credentials
	"token.user.name": "user_id token.user.id", "token.user.domain.name": "user_domain_id token.user.domain.id",
	"token.domain.name": "domain_id token.domain.id", "token.project.name": "project_id token.project.id",
	"token.project.domain.name": "project_domain_id token.project.domain.id",
}

// isSearched reports whether the tried tokens are all that make a difference to a check of the credentials. The token of the credentials has
// more fields than credentialNames, for example the catalog.
func isSearched(c genericCheck) bool {
	if hasWord(textCredentials, c.kind) || hasWord(flagCredentials, c.kind) && c.match.parts == nil {
		return true
	}
	return !known(c) && c.path[0] != "token"
}

// known reports whether Keystone's credentials have the path of a check.
func known(c genericCheck) bool {
	known, _ := knowsCredential(c.kind)
	return known
}

// raises reports whether a check of the credentials has a path below a text or below null.
func raises(c genericCheck) bool {
	for _, caller := range []Caller{{Domain: ownDomain}, {Project: ownDomain}, {System: true}} {
		if _, err := find(caller.Credentials(), c.path, c.match.text); err != nil {
			return true
		}
	}
	return false
}
