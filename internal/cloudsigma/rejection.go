package cloudsigma

import (
	"encoding/json"
	"regexp"

	"warrantgate.dev/internal/ownership"
)

// kindPermission is the error type of a response that denies the user access to an existing object.
const kindPermission = "permission"

// rejection contains the parts of an error response that may be shown. The rest may name other users and their objects.
type rejection struct {
	// kind is the type of the error, such as "permission" or "notexist", or "" if it is missing or invalid.
	kind string
	// userID is the UUID of the user that was denied, or "" if the message does not contain it.
	userID string
}

var (
	kindPattern = regexp.MustCompile(`^[a-z_]{1,40}$`)
	// userPattern matches the user in "User <uuid> does not have all of the permissions […]".
	userPattern = regexp.MustCompile(`^User ([0-9A-Fa-f-]{36}) does not have `)
)

// parseRejection parses the body of an error response. It is a list of objects according to the documentation of the API, but some
// responses contain a single object. Of several errors it returns the first with a type.
func parseRejection(body []byte) rejection {
	type entry struct {
		// Both are strings according to the documentation. A message of another JSON type must not hide the error type.
		Kind    any `json:"error_type"`
		Message any `json:"error_message"`
	}
	var entries []entry
	if json.Unmarshal(body, &entries) != nil {
		entries = make([]entry, 1)
		if json.Unmarshal(body, &entries[0]) != nil {
			return rejection{}
		}
	}
	for _, e := range entries {
		kind, _ := e.Kind.(string)
		if !kindPattern.MatchString(kind) {
			continue
		}
		r := rejection{kind: kind}
		message, _ := e.Message.(string)
		if found := userPattern.FindStringSubmatch(message); found != nil {
			r.userID, _ = ownership.PlainUUID(found[1])
		}
		return r
	}
	return rejection{}
}
