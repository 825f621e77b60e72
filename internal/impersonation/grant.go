package impersonation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
)

// accessRole is kcp's own ClusterRole, in every workspace, for access to it at all.
const accessRole = "system:kcp:workspace:access"

var (
	// PlainEmail matches emails that can be part of the name of a ClusterRole and need no quotes in a shell.
	PlainEmail = regexp.MustCompile(`^[a-z0-9._+@-]+$`)
	// PlainWord matches words that need no quotes in a shell.
	PlainWord = regexp.MustCompile(`^[A-Za-z0-9._%+@:,/-]+$`)
	// Quotable matches values on one line that a shell reads as they are within single quotes, unless they have one themselves.
	Quotable = regexp.MustCompile(`^[[:graph:]]+( [[:graph:]]+)*$`)
)

// grant returns the commands, on one line, by which an administrator permits the requester to impersonate the user. It returns ""
// where a shell could read a name as something else, because the requester may have chosen the name for that.
//
// The role is named after the whole email, and the binding after the whole email and user, so that the commands never change objects
// that belong to others. The second command does not depend on the first, because the role may exist already.
//
// On kcp the commands are for the provider's workspace, where an identity of another workspace needs access as well.
func (v Verdict) grant() string {
	commands, subject := v.impersonationCommands()
	switch {
	case commands == "" || v.provider == "":
		return commands
	case v.known.Username == user.Anonymous:
		return "" // nobody in particular
	case strings.HasPrefix(subject, "--user="):
		commands += fmt.Sprintf("; kubectl create clusterrolebinding %s --clusterrole=%s %s", v.bindingName("warrantgate:access"), accessRole, subject)
	}
	return fmt.Sprintf("kubectl ws :%s; %s", v.provider, commands)
}

func (v Verdict) impersonationCommands() (commands, subject string) {
	email := ownership.LowerEmail(v.email)
	flag, bound := "--user", v.known.Username
	if namespace, name, err := serviceaccount.SplitUsername(v.known.Username); err == nil {
		flag, bound = "--serviceaccount", namespace+":"+name
	}
	word, ok := shellWord(bound)
	if !ok || !PlainEmail.MatchString(email) {
		return "", ""
	}
	role := "warrantgate:impersonate:" + email
	subject = flag + "=" + word
	return fmt.Sprintf("kubectl create clusterrole %[1]s --verb=impersonate --resource=users --resource-name=%[2]s; "+
		"kubectl create clusterrolebinding %[3]s --clusterrole=%[1]s %[4]s",
		role, email, v.bindingName(role), subject), subject
}

// bindingName is the name of the ClusterRoleBinding that binds the requester to a role, as a word of a shell. Names of RBAC objects
// hold neither a slash nor a percent sign.
//
// On Kubernetes it contains the name of the user, because an admission policy prints the same commands and CEL has no hash function.
// On kcp, which has no such policy, names of users are long and there are two bindings, so a digest keeps the message short.
func (v Verdict) bindingName(role string) string {
	if v.provider != "" {
		sum := sha256.Sum256([]byte(v.known.Username))
		return role + ":" + hex.EncodeToString(sum[:4])
	}
	word, _ := shellWord(role + ":" + strings.NewReplacer("/", "-", "%", "-").Replace(v.known.Username))
	return word
}

// PermissionInWords names the permission to impersonate a user.
const PermissionInWords = "verb impersonate on resource users, by the name of this user in lower case"

// grantInWords says what an administrator has to grant where there are no commands.
func (v Verdict) grantInWords() string {
	switch {
	case v.provider == "":
		return PermissionInWords
	case v.known.Username == user.Anonymous:
		return PermissionInWords + fmt.Sprintf(", to an identity that is not confined to other workspaces as %q is (an impersonated one always is)",
			message.Value(v.requester.Username))
	}
	return PermissionInWords + ", and ClusterRole " + accessRole
}

// shellWord returns the word that a shell reads as the value, if there certainly is one.
func shellWord(value string) (string, bool) {
	if PlainWord.MatchString(value) {
		return value, true
	}
	return "'" + value + "'", Quotable.MatchString(value) && !strings.Contains(value, "'")
}
