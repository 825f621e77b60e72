package workspace

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks"
)

// RewritePolicyName is the name of the MutatingAdmissionPolicy that rewrites owners and drops warrants, and of its binding.
const RewritePolicyName = "warrantgate-owner-rewrite"

// Policies returns the admission policies and their bindings for the workspace root. kcp v0.32 and later evaluate them, even while no
// warrantgate runs. Gates in the mode Off are left out, and so are mutating policies in the mode Warn, because they cannot warn.
func Policies(config v1beta1.Workspace) []client.Object {
	return append(MutatingPolicies(config), integrityPolicies(config)...)
}

// MutatingPolicies returns the policies that change Workspaces, and their bindings.
func MutatingPolicies(config v1beta1.Workspace) []client.Object {
	return append(RewritePolicy(config), restorePolicy(config)...)
}

// RewritePolicy returns the policy that rewrites the owners of plain service accounts and drops an administrator's warrant of other users,
// and its binding. It handles only three texts: that which kcp writes for the token of a service account with its home as the only scope, that
// for a service account that somebody impersonated in the logical cluster that contains the Workspace, and that for a user without scopes whose
// request came through an APIExport's virtual workspace. All other owners are left to the gate OwnerRewrite.
//
// It fails closed like the gate. Its expressions cannot fail: they are defined for all inputs, and the size of the input is limited.
//
// It also answers a canary: it removes kcp.CanaryAnnotation with the value kcp.PolicyCanary from a Workspace that is created as a
// dry run. If the annotation is removed, kcp evaluates the policy.
func RewritePolicy(config v1beta1.Workspace) []client.Object {
	if config.OwnerRewrite.Mode != v1beta1.Enforce {
		return nil
	}
	owner, createdBy := celRewritten()
	return mutatingPolicy(RewritePolicyName, []admissionregistrationv1.MatchCondition{
		{Name: "updated-by-the-system", Expression: orCanary("request.operation == 'UPDATE' && " + celSystem)},
		{Name: "placed-in-a-logical-cluster", Expression: orCanary(celPlaced)},
		{Name: "owner-is-plain", Expression: orCanary(celPlainOwner)},
	}, []admissionregistrationv1.Variable{
		{Name: "lent", Expression: celLent(celOwner)},
		{Name: "part", Expression: celOwner + ".split('\"')"},
		{Name: "account", Expression: fmt.Sprintf("variables.part[%d].split(':')", accountPart)},
		{Name: "impersonated", Expression: fmt.Sprintf("variables.part[%d] == 'groups'", accountPart+2)},
		{Name: "home", Expression: fmt.Sprintf("variables.impersonated ? %s : variables.part[%d]", celImpersonatedHome("variables.part"), homePart)},
	}, fmt.Sprintf("%[1]s ? [%[2]s] : variables.lent ? [%[3]s, %[6]s] : [%[4]s, %[5]s, %[6]s]",
		celPolicyCanary, celPatch("remove", kcp.CanaryAnnotation, ""),
		celPatch("replace", kcp.OwnerAnnotation, celWithoutWarrant(celOwner)),
		celPatch("replace", kcp.OwnerAnnotation, owner), celPatch("add", kcp.CreatedByAnnotation, createdBy),
		celPatch("add", kcp.RewrittenByAnnotation, "'"+kcp.RewrittenByPolicy+"'")))
}

// mutatingPolicy returns a policy for the creation and update of Workspaces, and its binding. The patch is a list of JSONPatch.
func mutatingPolicy(
	name string, conditions []admissionregistrationv1.MatchCondition, variables []admissionregistrationv1.Variable, patch string,
) []client.Object {
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      ptr.To(admissionregistrationv1.Fail),
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy: ptr.To(admissionregistrationv1.Equivalent),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: workspaceRules(admissionregistrationv1.Create, admissionregistrationv1.Update)[0],
				}},
			},
			MatchConditions: conditions,
			Variables:       variables,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType: admissionregistrationv1.PatchTypeJSONPatch,
				JSONPatch: &admissionregistrationv1.JSONPatch{Expression: patch},
			}},
		},
	}
	policy.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"))
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}
	binding.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"))
	return []client.Object{policy, binding}
}

// maxPlainOwner limits the size of an owner that the policy reads, so that no expression exceeds the API server's cost limits. What
// kcp writes for a service account of the longest names is about half of that.
const maxPlainOwner = 4096

// Patterns of names without any character that JSON escapes. celPlain checks their maximum lengths, because a counted repetition makes
// a regular expression large.
const (
	dnsLabel     = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	dnsSubdomain = dnsLabel + `([.]` + dnsLabel + `)*`
	clusterName  = `[a-z0-9][-a-z0-9]*[a-z0-9]`
	plainText    = `[-._=A-Za-z0-9]+`
	maxLabel     = validation.DNS1123LabelMaxLength
	maxSubdomain = validation.DNS1123SubdomainMaxLength
)

// plainOwner matches what kcp writes for the token of a service account, and impersonatedOwner what it writes for a service account that is
// impersonated by its name alone. They cannot compare that names are repeated, nor their lengths.
func plainOwner() string {
	text := regexp.QuoteMeta
	pattern := plainAccount(text(`","uid":"`)+plainText) +
		text(`"`+identity.ClusterNameKey+`":["`) + clusterName + text(`"],"`+identity.ScopesKey+`":["cluster:`) + clusterName + text(`"]`)
	for _, key := range []string{
		user.CredentialIDKey, serviceaccount.NodeNameKey, serviceaccount.NodeUIDKey, serviceaccount.PodNameKey, serviceaccount.PodUIDKey,
	} {
		pattern += `(` + text(`,"`+key+`":["`) + plainText + text(`"]`) + `)?`
	}
	return `^` + pattern + text(`}}`) + `$`
}

func impersonatedOwner() string {
	text := regexp.QuoteMeta
	return `^` + plainAccount("") + text(`"`+identity.ScopesKey+`":["cluster:`) + clusterName + text(`"]}}`) + `$`
}

// plainAccount matches the name and groups of a service account.
func plainAccount(uid string) string {
	text := regexp.QuoteMeta
	return text(`{"username":"`+serviceaccount.ServiceAccountUsernamePrefix) + dnsLabel + `:` + dnsSubdomain + uid +
		text(`","groups":["`+serviceaccount.AllServiceAccountsGroup+`","`+serviceaccount.ServiceAccountGroupPrefix) + dnsLabel +
		text(`","`+user.AllAuthenticated+`"],"extra":{`)
}

// Indexes of the parts of a plain owner that is split at its quotes, and of an impersonated one, which has no UID and no home.
const (
	accountPart, uidPart, groupPart, homePart, scopePart = 3, 7, 13, 21, 25

	impersonatedGroupPart, impersonatedScopePart = 9, 17
)

// celImpersonatedHome is the scope of an impersonated owner, which is its home.
func celImpersonatedHome(part string) string {
	return fmt.Sprintf("%s[%d].substring(%d)", part, impersonatedScopePart, len("cluster:"))
}

// celParent is the logical cluster that contains the Workspace. Only the stored object has the true one.
var celParent = fmt.Sprintf("(oldObject == null ? '' : %s)", annotation("oldObject", logicalcluster.AnnotationKey))

// celPlain is true of the owners that the policy rewrites. It uses a list of one element as a variable, because match conditions have
// no variables.
func celPlain(owner string) string {
	return fmt.Sprintf(`[%s].exists(owner, size(owner) <= %d && (%s || %s))`, owner, maxPlainOwner,
		celOf(plainOwner(), groupPart, fmt.Sprintf("part[%d]", homePart), fmt.Sprintf("part[%d].substring(%d)", scopePart, len("cluster:"))),
		celOf(impersonatedOwner(), impersonatedGroupPart, celImpersonatedHome("part"), celParent))
}

// celOf is true of an owner that matches a pattern, in which names are repeated as in kcp's owners: the namespace in the group at that index, and the
// home in both expressions.
func celOf(pattern string, groupPart int, home, sameHome string) string {
	return fmt.Sprintf(`owner.matches(r'%[1]s') && [owner.split('"')].exists(part, `+
		`[part[%[2]d].split(':')].exists(account, size(account[2]) <= %[5]d && size(account[3]) <= %[6]d && `+
		`part[%[3]d] == '%[4]s' + account[2]) && [%[7]s].exists(home, size(home) <= %[5]d && home == %[8]s && `+
		`[%[9]s].exists(cluster, size(cluster) <= %[5]d && cluster.matches(r'^%[10]s$') && cluster != home)))`,
		pattern, accountPart, groupPart, serviceaccount.ServiceAccountGroupPrefix, maxLabel, maxSubdomain,
		home, sameHome, annotation("object", kcp.ClusterAnnotation), clusterName)
}

// celNoRequiredGroups is true of Workspaces that require no groups.
var celNoRequiredGroups = annotation("object", kcp.RequiredGroupsAnnotation) + " == ''"

// lentOwner matches what kcp writes for a user whose request came through an APIExport's virtual workspace: kcp adds one warrant, that of an
// administrator in the consumer's logical cluster. No text of the user has a character that JSON escapes, or a blank, with which it could be
// an unusual spelling.
func lentOwner() string {
	const cluster, value = "thecluster", `"[!#-%\x27-;=?-\[\]-~]+"`
	text := regexp.QuoteMeta
	warrant := identity.Warrant{
		User: serviceaccount.MakeUsername("default", "rest"), Groups: []string{"system:kcp:admin"},
		Extra: map[string][]string{identity.ClusterNameKey: {cluster}},
	}
	pattern := text(`{"username":`) + value + `(` + text(`,"uid":`) + value + `)?(` + text(`,"groups":[`) + value + `(,` + value + `)*` + text(`]`) + `)?` +
		text(`,"extra":{`) + `(` + text(`"`+user.CredentialIDKey+`":[`) + value + text(`],`) + `)?` +
		strings.Replace(text(`"`+identity.WarrantKey+`":[`+strconv.Quote(warrant.String())+`]`), cluster, clusterName, 1)
	return `^` + pattern + text(`}}`) + `$`
}

// celLent is true of the owners that lose a warrant by the policy. Service accounts and administrators are left to the webhook.
func celLent(owner string) string {
	return fmt.Sprintf(`[%[1]s].exists(owner, size(owner) <= %[2]d && owner.matches(r'%[3]s') && !owner.startsWith('{"username":"%[4]s') && `+
		`!owner.split('"extra":')[0].matches('%[5]s'))`,
		owner, maxPlainOwner, lentOwner(), serviceaccount.ServiceAccountUsernamePrefix, privilegedPattern())
}

// celWithoutWarrant is an owner for which celLent is true, without the warrant: up to it, with the braces that are closed after it.
func celWithoutWarrant(owner string) string {
	const first, further = `,"extra":{"` + identity.WarrantKey + `":`, `,"` + identity.WarrantKey + `":`
	return fmt.Sprintf(`(%[1]s.contains('%[2]s') ? %[1]s.split('%[2]s')[0] + '}' : %[1]s.split('%[3]s')[0] + '}}')`, owner, first, further)
}

// celPlainOwner is true of the owners that the policy changes.
var celPlainOwner = fmt.Sprintf("(%s && %s || %s)", celNoRequiredGroups, celPlain(celOwner), celLent(celOwner))

// celForPolicy is true of updates whose owner the policy rewrites. kcp calls mutating webhooks before it evaluates mutating policies, so
// the webhook needs this condition to leave these owners to the policy.
func celForPolicy() string {
	return celSystem + " && " + celPlainOwner
}

// celPolicyCanary is true of the canary that the policy answers, and celWebhookCanary of that of OwnerRewrite.
var celPolicyCanary, celWebhookCanary = celCanary(kcp.PolicyCanary), celCanary(kcp.WebhookCanary)

// celCanary is true of a canary. A stored object is never one.
func celCanary(value string) string {
	return fmt.Sprintf("(request.operation == 'CREATE' && has(request.dryRun) && request.dryRun && %s == '%s')",
		annotation("object", kcp.CanaryAnnotation), value)
}

func orCanary(condition string) string { return fmt.Sprintf("%s || (%s)", celPolicyCanary, condition) }

// celPatch is one operation of a JSON patch on an annotation. Its value is an expression, "" if it has none.
func celPatch(operation, key, value string) string {
	if value != "" {
		value = ", value: " + value
	}
	return fmt.Sprintf("JSONPatch{op: '%s', path: '%s'%s}", operation, webhooks.AnnotationPath(key), value)
}

// celByPolicy is true of updates in which the policy has rewritten the owner.
var celByPolicy = fmt.Sprintf("%s != (oldObject == null ? '' : %s)",
	annotation("object", kcp.RewrittenByAnnotation), annotation("oldObject", kcp.RewrittenByAnnotation))

// celRewritten returns the expressions for the new owner and for the creator of the workspace. They are the result of identity.Rewrite for
// plain owners with placeholder names, in which the placeholders are replaced by expressions.
func celRewritten() (owner, createdBy string) {
	const home, namespace, name, uid, newCluster = "thehome", "thenamespace", "thename", "theuid", "thenewcluster"
	account := identity.Owner{
		Username: serviceaccount.MakeUsername(namespace, name), UID: uid,
		Groups: append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated),
		Extra:  map[string][]string{identity.ClusterNameKey: {home}, identity.ScopesKey: {"cluster:" + home}},
	}
	rewritten, report := identity.Rewrite(account.String(), home, newCluster, "", identity.Policy{})
	account.UID = ""
	delete(account.Extra, identity.ClusterNameKey)
	impersonated, _ := identity.Rewrite(account.String(), home, newCluster, "", identity.Policy{})
	expression := func(text string) string {
		text = strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text)
		return "'" + strings.NewReplacer(
			home, "' + variables.home + '", uid, fmt.Sprintf("' + variables.part[%d] + '", uidPart),
			newCluster, "' + "+annotation("object", kcp.ClusterAnnotation)+" + '",
			namespace, "' + variables.account[2] + '", name, "' + variables.account[3] + '",
		).Replace(text) + "'"
	}
	return fmt.Sprintf("variables.impersonated ? %s : %s", expression(impersonated.String()), expression(rewritten.String())), expression(report.CreatedBy)
}

// integrityPolicies returns the gate of owner integrity, a policy that the API server evaluates itself (KEP-3488), and its binding. It protects
// the recorded owner and the annotations that it is derived from. kcp checks the owner only when a Workspace is created; a PATCH before the
// scheduler's update would let kcp act as any user. It fails closed. DenialNotice reports what it denies.
func integrityPolicies(config v1beta1.Workspace) []client.Object {
	mode := config.OwnerIntegrity.Mode
	if mode == v1beta1.Off {
		return nil
	}
	return webhooks.ValidatingPolicy(mode, webhooks.Hook{
		Name: IntegrityPolicyName, Rules: workspaceRules(admissionregistrationv1.Create, admissionregistrationv1.Update),
		Conditions: []admissionregistrationv1.MatchCondition{{Name: "not-by-the-system", Expression: celNotSystem}},
	}, []admissionregistrationv1.Variable{
		{Name: "before", Expression: celBefore},
		{Name: "after", Expression: celAfter},
		{Name: "claimed", Expression: celClaimed},
		{Name: "changed", Expression: changedKeys("variables.before", "variables.after") + " + " + claimedKeys("variables.after", "variables.claimed")},
		// On update, the stored object has the logical cluster.
		{Name: "cluster", Expression: fmt.Sprintf("(request.operation == 'CREATE' ? variables.after : variables.before)[?'%s'].orValue('')", logicalcluster.AnnotationKey)},
		// On create, kcp sets the logical cluster for webhooks, but not for policies.
		{Name: "where", Expression: `variables.cluster == '' ? '' : ' in logical cluster "' + variables.cluster + '"'`},
		// Empty fields of a request are missing. A Workspace that is created with generateName may have no name yet.
		{Name: "user", Expression: "has(request.userInfo.username) ? request.userInfo.username : ''"},
		{Name: "name", Expression: "([object.metadata.?name.orValue(''), object.metadata.?generateName.orValue('')].filter(name, name != '') + [''])[0]"},
	}, []admissionregistrationv1.Validation{{
		Expression: "size(variables.changed) == 0",
		MessageExpression: fmt.Sprintf(`'user "' + variables.user + '" tried to change ' + variables.changed.join(', ') + `+
			`' of workspace "' + variables.name + '"' + variables.where + ('%s' in variables.changed ? ': %s; %s' : variables.claimed ? ': %s; %s' : ': %s; %s' + `+
			`(variables.changed.exists(key, key in variables.after) ? '%s' : '') + '%s')`,
			tooMany, whyTooMany, whatTooMany, whyClaimed, whatClaimed, whyGuarded, whatToDo, orLeaveOut, orAccess),
		Reason: ptr.To(metav1.StatusReasonForbidden),
	}})
}
