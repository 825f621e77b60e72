package identity

import (
	"errors"
	"fmt"
	"slices"
)

// Warrant is an identity whose rights another identity has as well: JSON in the extra field
// authorization.kcp.io/warrant. Warrants nest, each in the extra fields of the one around it.
type Warrant struct {
	// User is the name of the identity that is delegated. A service account's counts only with its home.
	User string `json:"user,omitempty"`
	// UID tells users of equal name apart.
	UID string `json:"uid,omitempty"`
	// Groups are the groups that are delegated.
	Groups []string `json:"groups,omitempty"`
	// Extra holds home, scopes and nested warrants.
	Extra map[string][]string `json:"extra,omitempty"`
}

var (
	errTooDeep = fmt.Errorf("its warrants are nested more than %d deep", MaxWarrantDepth)
	errTooMany = fmt.Errorf("it carries more than %d warrants", MaxWarrants)
)

// ParseWarrant reads one value of the extra field authorization.kcp.io/warrant, as strictly as ParseOwner.
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

// String returns the warrant in the form in which kcp reads it.
func (w Warrant) String() string { return encode(w) }

func (w Warrant) owner() Owner {
	return Owner{Username: w.User, UID: w.UID, Groups: w.Groups, Extra: w.Extra}
}

// carried is a warrant as it was found on an owner, with those nested in it.
type carried struct {
	raw     string
	warrant Warrant
	err     error // why it cannot be read; kcp ignores such a warrant, or reads it less strictly
	nested  []carried
}

// readWarrants reads the warrants of extra and all that are nested in them, within the bounds of this package.
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

// anyUnreadable tells whether any of the warrants, at any depth, cannot be read.
func anyUnreadable(warrants []carried) bool {
	return slices.ContainsFunc(warrants, func(w carried) bool { return w.err != nil || anyUnreadable(w.nested) })
}
