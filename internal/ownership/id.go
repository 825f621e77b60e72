package ownership

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"warrantgate.dev/internal/message"
)

// ExampleInstanceID is the example in messages about invalid IDs.
const ExampleInstanceID = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"

// uuidLength is the length of a UUID in its plain form (RFC 9562, section 4).
const uuidLength = 36

// uuidPattern matches the plain form of a UUID in lower case.
const uuidPattern = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`

// maxIDRunes is more characters than an ID has in any format. It bounds the cost of the match.
const maxIDRunes = 400

// IDFormat is the format of the ID of an instance in a field of a machine: a prefix, which depends on the cloud, and the UUID of the
// instance. It accepts upper case, surrounding blanks and a trailing slash. The nil UUID is no ID, because no object in a cloud has it.
type IDFormat struct {
	pattern     *regexp.Regexp
	requirement string
}

// NewIDFormat returns a format. prefix is a regular expression (RE2) without groups for the text before the UUID, in lower case. The
// requirement continues a message that begins with a value that is not in the format.
func NewIDFormat(prefix, requirement string) IDFormat {
	return IDFormat{pattern: regexp.MustCompile("^" + prefix + "(" + uuidPattern + ")/?$"), requirement: requirement}
}

// InstanceIDs is the format of the field with only the instance. Instances of all clouds have UUIDs; only their provider IDs differ.
var InstanceIDs = NewIDFormat("", fmt.Sprintf(" is not an instance ID: it has to be the UUID of a server, such as %q", ExampleInstanceID))

// Parse returns the UUID in lower case. The error describes the format.
func (f IDFormat) Parse(value string) (string, error) {
	if text := strings.TrimSpace(value); utf8.RuneCountInString(text) <= maxIDRunes {
		if found := f.pattern.FindStringSubmatch(lowerASCII(text)); len(found) == 2 && found[1] != uuid.Nil.String() {
			return found[1], nil
		}
	}
	return "", fmt.Errorf("%q%s", message.Value(value), f.requirement)
}

// externalID matches an ID of an external provider: the characters of a URI, without those that begin a query, a fragment or an escape. No two
// of its texts look the same, and no reader decodes one of them to another one.
const externalID = "[a-z0-9._~:/@!$&()*+,;=\\[\\]-]+"

// ExternalIDs returns the parser of the IDs of a provider whose cloud is not asked. Two texts are the same ID if they differ in upper case,
// surrounding blanks, repeated and trailing slashes only, because providers and their users write them in several ways. The one group of pattern
// (RE2), which has to match the whole text, is what identifies the instance; by default, the whole text does. Segments . and .. are no part of an
// ID, because a reader of paths removes them.
func ExternalIDs(pattern string) (parse func(value string) (string, error), _ error) {
	compiled, err := regexp.Compile(pattern) // alone: parentheses must not end the group that is put around it
	if err == nil {
		compiled, err = regexp.Compile("^(?i:" + cmp.Or(pattern, "("+externalID+")") + ")$")
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("must be a regular expression: %w", err)
	case compiled.NumSubexp() != 1:
		return nil, errors.New("must have one group, the part that is compared, such as aws:///[^/]+/(i-[0-9a-f]+)")
	}
	requirement := fmt.Sprintf(" is not an ID: it must have at most %d letters, digits and punctuation characters of a URI, and no segment . or ..", maxIDRunes)
	if pattern != "" {
		requirement += fmt.Sprintf(", and match %q", pattern)
	}
	valid := regexp.MustCompile("^" + externalID + "$")
	return func(value string) (string, error) {
		text := lowerASCII(strings.TrimSpace(value))
		if len(text) <= maxIDRunes && valid.MatchString(text) {
			if found := compiled.FindStringSubmatch(text); len(found) == 2 {
				if id := strings.Trim(repeatedSlashes.ReplaceAllString(found[1], "/"), "/"); id != "" && !dotSegment.MatchString(id) {
					return id, nil
				}
			}
		}
		return "", fmt.Errorf("%q%s", message.Value(value), requirement)
	}, nil
}

var (
	repeatedSlashes = regexp.MustCompile("/+")
	dotSegment      = regexp.MustCompile(`(^|[/:])\.\.?(/|$)`)
)

// CELIsID returns the CEL expression that is true for a value that is an instance ID in lower case, without blanks or a slash.
func CELIsID(value string) string {
	return fmt.Sprintf("type(%[1]s) == string && size(%[1]s) == %[2]d && %[1]s != '%[3]s' && %[1]s.matches(r'^%[4]s$')", value, uuidLength, uuid.Nil, uuidPattern)
}

// ParseInstanceID parses an ID in the format InstanceIDs.
func ParseInstanceID(s string) (string, error) { return InstanceIDs.Parse(s) }

// LowerEmail returns an email with its ASCII letters in lower case, to compare users. It keeps all other letters: in Unicode, the lower case
// of the Kelvin sign is k, so that another user would match. lowerAscii of CEL has the same result.
func LowerEmail(email string) string { return lowerASCII(email) }

// lowerASCII is lowerAscii of CEL.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}
