package cluster

import (
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
)

// maxMessage is the longest message that certainly passes uncut, in bytes: what a refusal, a warning and an Event take,
// less the words that are put before it.
const maxMessage = 1024 - 80

// finding is what the gate found out about a user who is named.
type finding struct {
	decision webhooks.Decision
	reason   string
	// status and retryAfter are as in webhooks.Answer.
	status     metav1.StatusReason
	retryAfter time.Duration
	// message is for the person who sent the request. public is the same for all who may read the object's Events: they
	// need not be allowed to read Secrets.
	message, public string
	// details are key-value pairs for the operator's log. They hold no content of a Secret either.
	details []any
}

func denied(reason, message string, details ...any) finding {
	return finding{decision: webhooks.Denied, reason: reason, message: message, public: message, details: details}
}

// unusable says why an object does not tell whom it names, or which credentials it refers to.
func unusable(refused *clusterapi.AccountError) finding {
	f := denied(string(refused.Reason), refused.Message)
	if refused.Reason == clusterapi.ClusterUnreadable {
		f.status = metav1.StatusReasonInvalid
	}
	return f
}

func undecided(reason, message string, err error) finding {
	return finding{
		decision: webhooks.Undecided, reason: reason, message: message, public: message, details: []any{"error", err.Error()},
	}
}

// answer says a finding about a field of an object, which is the subject of the sentence, and tells of it by an Event unless
// it is favorable.
func (f finding) answer(o object, field, subject string, mode v1beta1.Mode) webhooks.Answer {
	answer := webhooks.Answer{
		Decision: f.decision, Status: f.status, RetryAfter: f.retryAfter, Reason: f.reason, Message: subject + ": " + f.message, Field: field,
		Details: func() []any { return f.details },
	}
	if f.decision == webhooks.Allowed {
		answer.Message = ""
		return answer
	}
	verb := "Refused"
	if mode == v1beta1.Warn || f.decision == webhooks.Warned {
		verb = "Admitted with a warning"
	}
	if reference, found := webhooks.EventObject(&o, o.reference(), o.exists); found {
		answer.Events = []events.Event{{
			Object: reference, Type: corev1.EventTypeWarning, Reason: f.reason,
			Message: fmt.Sprintf("%s: %s: %s", verb, subject, f.public),
		}}
	}
	return answer
}

// unreadable refuses an object of which it cannot be told whom it names.
func unreadable(err error) webhooks.Answer {
	answer := webhooks.Undecodable(err)
	var refused *clusterapi.AccountError
	if errors.As(err, &refused) {
		answer.Status, answer.Reason = metav1.StatusReasonInvalid, string(refused.Reason)
	}
	return answer
}

// noUser says why it is not known whom a Secret names.
func noUser(err error) finding {
	var refused *clusterapi.AccountError
	if errors.As(err, &refused) {
		message := strings.TrimPrefix(refused.Message, userRefField+": ")
		if refused.Reason == clusterapi.NamespaceExempt {
			return denied(string(refused.Reason), message)
		}
		return denied(string(refused.Reason), message+
			"; write the user's email there under the key "+userEmailKey+" first, or name the user in spec.userEmail")
	}
	return undecided("SecretUnknown", "the Secret cannot be read now; try again", err)
}

func notAsked(err error) finding {
	return undecided("ImpersonationUnknown", "what the requester may do could not be asked; try again", err)
}

func notReadable(requester authenticationv1.UserInfo, ref clusterapi.UserRef, evaluationError string) finding {
	f := denied("SecretNotReadable", fmt.Sprintf("it names Secret %q of another namespace, %q, which user %q may not read; "+
		"name a Secret of the cluster's own namespace or one that you may read, or have the right granted: verb get on this Secret",
		clip(ref.SecretName), clip(ref.SecretNamespace), clip(requester.Username)))
	if evaluationError != "" {
		f.details = []any{"evaluationErrors", []string{evaluationError}}
	}
	return f
}

const (
	// impersonationNotAllowed is the reason where the requester may not act as the user.
	impersonationNotAllowed = "ImpersonationNotAllowed"
	// orHaveItGranted is what to do then. What would grant it follows.
	orHaveItGranted = "; name a user whom you may impersonate, or have it granted: "
)

// notAllowed says that the requester may not act as the user, and what would grant it to the identity as which the requester is
// known where the permission counts. Only if the requester knows the email, it is told.
func (g *Gate) notAllowed(
	requester, known authenticationv1.UserInfo, o object, n naming, email string, disclosed bool, evaluationErrors []string,
) finding {
	room := maxMessage - len(n.subject(o))
	open := g.notAllowedText(requester, known, fmt.Sprintf("%q", clip(email)), g.grant(known, email), room)
	hidden := g.notAllowedText(requester, known, n.bySecret(), "", room)

	f := denied(impersonationNotAllowed, open)
	if !disclosed {
		f.message = hidden
	}
	if n.ref.SecretName != "" {
		f.public = hidden
		f.details = append(f.details, "secret", n.ref.SecretNamespace+"/"+n.ref.SecretName)
	}
	if len(evaluationErrors) > 0 {
		f.details = append(f.details, "evaluationErrors", evaluationErrors)
	}
	return f
}

// notAllowedText leaves out the commands where there are none, or not enough room for them.
func (g *Gate) notAllowedText(requester, known authenticationv1.UserInfo, whom, commands string, room int) string {
	text := func(where string) string {
		return fmt.Sprintf("user %q may not impersonate %s%s%s", clip(requester.Username), whom, where, orHaveItGranted)
	}
	if with := text(g.where()) + commands; commands != "" && len(with) <= room {
		return with
	}
	return text(g.where()+g.knownThere(requester, known)) + g.grantInWords(requester, known)
}
