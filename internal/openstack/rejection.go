package openstack

import (
	"encoding/json"
	"regexp"
)

// Kinds of errors in responses of OpenStack.
const (
	// kindKeystone is the kind of every error of Keystone.
	kindKeystone = "error"
	// kindNotFound is Nova's kind for a server that does not exist, or that belongs to another project.
	kindNotFound = "itemNotFound"
	// kindForbidden is Nova's kind for requests that its policy denies.
	kindForbidden = "forbidden"
)

var kindPattern = regexp.MustCompile(`^[A-Za-z]{1,40}$`)

// kindOf returns the kind of an error, such as "itemNotFound", "" if the body is not from OpenStack. The body of an error is an object with one
// key, the kind of the error, and an object with the status code as its value. The rest may name objects of other users.
func kindOf(status int, body []byte) string {
	var errors map[string]struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(body, &errors) != nil || len(errors) != 1 {
		return ""
	}
	for kind, said := range errors {
		if said.Code == status && kindPattern.MatchString(kind) {
			return kind
		}
	}
	return ""
}
