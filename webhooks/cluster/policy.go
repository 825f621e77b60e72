package cluster

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Policies returns the admission policies on CloudSigmaClusters, with their bindings: on spec.userEmail and on spec.region. Kubernetes evaluates
// them even while no warrantgate runs. A user that a Secret names is left to the gate, because a policy cannot read Secrets. There are no policies
// in the modes Warn and Off; in the mode Warn the gate also writes an Event, which a policy cannot.
//
// They are not for kcp, where the CEL authorizer checks permissions in the workspace of the requester, who is cluster-admin in it.
func Policies(config v1beta1.Cluster, regions []string) []client.Object {
	if config.Impersonation.Mode != v1beta1.Enforce {
		return nil
	}
	kinds := kindsOf(config.Impersonation)
	clusters := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.resource == clusterapi.CloudSigmaClusters })]
	return append(clusters.userPolicy(), clusters.regionPolicy(regions)...)
}

// userPolicy denies a spec.userEmail that the requester may not impersonate, or with blanks around it.
func (k kind) userPolicy() []client.Object {
	// With the name of the webhook, so that a denial has the same name.
	hook := k.hook("cluster", Path, v1beta1.Enforce, "", nil)
	hook.Conditions = []admissionregistrationv1.MatchCondition{{Name: "names-another-user-by-email", Expression: celNamesByEmail()}}
	return webhooks.ValidatingPolicy(v1beta1.Enforce, hook, celNotAllowed(k), []admissionregistrationv1.Validation{
		{
			Expression: "variables.trimmed", Reason: ptr.To(metav1.StatusReasonInvalid),
			MessageExpression: "variables.subject + ': ' + " + webhooks.CELString(clusterapi.BlanksAroundEmail),
			Message:           userEmailField + ": " + clusterapi.BlanksAroundEmail, // if the expression fails
		},
		{
			Expression:        "!variables.trimmed || variables.allowed", // an API server annotates one failure only
			MessageExpression: "variables.message", Reason: ptr.To(metav1.StatusReasonForbidden),
			Message: userEmailField + " names a user that the requester may not impersonate", // if the expression fails
		},
	})
}

// regionPolicy denies what ownership.CheckRegion does. The chart replaces the expression of the variable "regions".
func (k kind) regionPolicy(regions []string) []client.Object {
	hook := k.hook("region", Path, v1beta1.Enforce, "", nil)
	region := celText("object", "spec", "region")
	hook.Conditions = []admissionregistrationv1.MatchCondition{{
		Name: "names-another-region", Expression: fmt.Sprintf("%[1]s != '' && %[1]s != %[2]s", region, celText("oldObject", "spec", "region")),
	}}
	variables := append([]admissionregistrationv1.Variable{
		{Name: "region", Expression: region},
		{Name: "regions", Expression: "[" + strings.Join(quotedAll(regions), ",") + "]"},
	}, celSubject(k, regionField)...)
	quoted := webhooks.CELQuoted(webhooks.CELValue("variables.region"))
	return webhooks.ValidatingPolicy(v1beta1.Enforce, hook, variables, []admissionregistrationv1.Validation{{
		Expression: celMatches("variables.region", ownership.RegionPattern.String()) +
			" && (size(variables.regions) == 0 || variables.region in variables.regions)",
		MessageExpression: fmt.Sprintf("variables.subject + ': ' + (size(variables.regions) == 0 ? %[1]s + %[2]s : 'region ' + %[1]s + %[3]s + variables.regions.join(', ') + ')')",
			quoted, webhooks.CELString(ownership.RegionMalformed), webhooks.CELString(ownership.RegionNotConfigured)),
		Reason:  ptr.To(metav1.StatusReasonForbidden),
		Message: regionField + " names a region that is not allowed", // if the expression fails
	}})
}

// celEmail returns the CEL expression for spec.userEmail as readCluster reads it, "" if there is none. A value of another type counts
// as none here; the gate denies it.
func celEmail(object string) string { return celText(object, "spec", userEmailKey) }

// celText returns the CEL expression for the string at a path, and the empty string for a value of another type.
func celText(object string, path ...string) string {
	return fmt.Sprintf("[%s].map(value, type(value) == string ? string(value) : '')[0]", webhooks.CELField(object, path...))
}

// celNamesByEmail is true if spec.userEmail names another user than before. readCluster and named do the same before they read the Secret.
func celNamesByEmail() string {
	return fmt.Sprintf("%[1]s != '' && %[1]s.lowerAscii() != %[2]s.lowerAscii()", celEmail("object"), celEmail("oldObject"))
}

// celNotAllowed returns the variables of the policy: whether the requester may impersonate the user, as impersonation.Checker decides,
// and the text of notAllowed if not.
func celNotAllowed(k kind) []admissionregistrationv1.Variable {
	quoted := func(value string) string { return webhooks.CELQuoted(webhooks.CELValue(value)) }
	word := func(value string) string { // like shellWord in package impersonation
		return fmt.Sprintf(`(%s ? %s : "'" + %s.replace("'", %s) + "'")`, celMatches(value, impersonation.PlainWord.String()), value, value,
			webhooks.CELString(impersonation.QuoteInWord))
	}
	room := fmt.Sprintf("%d - size(bytes(variables.subject))", maxMessage)
	const text = "variables.subject + ': ' + variables.why"

	return append(celSubject(k, userEmailField), []admissionregistrationv1.Variable{
		{Name: "email", Expression: celEmail("object")},
		{Name: "trimmed", Expression: "variables.email == variables.email.trim()"},
		{Name: "lower", Expression: "variables.email.lowerAscii()"},
		{Name: "allowed", Expression: "[variables.email, variables.lower].exists(name, " +
			"authorizer.group('').resource('users').name(name).check('impersonate').allowed())"},

		// The rest is evaluated only for a denial.
		{Name: "user", Expression: "has(request.userInfo.username) ? request.userInfo.username : ''"},
		{Name: "why", Expression: fmt.Sprintf("'user ' + %s + ' may not impersonate ' + %s + %s",
			quoted("variables.user"), quoted("variables.email"), webhooks.CELString(impersonation.OrHaveItGranted))},
		{Name: "serviceAccount", Expression: fmt.Sprintf("%s && [variables.user.split(':')].exists(part, size(part[2]) <= %d && size(part[3]) <= %d)",
			celMatches("variables.user", `^system:serviceaccount:`+dnsLabel+`:`+dnsLabel+`([.]`+dnsLabel+`)*$`),
			validation.DNS1123LabelMaxLength, validation.DNS1123SubdomainMaxLength)},
		{Name: "role", Expression: "'warrantgate:impersonate:' + variables.lower"},
		{Name: "binding", Expression: "variables.role + ':' + variables.user.replace('/', '-').replace('%', '-')"},
		{Name: "subjectFlag", Expression: fmt.Sprintf("variables.serviceAccount ? '--serviceaccount=' + variables.user.substring(%d) : '--user=' + %s",
			len(serviceaccount.ServiceAccountUsernamePrefix), word("variables.user"))},
		{Name: "commands", Expression: strings.Join([]string{
			"'kubectl create clusterrole ' + " + word("variables.role") + " + ' --verb=impersonate --resource=users --resource-name='",
			word("variables.lower"),
			"'; kubectl create clusterrolebinding ' + " + word("variables.binding"),
			"' --clusterrole=' + " + word("variables.role") + " + ' ' + variables.subjectFlag",
		}, " + ")},
		{Name: "printable", Expression: fmt.Sprintf("%s && %s",
			celMatches("variables.lower", impersonation.RoleEmail.String()), celMatches("variables.user", impersonation.Quotable.String()))},
		{Name: "message", Expression: fmt.Sprintf("variables.printable && size(bytes(variables.why + variables.commands)) <= %s ? %s + variables.commands : %s + %s",
			room, text, text, webhooks.CELString(impersonation.PermissionInWords))},
	}...)
}

// celSubject returns the variable "subject", which is the name of the subject of answers about a field of the object, and those that it needs.
func celSubject(k kind, field string) []admissionregistrationv1.Variable {
	quoted := func(value string) string { return webhooks.CELQuoted(webhooks.CELValue(value)) }
	return []admissionregistrationv1.Variable{
		{Name: "name", Expression: fmt.Sprintf("([%s, dyn(has(request.name) ? request.name : ''), %s].filter(name, name != '') + [dyn('')])[0]",
			webhooks.CELField("object", "metadata", "name"), webhooks.CELField("object", "metadata", "generateName"))},
		{Name: "inNamespace", Expression: fmt.Sprintf("([%s, dyn(has(request.namespace) ? request.namespace : '')].filter(name, name != '') + [dyn('')])[0]",
			webhooks.CELField("object", "metadata", "namespace"))},
		{Name: "subject", Expression: fmt.Sprintf("%s + %s + ' of namespace ' + %s",
			webhooks.CELString(field+" of "+k.name+" "), quoted("variables.name"), quoted("variables.inNamespace"))},
	}
}

// celMatches returns the CEL expression that matches a string with a pattern.
func celMatches(value, pattern string) string {
	return fmt.Sprintf("%s.matches(r'%s')", value, pattern)
}

// dnsLabel matches names of namespaces, and the parts of names of service accounts, without a limit of the length.
const dnsLabel = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
