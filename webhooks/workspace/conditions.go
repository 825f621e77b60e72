package workspace

import (
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
)

// CEL expressions that select the requests for which the webhooks are called. They match the text of the owner, and may select too
// many requests but never too few; the gates decode the owner.
var (
	// celOwner is the recorded owner as text, "" if there is none.
	celOwner = annotation("object", kcp.OwnerAnnotation)

	// celPlaced is true of the one update in which kcp's scheduler sets the logical cluster.
	celPlaced = fmt.Sprintf("%s != '' && %s != (oldObject == null ? '' : %s)",
		annotation("object", kcp.ClusterAnnotation), annotation("object", kcp.ClusterAnnotation), annotation("oldObject", kcp.ClusterAnnotation))

	// celCurrent is false of updates of an old resource version, which end in a conflict after admission and are sent again. kcp's
	// scheduler sends some of them, because it reads from a cache.
	celCurrent = "!has(object.metadata.resourceVersion) || object.metadata.resourceVersion == '' || " +
		"object.metadata.resourceVersion == oldObject.metadata.resourceVersion"

	// celForeign is true of owners that may be foreign: service accounts and users with a scope. Quotes inside a warrant are
	// escaped, so scopes of warrants do not match. It is also true of JSON that kcp does not write, with white space between tokens
	// or escapes of other characters than quotes, because its text says nothing about the owner.
	celForeign = fmt.Sprintf(`(%[1]s.contains('"system:serviceaccount:') || %[1]s.contains('"authentication.kcp.io/scopes":') || `+
		`%[1]s.matches(r'%[2]s'))`, celOwner, unusualSpelling)

	// celChangeable is true of owners that the gate may change: those that may be foreign, and all others that have a warrant.
	celChangeable = fmt.Sprintf(`(%s || %s.contains('%q:'))`, celForeign, celOwner, identity.WarrantKey)

	// celUnhandled is true of notable owners that are not rewritten.
	celUnhandled = fmt.Sprintf("!%s && %s", celForeign, celNotable)

	// celUnchanged is true of updates in which the policy has not rewritten the owner.
	celUnchanged = fmt.Sprintf("%[1]s == (oldObject == null ? '' : %[2]s)",
		annotation("object", kcp.CreatedByAnnotation), annotation("oldObject", kcp.CreatedByAnnotation))

	// celNotable is true of owners with a group of administrators, of owners that kcp did not write, and of owners that are too large to be
	// read. The regular expression would exceed the API server's cost limit on larger ones, and the failure would skip the webhook.
	celNotable = fmt.Sprintf(`(!%[1]s.startsWith('{"username":"') || size(%[1]s) > %[2]d || %[1]s.matches('%[3]s'))`,
		celOwner, identity.MaxOwnerBytes, privilegedPattern())

	// celClaimed is true of requests that claim to be system:masters and may be anybody's: see claimsSystem.
	celClaimed = fmt.Sprintf("(%s && (%s || %s))", celMasters, celHasWarrant, celOfLifecycle)

	// celSystem is true of requests by kcp's own controllers and the administrators of a shard, celNotSystem of all others.
	celSystem    = fmt.Sprintf("(%s && !%s && !%s)", celMasters, celHasWarrant, celOfLifecycle)
	celNotSystem = "!" + celSystem
	// celHasWarrant is true of requests through the virtual workspace of an APIExport, celOfLifecycle of those by initializers and
	// terminators. To compare each group would take quadratic time. A group that contains a quote can only make it true of more requesters.
	celHasWarrant  = fmt.Sprintf("(has(request.userInfo.extra) && '%s' in request.userInfo.extra)", identity.WarrantKey)
	celOfLifecycle = fmt.Sprintf(`['"' + request.userInfo.groups.join('"')].exists(groups, groups.contains('"%s'))`,
		strings.Join(identity.LifecyclePrefixes(), `') || groups.contains('"`))
	celMasters = fmt.Sprintf("(has(request.userInfo.groups) && '%s' in request.userInfo.groups)", user.SystemPrivilegedGroup)

	celBefore = "(oldObject == null ? {} : oldObject.metadata.?annotations.orValue({}))"
	celAfter  = "(object == null ? {} : object.metadata.?annotations.orValue({}))"

	// celSet is the list of guarded annotations and fields that a request changes.
	celSet = comparedKeys(celBefore, celAfter, setKeys(celBefore, celAfter)) + " + " + claimedKeys(celAfter, celClaimed)
)

// unusualSpelling matches JSON that is valid and that kcp does not write.
const unusualSpelling = `[ \t\r\n]["{}:,]|["{}:,\[\]][ \t\r\n]|\\[^"\\]`

func annotation(object, key string) string {
	return fmt.Sprintf("%s.metadata.?annotations[?'%s'].orValue('')", object, key)
}

// changedKeys is guardedChanges in CEL, over two expressions of maps.
func changedKeys(before, after string) string {
	return comparedKeys(before, after, setKeys(before, after)+" + "+leftOutKeys(before, after, celGuarded))
}

// claimedKeys is claimedChanges in CEL, over expressions of the annotations and of celClaimed.
func claimedKeys(after, claimed string) string {
	changed := make([]string, len(specOfSystem))
	for i, field := range specOfSystem {
		changed[i] = fmt.Sprintf("(object.?%[1]s.orValue('') == (oldObject == null ? '' : oldObject.?%[1]s.orValue('')) ? [] : ['%[2]s'])",
			strings.ReplaceAll(field, ".", ".?"), field)
	}
	return fmt.Sprintf("(!%s ? [] : (request.operation == 'CREATE' ? %s : []).filter(key, key in %s) + %s)",
		claimed, celList(keptFromSystem), after, strings.Join(changed, " + "))
}

// comparedKeys is a list of keys if there are few enough annotations, and tooMany otherwise.
func comparedKeys(before, after, keys string) string {
	return fmt.Sprintf("(size(%[1]s) > %[3]d || size(%[2]s) > %[3]d ? (%[1]s == %[2]s ? [] : ['%[4]s']) : %[5]s)", after, before, maxAnnotations, tooMany, keys)
}

// setKeys are the guarded annotations that a request sets to another value.
func setKeys(before, after string) string {
	moved := fmt.Sprintf("(request.operation == 'UPDATE' && key == '%s')", logicalcluster.AnnotationKey)
	return fmt.Sprintf("%[1]s.map(key, key).filter(key, (%[3]s || %[4]s) && !(key in %[2]s && %[2]s[key] == %[1]s[key]))", after, before, celGuarded, moved)
}

// leftOutKeys are the annotations that a request leaves out, of those whose key an expression is true of.
func leftOutKeys(before, after, which string) string {
	return fmt.Sprintf("%[2]s.map(key, key).filter(key, %[3]s && !(key in %[1]s))", after, before, which)
}

// celGuarded is true of the key of a guarded annotation.
var celGuarded = fmt.Sprintf("(key.startsWith('%s') || key in (request.operation == 'CREATE' ? %s : %s))",
	annotationPrefix, celList(guardedOnCreate), celList(guardedOnUpdate))

// privilegedPattern matches the groups of administrators. The quote around a group is escaped inside a warrant, and the escapes are
// escaped again inside a nested warrant.
func privilegedPattern() string {
	groups, prefixes := identity.PrivilegedGroups()
	alternatives := make([]string, 0, len(groups)+len(prefixes))
	for _, group := range groups {
		alternatives = append(alternatives, group+`[\\"]`)
	}
	alternatives = append(alternatives, prefixes...)
	// A backslash is written twice in a CEL string literal.
	return strings.ReplaceAll(`"(`+strings.Join(alternatives, "|")+`)`, `\`, `\\`)
}

func celList(values []string) string {
	return "['" + strings.Join(values, "', '") + "']"
}
