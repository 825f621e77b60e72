package identity

import (
	"errors"
	"fmt"
)

// Warrant is an identity whose permissions another identity also has: JSON in the extra field authorization.kcp.io/warrant. The extra
// fields of a warrant can contain nested warrants.
type Warrant struct {
	// User is the user name of the identity. kcp ignores a service account without a home.
	User string `json:"user,omitempty"`
	// UID distinguishes users with the same name.
	UID string `json:"uid,omitempty"`
	// Groups are the groups of the identity.
	Groups []string `json:"groups,omitempty"`
	// Extra contains home, scopes and nested warrants.
	Extra map[string][]string `json:"extra,omitempty"`
}

var (
	errTooDeep = fmt.Errorf("its warrants are nested more than %d deep", MaxWarrantDepth)
	errTooMany = fmt.Errorf("it carries more than %d warrants", MaxWarrants)
)

// ParseWarrant decodes one value of the extra field authorization.kcp.io/warrant, as strictly as ParseOwner.
func ParseWarrant(raw string) (Warrant, error) {
	var warrant Warrant
	if err := decodeStrictly(raw, &warrant); err != nil {
		return Warrant{}, err
	}
	if warrant.User == "" && len(warrant.Groups) == 0 {
		return Warrant{}, errors.New("it names neither a user nor a group")
	}
	return warrant, nil
}

// String returns the warrant as JSON, as kcp decodes it.
func (w Warrant) String() string { return encode(w) }

func (w Warrant) owner() Owner {
	return Owner{Username: w.User, UID: w.UID, Groups: w.Groups, Extra: w.Extra}
}

// carried is a warrant of an owner, with its nested warrants.
type carried struct {
	raw     string
	warrant Warrant
	err     error // of ParseWarrant; kcp ignores such a warrant, or decodes it less strictly
	nested  []carried
}

// readWarrants decodes the warrants of extra, including nested ones, up to MaxWarrantDepth and MaxWarrants.
func readWarrants(extra map[string][]string) ([]carried, error) {
	count := 0
	return readNested(extra, 1, &count)
}

func readNested(extra map[string][]string, depth int, count *int) ([]carried, error) {
	values := extra[WarrantKey]
	if len(values) == 0 {
		return nil, nil
	}
	if depth > MaxWarrantDepth {
		return nil, errTooDeep
	}
	if *count += len(values); *count > MaxWarrants {
		return nil, errTooMany
	}
	warrants := make([]carried, 0, len(values))
	for _, raw := range values {
		warrant, err := ParseWarrant(raw)
		found := carried{raw: raw, warrant: warrant, err: err}
		if err == nil {
			if found.nested, err = readNested(warrant.Extra, depth+1, count); err != nil {
				return nil, err
			}
		}
		warrants = append(warrants, found)
	}
	return warrants, nil
}

// isBackedBy reports whether a warrant is the owner itself in certain logical clusters, as Rewrite adds it: with the scopes of the creator,
// or of the new logical cluster for the required groups. Only the warrant of a creator without scopes has none: any other would end the
// restrictions of an owner, or give it groups everywhere.
func (o Owner) isBackedBy(w carried) bool {
	self := w.warrant.owner()
	confined := len(self.Extra[ScopesKey]) > 0 || self.IsServiceAccount() && len(o.Extra[ScopesKey]) == 0
	return len(w.nested) == 0 && confined && sameName(o, self)
}
