package oslopolicy

import (
	_ "embed" // operationsFile
	"maps"
	"slices"
	"strings"

	"warrantgate.dev/internal/message"
)

// operation says what Keystone fills in for an operation. Fields with several words are separated by blanks.
type operation struct {
	// Name is the name of the operation, such as identity:create_user.
	Name string
	// Since is the first release of which the entry is true. It replaces former ones of the name.
	Since Release
	// Path are the variables of the URL, Target the objects below target., Filters the query parameters below filter_attr.
	Path, Target, Filters string
	// Token are the attributes that Keystone takes from the token: its "domain", or its "user" unless it is for the system.
	Token map[string]string
	// Limited is true for a list that Keystone limits to the domain of the token, if the token is for a domain. Tokens for projects get all.
	Limited bool
	// Tenants is true if the objects are those of a domain, a project or a user. Others, such as global roles, are the same for all. All domains
	// are visible in a list, by which managers find theirs.
	Tenants bool
	// Granted is the attribute with the name of the role, for an operation that grants roles.
	Granted string
}

// operationsFile contains an operation a line, in the order of Keystone's own list. They are those of the default release, with the security
// fixes of 2026.
//
//go:embed operations.json
var operationsFile []byte

// shippedRule is a rule that Keystone registers and, for an operation, the attributes that Keystone sets.
type shippedRule struct {
	operation
	// name is the name of an operation or of a helper.
	name string
	// rule is its text. Unless a file overrides it, former is an alternative (oslo.policy's enforce_new_defaults is false).
	rule, former string
	// isNew is true if the attributes are unknown, because the default release does not have the operation.
	isNew bool
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
func (s *shippedRule) isMade() bool { return s.verb() == "create" && s.Path == "" || s.Target == "" }

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
		c := parseWhole(r.rule)
		if r.former != "" {
			c = anyCheck{c, parseWhole(r.former)}
		}
		table.checks[r.name] = c
	}
	return table
}

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
	if s.isNew || hasWord(s.Path, attribute) {
		return filled
	}
	head, rest, ok := strings.Cut(attribute, ".")
	switch {
	case !ok:
		return never
	case head == "request_body", head == "filter_attr" && hasWord(s.Filters, rest):
		return filled
	case head != "target":
		return never
	}
	kind, field, ok := strings.Cut(rest, ".")
	switch {
	case kind == "token" && hasWord(objectAttributes[kind], field):
		return filled // of the header X-Subject-Token, which any request can have
	case !hasWord(s.Target, kind) || ok == strings.HasSuffix(kind, "_id"):
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

// fromToken returns the value of an attribute that Keystone takes from the token, missing if the token does not have it. ok is false if Keystone
// takes the attribute from elsewhere.
func (s *shippedRule) fromToken(name string, caller Caller) (value any, ok bool) {
	part := s.Token[name]
	switch {
	case part == "domain" && caller.Domain != "":
		return caller.Domain, true
	case part == "user" && !caller.System:
		return caller.User, true
	}
	return missing, part != ""
}

// isOfDomainRoles reports whether an operation is about a role that belongs to a domain.
func (s *shippedRule) isOfDomainRoles() bool { return strings.HasSuffix(s.name, "_domain_role") }

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
	for name := range s.Token {
		if value, _ := s.fromToken(name, caller); value != missing {
			add(name, value)
		}
	}
	for name, value := range target {
		if id, isVariable := strings.CutSuffix(name, "_id"); isVariable && hasWord(s.Path, name) {
			add("target."+id+".id", value)
		}
		if kind, isID := strings.CutSuffix(strings.TrimPrefix(name, "target."), ".id"); isID && hasWord(s.Path, kind+"_id") {
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
	return ok && s.creates(kind) && hasWord(s.Target, kind)
}

// known returns all attributes that Keystone sets for an operation, without those of request bodies.
func (s *shippedRule) known() []string {
	names := strings.Fields(s.Path)
	for _, filter := range strings.Fields(s.Filters) {
		names = append(names, "filter_attr."+filter)
	}
	for _, kind := range strings.Fields(s.Target) {
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
	for _, kind := range strings.Fields(s.Target) {
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
	if near := message.Nearest(attribute, known); len(meant) == 0 && near != "" {
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
