package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
)

// accessRole is kcp's own ClusterRole, in every workspace, for access to it at all.
const accessRole = "system:kcp:workspace:access"

var (
	// plainEmail is what can be part of the name of a ClusterRole and needs no quotes in a shell.
	plainEmail = regexp.MustCompile(`^[a-z0-9._+@-]+$`)
	// plainWord needs no quotes in a shell. quotable is what one line can hold and single quotes make harmless, unless it
	// has one itself.
	plainWord = regexp.MustCompile(`^[A-Za-z0-9._%+@:,/-]+$`)
	quotable  = regexp.MustCompile(`^[[:graph:]]+( [[:graph:]]+)*$`)
)

// grant returns the commands, on one line, by which an administrator gives an identity the right to act as a user. They
// are empty where a name could mean something else to a shell, because the requester may have chosen it for that.
//
// The role has the name of the whole email, and its binding that of the whole user besides: what is somebody else's must not be
// taken for it. The role may be there already, so the second command does not depend on the first.
//
// On kcp the commands are for the provider's workspace, where an identity of another workspace needs access as well.
func (g *Gate) grant(known authenticationv1.UserInfo, email string) string {
	commands, subject := g.impersonationCommands(known, email)
	switch {
	case commands == "" || g.provider == "":
		return commands
	case known.Username == user.Anonymous:
		return "" // nobody in particular
	case strings.HasPrefix(subject, "--user="):
		commands += fmt.Sprintf("; kubectl create clusterrolebinding %s --clusterrole=%s %s", g.bindingName("warrantgate:access", known), accessRole, subject)
	}
	return fmt.Sprintf("kubectl ws :%s; %s", g.provider, commands)
}

func (g *Gate) impersonationCommands(known authenticationv1.UserInfo, email string) (commands, subject string) {
	email = ownership.LowerEmail(email)
	flag, bound := "--user", known.Username
	if namespace, name, err := serviceaccount.SplitUsername(known.Username); err == nil {
		flag, bound = "--serviceaccount", namespace+":"+name
	}
	word, ok := shellWord(bound)
	if !ok || !plainEmail.MatchString(email) {
		return "", ""
	}
	role := "warrantgate:impersonate:" + email
	subject = flag + "=" + word
	return fmt.Sprintf("kubectl create clusterrole %[1]s --verb=impersonate --resource=users --resource-name=%[2]s; "+
		"kubectl create clusterrolebinding %[3]s --clusterrole=%[1]s %[4]s",
		role, email, g.bindingName(role, known), subject), subject
}

// bindingName is the name of a ClusterRoleBinding, as a word of a shell, by which a user whose name is one is bound to a role. A
// name of RBAC holds neither slash nor percent sign.
//
// On Kubernetes it is that of the user, as an admission policy prints the same commands and CEL has no hash function. On kcp, which has
// no such policy, global names are long and there are two bindings: a digest keeps the commands within what a message may hold.
func (g *Gate) bindingName(role string, known authenticationv1.UserInfo) string {
	if g.provider != "" {
		sum := sha256.Sum256([]byte(known.Username))
		return role + ":" + hex.EncodeToString(sum[:4])
	}
	word, _ := shellWord(role + ":" + strings.NewReplacer("/", "-", "%", "-").Replace(known.Username))
	return word
}

// permissionInWords is what permits to impersonate a user.
const permissionInWords = "verb impersonate on resource users, by the name of this user in lower case"

// grantInWords says what an administrator has to grant where there are no commands.
func (g *Gate) grantInWords(requester, known authenticationv1.UserInfo) string {
	switch {
	case g.provider == "":
		return permissionInWords
	case known.Username == user.Anonymous:
		return permissionInWords + fmt.Sprintf(", to an identity that is not confined to other workspaces as %q is (an impersonated one always is)",
			message.Value(requester.Username))
	}
	return permissionInWords + ", and ClusterRole " + accessRole
}

// shellWord returns what a shell takes for the value, if it can be written so that it certainly does.
func shellWord(value string) (string, bool) {
	if plainWord.MatchString(value) {
		return value, true
	}
	return "'" + value + "'", quotable.MatchString(value) && !strings.Contains(value, "'")
}
