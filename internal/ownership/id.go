package ownership

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// ExampleInstanceID is the example in messages about invalid IDs.
const ExampleInstanceID = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"

// uuidLength is the length of a UUID in its plain form (RFC 9562, section 4). The parser also accepts other forms: with a prefix, with
// braces and without dashes. They have other lengths.
const uuidLength = 36

// ParseInstanceID returns the UUID of an instance in lower case. It accepts upper case, surrounding blanks and a trailing slash. The error
// describes the format. Instances of all clouds have UUIDs; only their provider IDs differ.
func ParseInstanceID(s string) (string, error) {
	id, ok := PlainUUID(strings.TrimSpace(s))
	if !ok {
		return "", fmt.Errorf("%.100q is not an instance ID: it has to be the UUID of a server, such as %q", s, ExampleInstanceID)
	}
	return id, nil
}

// PlainUUID returns a UUID in lower case, without a trailing slash. It rejects the nil UUID, because no object in a cloud has it.
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

// LowerEmail returns an email with its ASCII letters in lower case, to compare users. It keeps all other letters: in Unicode, the lower case
// of the Kelvin sign is k, so that another user would match. lowerAscii of CEL has the same result.
func LowerEmail(email string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, email)
}
