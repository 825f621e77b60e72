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

// rejection is the part of the body of an error that is kept. The rest may name objects of other users.
type rejection struct {
	// kind is the kind of the error, such as "itemNotFound", "" if the body is not from OpenStack.
	kind string
}

var kindPattern = regexp.MustCompile(`^[A-Za-z]{1,40}$`)

// parseRejection decodes the body of an error: an object with one key, the kind of the error, and an object with the status code as its value.
// A body with another format or code is not from OpenStack.
func parseRejection(status int, body []byte) rejection {
	var errors map[string]struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(body, &errors) != nil || len(errors) != 1 {
		return rejection{}
	}
	for kind, said := range errors {
		if said.Code == status && kindPattern.MatchString(kind) {
			return rejection{kind: kind}
		}
	}
	return rejection{}
}
