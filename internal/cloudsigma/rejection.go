package cloudsigma

import (
	"encoding/json"
	"regexp"

	"warrantgate.dev/internal/ownership"
)

// kindPermission is the error type of a response that denies the user access to an existing object.
const kindPermission = "permission"

var (
	kindPattern = regexp.MustCompile(`^[a-z_]{1,40}$`)
	// userPattern matches the user in "User <uuid> does not have all of the permissions […]".
	userPattern = regexp.MustCompile(`^User ([0-9A-Fa-f-]{36}) does not have `)
)

// parseRejection returns the parts of the body of an error response that may be shown: the type of the error, such as "permission" or
// "notexist", and the UUID of the user that was denied. Each is "" if it is missing or invalid. The rest may name other users and their objects.
//
// The body is a list of objects according to the documentation of the API, but some responses contain a single object. Of several errors it
// returns the first with a type.
func parseRejection(body []byte) (kind, userID string) {
	type entry struct {
		// Both are strings according to the documentation. A message of another JSON type must not hide the error type.
		Kind    any `json:"error_type"`
		Message any `json:"error_message"`
	}
	var entries []entry
	if json.Unmarshal(body, &entries) != nil {
		entries = make([]entry, 1)
		if json.Unmarshal(body, &entries[0]) != nil {
			return "", ""
		}
	}
	for _, e := range entries {
		kind, _ := e.Kind.(string)
		if !kindPattern.MatchString(kind) {
			continue
		}
		message, _ := e.Message.(string)
		if found := userPattern.FindStringSubmatch(message); found != nil {
			userID, _ = ownership.PlainUUID(found[1])
		}
		return kind, userID
	}
	return "", ""
}
