package kcp

import (
	"regexp"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refused is how an API server names the user whom it refuses.
var refused = regexp.MustCompile(`\bUser ("(?:[^"\\]|\\.)*") cannot `)

// RefusedUser is the name of the user whom kcp has refused with err. It is empty if err is no refusal, or names nobody: kcp
// tells it in the words of the message only.
func RefusedUser(err error) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	match := refused.FindStringSubmatch(err.Error())
	if match == nil {
		return ""
	}
	name, err := strconv.Unquote(match[1])
	if err != nil {
		return ""
	}
	return name
}
