package identity

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Principal is a user or a project of an OpenStack, as Keystone names it in a token.
type Principal struct {
	// ID never changes. It is unique in an OpenStack.
	ID string
	// Name is unique in its domain. Managers of the domain can change it.
	Name string
	// DomainID and DomainName are the domain that the user or project belongs to.
	DomainID, DomainName string
}

// PrincipalPattern describes users or projects. A principal matches if all fields that are set match. The zero value matches
// none. A pattern may only deny: names without a domain match in each domain, so that a tenant can choose one that matches.
type PrincipalPattern struct {
	// ID is compared exactly.
	ID string
	// Name is a pattern: * stands for any run of characters, ? for one, [a-z] for a range. The case is ignored, because databases
	// of Keystone ignore it.
	Name string
	// Domain is the ID of a domain, or a pattern of its name.
	Domain string
}

// Matches reports whether a user or project is one of those that the pattern describes.
func (p PrincipalPattern) Matches(principal Principal) bool {
	return p != PrincipalPattern{} &&
		(p.ID == "" || p.ID == principal.ID) &&
		(p.Name == "" || matchesName(p.Name, principal.Name)) &&
		(p.Domain == "" || p.Domain == principal.DomainID || matchesName(p.Domain, principal.DomainName))
}

// slashes replaces slashes, which names in Keystone may contain, because path.Match treats them as separators.
var slashes = strings.NewReplacer("/", "\x00")

// matchesName also returns true for an invalid pattern. Validate reports such patterns.
func matchesName(pattern, name string) bool {
	matched, err := path.Match(slashes.Replace(strings.ToLower(pattern)), slashes.Replace(strings.ToLower(name)))
	return matched || err != nil
}

// Operators describes the users and projects of the operators of an OpenStack. No cluster of a tenant may act as one of them.
type Operators struct {
	// Users are the users of the operators, Projects their projects.
	Users, Projects []PrincipalPattern
}

// IncludeUser reports whether a user is an operator's.
func (o Operators) IncludeUser(user Principal) bool { return anyMatches(o.Users, user) }

// IncludeProject reports whether a project is an operator's.
func (o Operators) IncludeProject(project Principal) bool { return anyMatches(o.Projects, project) }

func anyMatches(patterns []PrincipalPattern, principal Principal) bool {
	return slices.ContainsFunc(patterns, func(pattern PrincipalPattern) bool { return pattern.Matches(principal) })
}

// Validate returns the invalid patterns, with field paths below root.
func (o Operators) Validate(root *field.Path) field.ErrorList {
	return append(validatePrincipals(o.Users, root.Child("users")), validatePrincipals(o.Projects, root.Child("projects"))...)
}

func validatePrincipals(patterns []PrincipalPattern, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, pattern := range patterns {
		at := at.Index(i)
		if (pattern == PrincipalPattern{}) {
			errs = append(errs, field.Required(at, "id, name or domain"))
		}
		errs = append(errs, validatePattern(pattern.Name, at.Child("name"))...)
		errs = append(errs, validatePattern(pattern.Domain, at.Child("domain"))...)
	}
	return errs
}

// CredentialPolicy decides which OpenStack credentials a cluster may use. The zero value allows only credentials without roles.
type CredentialPolicy struct {
	// Roles are the roles that credentials may and must have.
	Roles RolePolicy
	// Operators are the identities that clusters must not act as.
	Operators Operators
	// DenyUnrestricted denies application credentials that can create further application credentials.
	DenyUnrestricted bool
}
