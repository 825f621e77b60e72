package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Types of additional status causes of a denial.
const (
	causeOwnInstance  = metav1.CauseType("OwnInstance")
	causeCloudRequest = metav1.CauseType("CloudRequest")
)

func deniedf(reason, format string, args ...any) webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Denied, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// invalidf denies a malformed value.
func invalidf(reason, format string, args ...any) *webhooks.Answer {
	answer := deniedf(reason, format, args...)
	answer.Status = metav1.StatusReasonInvalid
	return &answer
}

// unreadable is the answer if objects of the API server that the decision needs cannot be read.
func unreadable(message string, err error) webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Undecided, Reason: "ObjectsUnknown", Message: message}.WithDetails("error", err.Error())
}

// unknownObject is the answer if the account or the cluster that the provider acts for is unknown. what names that, object the object to read.
func unknownObject(err error, what, object string) webhooks.Answer {
	if accountErr, ok := errors.AsType[*clusterapi.AccountError](err); ok {
		return deniedf(string(accountErr.Reason), "%s is unknown: %v", what, accountErr)
	}
	return unreadable(object+" cannot be read now; try again", err)
}

// regionField names the field with the region of an account.
func regionField(account ownership.Account, machine clusterapi.Machine) string {
	if (account.Identity != ownership.Identity{}) {
		return "the region " + machine.Acting(account)
	}
	return fmt.Sprintf("spec.region of CloudSigmaCluster %q", machine.ClusterName())
}

// conflict denies the instance of another machine. It names that machine only if it is in the same namespace, because other namespaces
// belong to other tenants.
func conflict(c change, id string, holder clusterapi.Machine) webhooks.Answer {
	if c.machine.Kind.Provider.IsExternal() { // an object of the same namespace may name it, too
		return deniedf(ownership.ReasonConflict, "it is held by an object of another namespace, and an instance can belong to one namespace only; "+
			"ask your administrator which of them it belongs to").WithDetails("instance", id, "holder", holder.String())
	}
	who := "a machine of another namespace"
	if holder.Namespace == c.machine.Namespace {
		who = fmt.Sprintf("%s %q", holder.Kind.Kind, holder.Name)
	}
	return deniedf(ownership.ReasonConflict, "%s names this instance already, and an instance can belong to one machine only; "+
		"clear the field of the machine that it does not belong to", who).WithDetails("instance", id, "holder", holder.String())
}

// verdict returns the answer for an answer of the cloud.
func verdict(c change, id string, account ownership.Account, answer ownership.Answer) webhooks.Answer {
	details := slices.Concat([]any{"instance", id, "verdict", answer.Verdict}, detailsOf(account),
		[]any{"cloudRequestID", answer.RequestID, "cloudResponse", answer.Response})
	if answer.CreatorID != "" {
		details = append(details, "creator", answer.CreatorID)
	}
	if answer.Verdict == ownership.Owned {
		return webhooks.Answer{Decision: webhooks.Allowed, Reason: "Owned"}.WithDetails(details...)
	}
	what, reason := "there is no such instance in %s", ownership.ReasonNotFound
	if answer.Verdict == ownership.Foreign {
		what, reason = "this instance of %s exists, but is not one", ownership.ReasonNotOwned
	}
	who := "of " + account.Owner()
	if answer.UserID != "" && account == account.Plain() {
		who += " (" + answer.UserID + ")"
	}
	lasting := fmt.Sprintf(what+" %s, %s", account.Place(), who, c.machine.Acting(account))
	own, causes := candidates(answer.Candidates)
	if !c.names() {
		own = ""
	}
	advice := "; " + own + c.instead()
	cloud := fmt.Sprintf("; the cloud answered %s", answer.Response)
	if answer.RequestID != "" {
		cloud += fmt.Sprintf(", request id %s", answer.RequestID)
		causes = append(causes, metav1.StatusCause{Type: causeCloudRequest, Message: answer.RequestID})
	}
	return webhooks.Answer{
		Decision: webhooks.Denied, Reason: reason, Causes: causes, Message: lasting + cloud + advice, Lasting: lasting + advice,
	}.WithDetails(details...)
}

// candidates lists the user's own instances that the machine could name instead.
func candidates(instances []ownership.Instance) (text string, causes []metav1.StatusCause) {
	if len(instances) == 0 {
		return "", nil
	}
	names := make([]string, 0, len(instances))
	for _, instance := range instances {
		names = append(names, fmt.Sprintf("%s (%q)", instance.ID, message.Value(instance.Name)))
		causes = append(causes, metav1.StatusCause{Type: causeOwnInstance, Message: instance.ID})
	}
	return "the user's own instance for this machine is " + strings.Join(names, " or ") + ": name that, or ", causes
}

// unknownOwner is the answer if the cloud or the identity provider did not answer.
func unknownOwner(c change, account ownership.Account, err error) webhooks.Answer {
	var unknown *ownership.UnknownError
	if !errors.As(err, &unknown) {
		unknown = &ownership.UnknownError{Cause: ownership.CauseCloud, Err: err}
	}
	lasting := fmt.Sprintf("it cannot be checked now whether the instance belongs to %s, %s: %s",
		account.Owner(), c.machine.Acting(account), unknown.Explain())
	message := lasting
	if unknown.RequestID != "" {
		message += "; request id " + unknown.RequestID
	}
	answer := webhooks.Answer{
		Decision: webhooks.Undecided, Reason: ownership.ReasonUnknown, Message: message, Lasting: lasting,
		Causes: []metav1.StatusCause{{Type: metav1.CauseType(unknown.Cause), Message: unknown.Explain()}},
	}.WithDetails(slices.Concat([]any{"cause", unknown.Cause}, detailsOf(account), []any{"cloudRequestID", unknown.RequestID, "error", unknown.Error()})...)
	if unknown.Cause == ownership.CauseTenantBusy {
		// Denied in any case: a tenant that sends too many requests must not be admitted because of that. An outage has no Retry-After,
		// because clients then retry by themselves, and the user does not see the reason.
		answer.Decision, answer.Status, answer.RetryAfter = webhooks.Denied, metav1.StatusReasonTooManyRequests, unknown.RetryAfter
	}
	return answer
}

// detailsOf returns key-value pairs about an account, for the operator's log.
func detailsOf(account ownership.Account) []any {
	details := []any{"cloud", account.Cloud, "region", account.Region}
	if (account.Identity != ownership.Identity{}) {
		return append(details, "secret", account.Identity.Secret, "cloudName", account.Identity.Entry)
	}
	return append(details, "user", account.User)
}
