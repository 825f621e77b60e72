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

// accessRole is kcp's ClusterRole for access to a workspace. It exists in every workspace.
const accessRole = "system:kcp:workspace:access"

// QuoteInWord replaces a single quote in a word of a shell that is within single quotes.
const QuoteInWord = `'\''`

var (
	// RoleEmail matches emails that are valid in the name of a ClusterRole and that commands show as they are.
	RoleEmail = regexp.MustCompile(`^[^\pC\pZ/%]+$`)
	// PlainWord matches words that need no quotes in a shell.
	PlainWord = regexp.MustCompile(`^[A-Za-z0-9._%+@:,/-]+$`)
	// Quotable matches values that commands show as they are: in one line, without characters that are invisible or change the direction of a text.
	Quotable = regexp.MustCompile(`^[^\pC\pZ]+( [^\pC\pZ]+)*$`)
)

// grant returns the commands, on one line, for an administrator to permit the requester to impersonate the user. It returns "" if the commands
// would not show a name as it is, because the requester may have chosen the name for that purpose.
//
// The name of the role contains the whole email, and the name of the binding the whole email and user, so that the commands never
// change objects of others. The second command does not depend on the first, because the role may already exist.
//
// On kcp the commands apply to the provider's workspace, where an identity of another workspace also needs workspace access.
func (v Verdict) grant() string {
	commands, subject := v.impersonationCommands()
	switch {
	case commands == "" || v.provider == "":
		return commands
	case v.known.Username == user.Anonymous:
		return "" // no unique identity
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
	if !Quotable.MatchString(bound) || !RoleEmail.MatchString(email) {
		return "", ""
	}
	role := "warrantgate:impersonate:" + email
	subject = flag + "=" + ShellWord(bound)
	return fmt.Sprintf("kubectl create clusterrole %[1]s --verb=impersonate --resource=users --resource-name=%[2]s; "+
		"kubectl create clusterrolebinding %[3]s --clusterrole=%[1]s %[4]s",
		ShellWord(role), ShellWord(email), v.bindingName(role), subject), subject
}

// bindingName returns the name of the ClusterRoleBinding of the requester for a role, quoted for a shell. Names of RBAC objects
// cannot contain a slash or a percent sign.
//
// On Kubernetes it contains the user name, because an admission policy prints the same commands and CEL has no hash function. On
// kcp there is no such policy. User names are long there and there are two bindings, so a digest keeps the message short.
func (v Verdict) bindingName(role string) string {
	if v.provider != "" {
		sum := sha256.Sum256([]byte(v.known.Username))
		return ShellWord(role + ":" + hex.EncodeToString(sum[:4]))
	}
	return ShellWord(role + ":" + strings.NewReplacer("/", "-", "%", "-").Replace(v.known.Username))
}

// PermissionInWords describes the permission to impersonate a user.
const PermissionInWords = "verb impersonate on resource users, by the name of this user in lower case"

// grantInWords describes the missing permissions, for messages without commands.
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

// ShellWord returns the value as a word of a command of a POSIX shell.
func ShellWord(value string) string {
	if PlainWord.MatchString(value) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", QuoteInWord) + "'"
}
