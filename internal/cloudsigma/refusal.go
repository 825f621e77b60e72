package cloudsigma

import (
	"encoding/json"
	"regexp"

	"warrantgate.dev/internal/ownership"
)

// kindPermission is the error type of an answer that refuses the user an operation on something that exists.
const kindPermission = "permission"

// refusal is what is kept of the body of an error. The rest may name other users and what is theirs.
type refusal struct {
	// kind is the type of the error, such as "permission" or "notexist", "" if there is none that looks like one.
	kind string
	// userID is the UUID of the user to whom something was refused, "" if the message does not say.
	userID string
}

var (
	kindPattern = regexp.MustCompile(`^[a-z_]{1,40}$`)
	// userPattern finds the user in "User <uuid> does not have all of the permissions […]".
	userPattern = regexp.MustCompile(`^User ([0-9A-Fa-f-]{36}) does not have `)
)

// parseRefusal reads the body of an error: a list of objects by the API's documentation, though a single object has been
// seen as well. Of several errors it takes the first that has a type.
func parseRefusal(body []byte) refusal {
	type entry struct {
		// Both are strings by the documentation. A message of another kind shall not hide the type.
		Kind    any `json:"error_type"`
		Message any `json:"error_message"`
	}
	var entries []entry
	if json.Unmarshal(body, &entries) != nil {
		entries = make([]entry, 1)
		if json.Unmarshal(body, &entries[0]) != nil {
			return refusal{}
		}
	}
	for _, e := range entries {
		kind, _ := e.Kind.(string)
		if !kindPattern.MatchString(kind) {
			continue
		}
		r := refusal{kind: kind}
		message, _ := e.Message.(string)
		if found := userPattern.FindStringSubmatch(message); found != nil {
			r.userID, _ = ownership.PlainUUID(found[1])
		}
		return r
	}
	return refusal{}
}
