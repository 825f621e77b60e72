package openstack

import (
	"encoding/json"
	"regexp"
)

// Kinds of errors, as OpenStack calls them.
const (
	// kindKeystone is that of every error of Keystone.
	kindKeystone = "error"
	// kindNotFound is Nova's for a server that does not exist, or not for this project.
	kindNotFound = "itemNotFound"
	// kindForbidden is Nova's for what its policy does not let the user do.
	kindForbidden = "forbidden"
)

// refusal is what is kept of the body of an error. The rest may name what is not the user's.
type refusal struct {
	// kind is what the error is called, such as "itemNotFound", "" if it is none of OpenStack's.
	kind string
}

var kindPattern = regexp.MustCompile(`^[A-Za-z]{1,40}$`)

// parseRefusal reads the body of an error: an object of one key, which says what kind of error it is, over an object with the
// code of the status. What has another shape, or another code, is not from OpenStack.
func parseRefusal(status int, body []byte) refusal {
	var errors map[string]struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(body, &errors) != nil || len(errors) != 1 {
		return refusal{}
	}
	for kind, said := range errors {
		if said.Code == status && kindPattern.MatchString(kind) {
			return refusal{kind: kind}
		}
	}
	return refusal{}
}
