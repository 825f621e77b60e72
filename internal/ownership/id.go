package ownership

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// ExampleInstanceID is shown to people whose ID cannot be read.
const ExampleInstanceID = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"

// uuidLength is the length of a UUID in its plain form (RFC 9562, section 4). The parser also takes forms with a prefix,
// with braces and without dashes, all of which have another length.
const uuidLength = 36

// ParseInstanceID returns the UUID of an instance in lower case. Upper case, blanks around it and a slash after it do not
// change which instance is meant; anything else is an error that says what an instance ID has to look like. It is the same
// for all clouds, whose instances all have UUIDs; their provider IDs differ.
func ParseInstanceID(s string) (string, error) {
	id, ok := PlainUUID(strings.TrimSpace(s))
	if !ok {
		return "", fmt.Errorf("%.100q is not an instance ID: it has to be the UUID of a server, such as %q", s, ExampleInstanceID)
	}
	return id, nil
}

// PlainUUID returns a UUID in lower case, without the slash after it. Nothing in a cloud has the nil UUID, so that is none.
func PlainUUID(s string) (string, bool) {
	s = strings.TrimSuffix(s, "/")
	if len(s) != uuidLength {
		return "", false
	}
	id, err := uuid.Parse(s)
	if err != nil || id == uuid.Nil {
		return "", false
	}
	return id.String(), true
}

// LowerEmail returns an email with its ASCII letters in lower case, which is how users are compared. Other letters differ from
// all others: in Unicode the sign for Kelvin has the lower case k, and would stand for a user of another name. It is what
// lowerAscii of CEL does.
func LowerEmail(email string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, email)
}
