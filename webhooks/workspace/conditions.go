package workspace

import (
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

// Expressions in CEL by which the API server decides which requests are worth a call. They look at the text of the
// owner and may let too much through, never too little; the gates read the owner properly.
var (
	// owner is the recorded owner as text, "" where there is none.
	celOwner = annotation("object", kcp.OwnerAnnotation)

	// celPlaced is true of the one update in which kcp's scheduler picks the logical cluster.
	celPlaced = fmt.Sprintf("%s != '' && %s != (oldObject == null ? '' : %s)",
		annotation("object", kcp.ClusterAnnotation), annotation("object", kcp.ClusterAnnotation), annotation("oldObject", kcp.ClusterAnnotation))

	// celCurrent is true of updates that storage will take: the others end in a conflict after admission, and are sent
	// again. kcp's scheduler has some of these, as it goes by a cache.
	celCurrent = "!has(object.metadata.resourceVersion) || object.metadata.resourceVersion == '' || " +
		"object.metadata.resourceVersion == oldObject.metadata.resourceVersion"

	// celForeign is true of owners that may be foreign: service accounts and whoever carries a scope. Inside a
	// warrant the quotes are escaped, so the scopes of warrants do not count. In another spelling than kcp's, with blanks
	// around what structures JSON or with other escapes than of quotes, an owner may be anybody's.
	celForeign = fmt.Sprintf(`(%[1]s.contains('"system:serviceaccount:') || %[1]s.contains('"authentication.kcp.io/scopes":') || `+
		`%[1]s.matches(r'%[2]s'))`, celOwner, unusualSpelling)

	// celUnhandled is true of notable owners that nobody rewrites.
	celUnhandled = fmt.Sprintf("!%s && %s", celForeign, celNotable)

	// celUnchanged is true of updates in which the policy has not rewritten the owner.
	celUnchanged = fmt.Sprintf("%[1]s == (oldObject == null ? '' : %[2]s)",
		annotation("object", kcp.CreatedByAnnotation), annotation("oldObject", kcp.CreatedByAnnotation))

	// celNotable is true of owners that carry an administrator's group and of those that kcp did not write.
	celNotable = fmt.Sprintf(`(!%s.startsWith('{"username":"') || %s.matches('%s'))`, celOwner, celOwner, privilegedPattern())

	// celSystem is true of requests by kcp's own controllers, and celNotSystem of those by anybody else.
	celSystem    = fmt.Sprintf("(has(request.userInfo.groups) && request.userInfo.groups.exists(group, group == '%s'))", systemGroup)
	celNotSystem = "!" + celSystem

	celBefore = "(oldObject == null ? {} : oldObject.metadata.?annotations.orValue({}))"
	celAfter  = "(object == null ? {} : object.metadata.?annotations.orValue({}))"

	// celChanged is the list of guarded annotations that a request changes.
	celChanged = changedKeys(celBefore, celAfter)
)

// unusualSpelling is a regular expression of what JSON may have and kcp does not write.
const unusualSpelling = `[ \t\r\n]["{}:,]|["{}:,\[\]][ \t\r\n]|\\[^"\\]`

func annotation(object, key string) string {
	return fmt.Sprintf("%s.metadata.?annotations[?'%s'].orValue('')", object, key)
}

// changedKeys is guardedChanges in CEL, over two expressions of maps.
func changedKeys(before, after string) string {
	guarded := fmt.Sprintf("(key.startsWith('%s') || key in (request.operation == 'CREATE' ? %s : %s))",
		annotationPrefix, celList(guardedOnCreate), celList(guardedOnUpdate))
	moved := fmt.Sprintf("(request.operation == 'UPDATE' && key == '%s')", logicalcluster.AnnotationKey)
	return fmt.Sprintf("(%[1]s.map(key, key).filter(key, (%[3]s || %[4]s) && !(key in %[2]s && %[2]s[key] == %[1]s[key])) + "+
		"%[2]s.map(key, key).filter(key, %[3]s && !(key in %[1]s)))", after, before, guarded, moved)
}

// privilegedPattern is a regular expression of the groups that carry an administrator's power. The quote around a
// group is escaped inside a warrant, and the escapes are escaped again the deeper the warrant is nested.
func privilegedPattern() string {
	groups, prefixes := identity.PrivilegedGroups()
	alternatives := make([]string, 0, len(groups)+len(prefixes))
	for _, group := range groups {
		alternatives = append(alternatives, group+`[\\"]`)
	}
	alternatives = append(alternatives, prefixes...)
	// CEL reads the text as a string literal first, which halves the backslashes.
	return strings.ReplaceAll(`"(`+strings.Join(alternatives, "|")+`)`, `\`, `\\`)
}

func celList(values []string) string {
	return "['" + strings.Join(values, "', '") + "']"
}
