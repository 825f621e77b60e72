package kcp

import (
	"regexp"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// deniedUser matches the denied user in the message of an API server.
var deniedUser = regexp.MustCompile(`\bUser ("(?:[^"\\]|\\.)*") cannot `)

// DeniedUser returns the name of the user that kcp denied with err. It is empty if err is not a Forbidden error or names no user.
// The name is only in the text of the message.
func DeniedUser(err error) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	match := deniedUser.FindStringSubmatch(err.Error())
	if match == nil {
		return ""
	}
	name, err := strconv.Unquote(match[1])
	if err != nil {
		return ""
	}
	return name
}
