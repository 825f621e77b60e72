package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

var (
	// plainEmail is what can be part of the name of a ClusterRole and needs no quotes in a shell.
	plainEmail = regexp.MustCompile(`^[a-z0-9._+@-]+$`)
	// plainWord needs no quotes in a shell. quotable is what one line can hold and single quotes make harmless, unless it
	// has one itself.
	plainWord = regexp.MustCompile(`^[A-Za-z0-9._%+@:,/-]+$`)
	quotable  = regexp.MustCompile(`^[[:graph:]]+( [[:graph:]]+)*$`)
)

// grant returns the commands, on one line, by which an administrator gives the requester the right to act as a user. They
// are empty where a name could mean something else to a shell, because the requester may have chosen it for that.
//
// The role has the name of the whole email: the role of somebody else's email must not be taken for it. It may be there
// already, so the second command does not depend on the first.
func grant(requester authenticationv1.UserInfo, email string) string {
	email = strings.ToLower(email)
	flag, bound := "--user", requester.Username
	if namespace, name, err := serviceaccount.SplitUsername(requester.Username); err == nil {
		flag, bound = "--serviceaccount", namespace+":"+name
	}
	word, ok := shellWord(bound)
	if !ok || !plainEmail.MatchString(email) {
		return ""
	}
	role := "warrantgate:impersonate:" + email
	digest := sha256.Sum256([]byte(requester.Username))
	return fmt.Sprintf("kubectl create clusterrole %[1]s --verb=impersonate --resource=users --resource-name=%[2]s; "+
		"kubectl create clusterrolebinding %[1]s:%[3]s --clusterrole=%[1]s %[4]s=%[5]s",
		role, email, hex.EncodeToString(digest[:4]), flag, word)
}

// shellWord returns what a shell takes for the value, if it can be written so that it certainly does.
func shellWord(value string) (string, bool) {
	if plainWord.MatchString(value) {
		return value, true
	}
	return "'" + value + "'", quotable.MatchString(value) && !strings.Contains(value, "'")
}
