package oslopolicy

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// shippedRule is a rule that Keystone registers and, for an operation, the attributes that Keystone sets.
type shippedRule struct {
	// name is the name of an operation, such as identity:create_user, or of a helper.
	name string
	// rule is its text. Unless a file overrides it, former is an alternative (oslo.policy's enforce_new_defaults is false).
	rule, former string
	// path are the variables of the URL, target the objects below target., filters the query parameters below filter_attr.
	// All are separated by blanks.
	path, target, filters string
	// body is true if there can be a request body, below request_body.
	body bool
	// isNew is true if the attributes are unknown, because the default release does not have the operation.
	isNew bool
	// tenants is the result of isOfTenants.
	tenants bool
}

// prefix is the prefix of the names of all operations of Keystone.
const prefix = "identity:"

func (s *shippedRule) isOperation() bool { return strings.HasPrefix(s.name, prefix) }

// verb returns the verb of an operation: get, list, create and so on.
func (s *shippedRule) verb() string {
	verb, _, _ := strings.Cut(strings.TrimPrefix(s.name, prefix), "_")
	return verb
}

// reads reports whether an operation is read-only.
func (s *shippedRule) reads() bool {
	return slices.Contains([]string{"get", "list", "check", "validate"}, s.verb())
}

// isMade reports whether the request itself describes the object, so that body or query are its attributes.
func (s *shippedRule) isMade() bool { return s.verb() == "create" && s.path == "" || s.target == "" }

// creates reports whether an operation creates objects of a kind, so that their attributes are those of the request.
func (s *shippedRule) creates(kind string) bool { return s.name == prefix+"create_"+kind }

// objectAttributes are the attributes of objects below target., by kind. For all other kinds, every attribute is known.
var objectAttributes = map[string]string{ //nolint:gosec // the names of attributes, no credentials
	"user":         "default_project_id description domain_id email enabled federated id name options password_expires_at",
	"group":        "description domain_id id name",
	"project":      "description domain_id enabled id is_domain name options parent_id tags",
	"domain":       "description enabled id name options tags",
	"role":         "description domain_id id name options",
	"prior_role":   "description domain_id id name options",
	"implied_role": "description domain_id id name options",
	"credential":   "blob id project_id type user_id",
	"token":        "user.domain.id user_id",
	"trust": "allow_redelegation deleted_at expires_at id impersonation project_id redelegated_trust_id redelegation_count " +
		"remaining_uses roles trustee_user_id trustor_user_id",
}

// shippedTable contains the shipped rules of a release and their checks by name.
type shippedTable struct {
	// list contains all rules, in Keystone's order.
	list   []shippedRule
	rules  map[string]*shippedRule
	checks map[string]check
}

func newShippedTable(list []shippedRule) *shippedTable {
	table := &shippedTable{list: list, rules: map[string]*shippedRule{}, checks: map[string]check{}}
	for i := range list {
		r := &list[i]
		table.rules[r.name] = r
		r.tenants = r.isOfTenants()
		c := parseWhole(r.rule)
		if r.former != "" {
			c = anyCheck{c, parseWhole(r.former)}
		}
		table.checks[r.name] = c
	}
	return table
}

// shipped is the table of the default release.
var shipped = sync.OnceValue(func() *shippedTable { return newShippedTable(shippedRules) })

// operation returns the operation of a rule, nil for helpers and unknown names.
func (t *shippedTable) operation(name string) *shippedRule {
	if known := t.rules[name]; known != nil && known.isOperation() {
		return known
	}
	return nil
}

// parseWhole parses the text of a shipped rule, which may be empty.
func parseWhole(text string) check {
	c, err := parseRule(text)
	if err != nil { // a test checks that there is none
		return unparsed{why: err.Error()}
	}
	return c
}

// knowledge is whether Keystone sets an attribute.
type knowledge int

const (
	// never: Keystone never sets it.
	never knowledge = iota
	// doubtful: Keystone sets it only if the object was stored with this additional attribute.
	doubtful
	// filled: Keystone sets it in all or some requests.
	filled
)

// fills returns whether Keystone sets an attribute for an operation.
func (s *shippedRule) fills(attribute string) knowledge {
	if s.isNew || hasWord(s.path, attribute) {
		return filled
	}
	head, rest, ok := strings.Cut(attribute, ".")
	switch {
	case !ok:
		return never
	case head == "request_body" && s.body, head == "filter_attr" && hasWord(s.filters, rest):
		return filled
	case head != "target":
		return never
	}
	kind, field, ok := strings.Cut(rest, ".")
	switch {
	case !hasWord(s.target, kind) || ok == strings.HasSuffix(kind, "_id"):
		return never
	case !ok:
		if strings.HasSuffix(kind, "_id") {
			return filled
		}
		return never
	case field == "id" && s.creates(kind):
		return never
	}
	known, ok := objectAttributes[kind]
	if first, _, _ := strings.Cut(field, "."); !ok || hasWord(known, field) || first == "options" {
		return filled
	}
	return doubtful
}

// Lists whose rules can check an attribute of the token.
const (
	listDomains, listGroups, listCredentials = prefix + "list_domains", prefix + "list_groups", prefix + "list_credentials"

	// listTree is the list of the role assignments of a project and those below it. Its rule can check attributes of the project.
	listTree = prefix + "list_role_assignments_for_tree"
)

// fromToken returns the value of an attribute that Keystone takes from the token, missing if the token does not have it. ok is false if Keystone
// takes the attribute from elsewhere.
func (s *shippedRule) fromToken(name string, caller Caller) (value any, ok bool) {
	value = missing
	switch {
	case name == "target.domain_id" && s.name != listTree, name == "target.group.domain_id" && s.name == listGroups,
		name == "target.domain.id" && s.name == listDomains:
		if caller.Domain != "" {
			value = caller.Domain
		}
	case name == "target.credential.user_id" && s.name == listCredentials:
		if !caller.System {
			value = caller.User
		}
	default:
		return nil, false
	}
	return value, true
}

// isLimited reports whether Keystone limits a list to the domain of the token, if the token is for a domain. Tokens for projects get all.
func (s *shippedRule) isLimited() bool {
	return hasWord("identity:list_users identity:list_groups identity:list_projects identity:list_role_assignments", s.name)
}

// isOfDomainRoles reports whether an operation is about a role that belongs to a domain.
func (s *shippedRule) isOfDomainRoles() bool { return strings.HasSuffix(s.name, "_domain_role") }

// isOfTenants reports whether the objects of an operation are those of a domain, a project or a user. Others, such as global roles, are the same
// for all. All domains are visible in a list, by which managers find theirs.
func (s *shippedRule) isOfTenants() bool {
	const (
		kinds     = "user user_id group project domain domain_id credential trust token limit"
		variables = "user_id group_id project_id domain_id trust_id credential_id limit_id"
		others    = "identity:list_trusts identity:list_revoke_events identity:get_domain_role identity:list_domain_roles"
	)
	has := func(words, known string) bool {
		return slices.ContainsFunc(strings.Fields(words), func(word string) bool { return hasWord(known, word) })
	}
	return s.name != listDomains && (has(s.target, kinds) || has(s.path, variables) || hasWord(others, s.name))
}

// complete adds attributes to a target that follow from others and from the token: a variable of the URL with the ID of an object is also below
// target, the own project and the own user have their domains, and a new object is the body. ok is false if no target has these attributes.
func (s *shippedRule) complete(target map[string]any, caller Caller) (completed map[string]any, ok bool) {
	completed, ok = maps.Clone(target), true
	add := func(name string, value any) {
		if former, known := completed[name]; known {
			ok = ok && former == value
		} else if s.fills(name) == filled {
			completed[name] = value
		}
	}
	for _, name := range []string{"target.domain_id", "target.group.domain_id", "target.domain.id", "target.credential.user_id"} {
		if value, fixed := s.fromToken(name, caller); fixed && value != missing {
			add(name, value)
		}
	}
	for name, value := range target {
		if id, isVariable := strings.CutSuffix(name, "_id"); isVariable && hasWord(s.path, name) {
			add("target."+id+".id", value)
		}
		if kind, isID := strings.CutSuffix(strings.TrimPrefix(name, "target."), ".id"); isID && hasWord(s.path, kind+"_id") {
			add(kind+"_id", value)
		}
		if field, made := strings.CutPrefix(name, "target."); made && s.makes(field) {
			add("request_body."+field, value)
		}
		if field, made := strings.CutPrefix(name, "request_body."); made && s.makes(field) {
			add("target."+field, value)
		}
	}
	if id := completed["target.project.id"]; id != nil && id == caller.Project {
		add("target.project.domain_id", caller.ProjectDomain)
	}
	if id := completed["target.user.id"]; id != nil && id == caller.User {
		add("target.user.domain_id", caller.UserDomain)
	}
	_, byDomain := target["filter_attr.scope.domain.id"]
	_, byProject := target["filter_attr.scope.project.id"]
	if byDomain && byProject { // Keystone answers 400
		ok = false
	}
	return completed, ok
}

// makes reports whether a field of the body is an attribute of the object that the operation creates.
func (s *shippedRule) makes(field string) bool {
	kind, _, ok := strings.Cut(field, ".")
	return ok && s.creates(kind) && hasWord(s.target, kind)
}

// known returns all attributes that Keystone sets for an operation, without those of request bodies.
func (s *shippedRule) known() []string {
	names := strings.Fields(s.path)
	for _, filter := range strings.Fields(s.filters) {
		names = append(names, "filter_attr."+filter)
	}
	for _, kind := range strings.Fields(s.target) {
		if strings.HasSuffix(kind, "_id") {
			names = append(names, "target."+kind)
		}
		for _, field := range strings.Fields(objectAttributes[kind]) {
			if name := "target." + kind + "." + field; s.fills(name) == filled {
				names = append(names, name)
			}
		}
	}
	return names
}

// suggest returns suggestions for an attribute that Keystone does not set, the most likely first.
func (s *shippedRule) suggest(attribute string) []string {
	known := s.known()
	var meant []string
	candidates := []string{"target." + attribute, "filter_attr." + attribute}
	for _, kind := range strings.Fields(s.target) {
		candidates = append(candidates, "target."+kind+"."+attribute)
	}
	// target.user.domain.id, and the like, are flat in Keystone.
	flat := strings.ReplaceAll(attribute, ".domain.id", ".domain_id")
	candidates = append(candidates, flat, "target."+flat)
	for _, candidate := range candidates {
		if candidate != attribute && slices.Contains(known, candidate) && !slices.Contains(meant, candidate) {
			meant = append(meant, candidate)
		}
	}
	if near := nearest(attribute, known); len(meant) == 0 && near != "" {
		meant = []string{near}
	}
	return meant
}

// hasWord reports whether a text has a word between blanks.
func hasWord(words, word string) bool {
	for words != "" {
		known, rest, _ := strings.Cut(words, " ")
		if known == word {
			return word != ""
		}
		words = rest
	}
	return false
}

// nearest returns the name with the smallest Levenshtein distance, if it is at most three and a third of the letters. Of several it returns the
// first in alphabetical order.
func nearest(name string, names []string) string {
	best, fewest := "", min(3, len(name)/3)
	for _, candidate := range names {
		if size := len(candidate) - len(name); size > fewest || -size > fewest {
			continue
		}
		if n := changes(name, candidate); n > 0 && (n < fewest || n == fewest && (best == "" || candidate < best)) {
			best, fewest = candidate, n
		}
	}
	return best
}

// changes returns the Levenshtein distance.
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
