package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Types of further status causes of a refusal.
const (
	causeOwnInstance  = metav1.CauseType("OwnInstance")
	causeCloudRequest = metav1.CauseType("CloudRequest")
)

// finding is what the gate found out about a change.
type finding struct {
	decision webhooks.Decision
	status   metav1.StatusReason // as in webhooks.Answer
	// retryAfter is as in webhooks.Answer.
	retryAfter time.Duration
	reason     string
	// message is for the person who sent the request. lasting is the same without what is different each time, such as
	// the id of a request, so that Events about it fold into one.
	message, lasting string
	causes           []metav1.StatusCause
	// pending is true where another write has to be stored first. It is refused even where what cannot be judged is admitted: it is
	// no outage, and whoever sends the other write could bring it about.
	pending bool
	// aboutProviderID is true where it is about the provider ID even if the instance ID changes as well.
	aboutProviderID bool
	// details are key-value pairs for the operator's log.
	details []any
}

func deniedf(reason, format string, args ...any) finding {
	message := fmt.Sprintf(format, args...)
	return finding{decision: webhooks.Denied, reason: reason, message: message, lasting: message}
}

// invalidf denies for a malformed value.
func invalidf(reason, format string, args ...any) finding {
	f := deniedf(reason, format, args...)
	f.status = metav1.StatusReasonInvalid
	return f
}

func undecided(reason, message string, err error) finding {
	return finding{
		decision: webhooks.Undecided, reason: reason, message: message, lasting: message, details: []any{"error", err.Error()},
	}
}

// pending says that a write cannot be judged while another one is on its way.
func pending(other string, err error) *finding {
	f := undecided("ClaimPending", "another write is being stored that "+other+"; try again", err)
	f.pending = true
	return &f
}

// noAccount says why it is not known as whom the machine's provider acts.
func noAccount(err error) finding {
	var refused *clusterapi.AccountError
	if errors.As(err, &refused) {
		return deniedf(string(refused.Reason), "it is not known as which user its provider acts: %v", refused)
	}
	return undecided("ObjectsUnknown", "the cluster of the machine cannot be read now; try again", err)
}

// noOwner says why it is not known which Machine of Cluster API the provider goes by.
func noOwner(err error) finding {
	var refused *clusterapi.AccountError
	if errors.As(err, &refused) {
		return deniedf(string(refused.Reason), "it is not known for which cluster its provider acts: %v", refused)
	}
	return undecided("ObjectsUnknown", "the Machine that owns the machine cannot be read now; try again", err)
}

// regionField says where the region of an account is written, in the words of its provider's objects.
func regionField(account ownership.Account, cluster string) string {
	if (account.Identity != ownership.Identity{}) {
		return fmt.Sprintf("the region with which cluster %q acts", cluster)
	}
	return fmt.Sprintf("spec.region of CloudSigmaCluster %q", cluster)
}

// conflict says that another machine names the instance, and which only to those who may know: names of another
// namespace are another tenant's.
func conflict(c change, id string, holder clusterapi.Machine) finding {
	who := "a machine of another namespace"
	if holder.Namespace == c.machine.Namespace {
		who = fmt.Sprintf("%s %q", holder.Kind.Kind, holder.Name)
	}
	f := deniedf(ownership.ReasonConflict, "%s names this instance already, and an instance can be that of one machine only; "+
		"clear the field of the machine that it is not of", who)
	f.details = []any{"instance", id, "holder", holder.String()}
	return f
}

// verdict says what the cloud's answer means.
func verdict(c change, id string, account ownership.Account, answer ownership.Answer) finding {
	details := slices.Concat([]any{"instance", id, "verdict", answer.Verdict}, detailsOf(account),
		[]any{"cloudRequestID", answer.RequestID, "cloudResponse", answer.Response})
	if answer.CreatorID != "" {
		details = append(details, "creator", answer.CreatorID)
	}
	if answer.Verdict == ownership.Owned {
		return finding{decision: webhooks.Allowed, reason: "Owned", details: details}
	}
	what, reason := "there is no such instance in %s", ownership.ReasonNotFound
	if answer.Verdict == ownership.Foreign {
		what, reason = "this instance of %s exists, but is not one", ownership.ReasonNotOwned
	}
	who := "of " + account.Owner()
	if answer.UserID != "" {
		who += " (" + answer.UserID + ")"
	}
	lasting := fmt.Sprintf(what+" %s, %s", account.Place(), who, account.Acting(c.machine.ClusterName()))
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
	return finding{
		decision: webhooks.Denied, reason: reason, causes: causes, details: details,
		message: lasting + cloud + advice, lasting: lasting + advice,
	}
}

// candidates names the user's own instances that the machine may have meant.
func candidates(instances []ownership.Instance) (text string, causes []metav1.StatusCause) {
	if len(instances) == 0 {
		return "", nil
	}
	names := make([]string, 0, len(instances))
	for _, instance := range instances {
		names = append(names, fmt.Sprintf("%s (%q)", instance.ID, clip(instance.Name)))
		causes = append(causes, metav1.StatusCause{Type: causeOwnInstance, Message: instance.ID})
	}
	return "the user's own instance for this machine is " + strings.Join(names, " or ") + ": name that, or ", causes
}

// unknownOwner says that the cloud or the identity provider gave no verdict, and which of both.
func unknownOwner(c change, account ownership.Account, err error) finding {
	var unknown *ownership.UnknownError
	if !errors.As(err, &unknown) {
		unknown = &ownership.UnknownError{Cause: ownership.CauseCloud, Err: err}
	}
	lasting := fmt.Sprintf("it cannot be told now whether the instance belongs to %s, %s: %s",
		account.Owner(), account.Acting(c.machine.ClusterName()), unknown.Cause.Explain())
	message := lasting
	if unknown.RequestID != "" {
		message += "; request id " + unknown.RequestID
	}
	f := finding{
		decision: webhooks.Undecided, reason: ownership.ReasonUnknown, message: message, lasting: lasting,
		causes: []metav1.StatusCause{{Type: metav1.CauseType(unknown.Cause), Message: unknown.Cause.Explain()}},
		details: slices.Concat([]any{"cause", unknown.Cause}, detailsOf(account),
			[]any{"cloudRequestID", unknown.RequestID, "error", unknown.Error()}),
	}
	if unknown.Cause == ownership.CauseTenantBusy {
		// Denied in any case: a tenant that sends too much must not be admitted because of it. Only here clients are told when to
		// try again, because they do so by themselves then, and the reason of an outage has to come through to people.
		f.decision, f.status, f.retryAfter = webhooks.Denied, metav1.StatusReasonTooManyRequests, unknown.RetryAfter
	}
	return f
}

// detailsOf are the key-value pairs that name an account in the operator's log.
func detailsOf(account ownership.Account) []any {
	details := []any{"cloud", account.Cloud, "region", account.Region}
	if (account.Identity != ownership.Identity{}) {
		return append(details, "secret", account.Identity.Secret, "cloudName", account.Identity.Entry)
	}
	return append(details, "user", account.User)
}
