package machine

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Policies returns one admission policy for each kind, with its binding. It denies the claims that name no instance or no cluster: a
// malformed ID, and a missing cluster label. Kubernetes evaluates it before the webhook, and also while no warrantgate runs. There are no
// policies in the modes Warn and Off; in the mode Warn the gate also writes an Event, which a policy cannot.
//
// providerIDs returns the format of the provider IDs of a provider.
func Policies(mode v1beta1.Mode, kinds []v1beta1.MachineKind, providerIDs func(v1beta1.Provider) ownership.IDFormat) []client.Object {
	if mode != v1beta1.Enforce {
		return nil
	}
	var policies []client.Object
	for _, kind := range kinds {
		// A change of the owner alone is left to the webhook, which ignores repeated references. With the name of the webhook, so that a
		// denial has the same name.
		hook := hook(mode, kind, celClaim(kind, strings.Join(celMoves(kind), " || ")))
		policies = append(policies, webhooks.ValidatingPolicy(hook, celInvalid(kind, providerIDs(kind.Provider)), validations(kind))...)
	}
	return policies
}

// validations returns a validation for each reason, because each has one status code.
func validations(kind v1beta1.MachineKind) []admissionregistrationv1.Validation {
	var all []admissionregistrationv1.Validation
	for _, denial := range []struct {
		reason, message string // the message is for the case that the expression fails
		status          metav1.StatusReason
	}{
		{ownership.ReasonInvalid, kind.InstanceIDPath + " is not an instance ID", metav1.StatusReasonInvalid},
		{reasonProviderID, kind.ProviderIDPath + " is not a provider ID", metav1.StatusReasonInvalid},
		{ownership.ReasonWithoutCluster, withoutCluster, metav1.StatusReasonForbidden},
	} {
		all = append(all, admissionregistrationv1.Validation{
			Expression: "variables.reason != " + webhooks.CELString(denial.reason), Reason: ptr.To(denial.status),
			MessageExpression: "variables.message", Message: denial.message,
		})
	}
	return all
}

// celInvalid returns the variables of the policy: the reason of a denial as change.ids and Gate.review find it, "" if there is none, and the
// text of the denial.
func celInvalid(kind v1beta1.MachineKind, providerIDs ownership.IDFormat) []admissionregistrationv1.Variable {
	quoted := func(value string) string { return webhooks.CELQuoted(webhooks.CELValue(value)) }
	text := webhooks.CELString
	instancePath, providerPath := strings.Split(kind.InstanceIDPath, "."), strings.Split(kind.ProviderIDPath, ".")
	metadata := func(field, otherwise string) string {
		return webhooks.CELFirst(webhooks.CELText("object", "metadata", field), fmt.Sprintf("has(request.%[1]s) ? request.%[1]s : ''", otherwise))
	}
	move := fmt.Sprintf("(variables.cluster == '' ? %s : %s + %s)", text("removal of label "+clusterapi.ClusterNameLabel),
		text("label "+clusterapi.ClusterNameLabel+" "), quoted("variables.cluster"))
	if kind.IdentityRefPath != "" {
		move = fmt.Sprintf("(%s ? %s : %s)", webhooks.CELChanged("metadata", "labels", clusterapi.ClusterNameLabel), move, text("change of "+kind.IdentityRefPath))
	}
	expressions := [][2]string{
		{"instanceID", webhooks.CELText("object", instancePath...)},
		{"providerID", webhooks.CELText("object", providerPath...)},
		{"cluster", webhooks.CELText("object", "metadata", "labels", clusterapi.ClusterNameLabel)},
		{"instance", ownership.InstanceIDs.CEL("variables.instanceID")},
		{"provided", providerIDs.CEL("variables.providerID")},
		{"stored", ownership.InstanceIDs.CEL(webhooks.CELText("oldObject", instancePath...))},
		{"setsInstanceID", webhooks.CELSet(instancePath...)},
		{"setsProviderID", webhooks.CELSet(providerPath...) + " && (variables.stored == '' || variables.provided != variables.stored)"},
		{"moves", "(variables.instanceID != '' || variables.providerID != '') && (" + strings.Join(celMoves(kind), " || ") + ")"},
		{"reason", fmt.Sprintf("(variables.setsInstanceID || variables.moves) && variables.instanceID != '' && variables.instance == '' ? %s : "+
			"(variables.setsProviderID || variables.moves) && variables.providerID != '' && variables.provided == '' ? %s : "+
			"(variables.setsInstanceID || variables.setsProviderID || variables.moves) && variables.cluster == '' ? %s : ''",
			text(ownership.ReasonInvalid), text(reasonProviderID), text(ownership.ReasonWithoutCluster))},

		// The rest is evaluated only for a denial.
		{"machine", fmt.Sprintf("%s + %s + ' of namespace ' + %s", text(kind.Kind+" "),
			webhooks.CELQuoted(metadata("name", "name")), webhooks.CELQuoted(metadata("namespace", "namespace")))},
		{"subject", fmt.Sprintf("!variables.setsInstanceID && !variables.setsProviderID ? "+
			"%s + ' of ' + variables.machine + ', which names instance ' + %s : "+
			"(variables.setsInstanceID && variables.reason != %s ? %s + %s : %s + %s) + ' of ' + variables.machine",
			move, quoted(webhooks.CELFirst("variables.instanceID", "variables.providerID")),
			text(reasonProviderID), text(kind.InstanceIDPath+" "), quoted("variables.instanceID"), text(kind.ProviderIDPath+" "), quoted("variables.providerID"))},
		{"message", fmt.Sprintf("variables.subject + ': ' + (variables.reason == %s ? %s + %s : variables.reason == %s ? %s + %s : %s)",
			text(ownership.ReasonInvalid), quoted("variables.instanceID"), text(ownership.InstanceIDs.Requirement()),
			text(reasonProviderID), quoted("variables.providerID"), text(providerIDs.Requirement()), text(withoutCluster))},
	}
	variables := make([]admissionregistrationv1.Variable, 0, len(expressions))
	for _, e := range expressions {
		variables = append(variables, admissionregistrationv1.Variable{Name: e[0], Expression: e[1]})
	}
	return variables
}
