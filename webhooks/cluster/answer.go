package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/impersonation"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/webhooks"
)

// maxMessage is the longest message, in bytes, that is not cut in a denial, a warning or an Event. It leaves room for the prefix of the
// handler.
const maxMessage = 1024 - 80

// denied denies the request. about adds the subject.
func denied(reason, message string) webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Denied, Reason: reason, Message: message}
}

// undecided is the answer if no decision is possible now.
func undecided(reason, message string, err error) webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Undecided, Reason: reason, Message: message}.WithDetails("error", err.Error())
}

// allowed admits the request.
func allowed(reason string) webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Allowed, Reason: reason}
}

// unusable denies an object that names no user or no credentials that can be used.
func unusable(accountErr *clusterapi.AccountError) webhooks.Answer {
	answer := denied(string(accountErr.Reason), accountErr.Message)
	if accountErr.Reason == clusterapi.ClusterUnreadable || accountErr.Reason == clusterapi.UserMalformed {
		answer.Status = metav1.StatusReasonInvalid
	}
	return answer
}

// about adds the field and the object of the answer.
func about(o object, field string, answer webhooks.Answer) webhooks.Answer {
	answer.Subject, answer.Field = o.subject(field), field
	return answer
}

// unreadable rejects an object whose fields cannot be decoded.
func unreadable(err error) webhooks.Answer {
	answer := webhooks.Undecodable(err)
	var accountErr *clusterapi.AccountError
	if errors.As(err, &accountErr) {
		answer.Status, answer.Reason = metav1.StatusReasonInvalid, string(accountErr.Reason)
	}
	return answer
}

// noUser is the answer if a Secret names no user.
func noUser(err error) webhooks.Answer {
	var accountErr *clusterapi.AccountError
	if errors.As(err, &accountErr) {
		message := strings.TrimPrefix(accountErr.Message, userRefField+": ")
		if slices.Contains([]clusterapi.Reason{clusterapi.NamespaceExempt, clusterapi.UserMalformed, clusterapi.UserRefUnguarded}, accountErr.Reason) {
			return unusable(&clusterapi.AccountError{Reason: accountErr.Reason, Message: message})
		}
		return denied(string(accountErr.Reason), message+
			"; write the user's email there under the key "+userEmailKey+" first, or name the user in spec.userEmail")
	}
	return undecided("SecretUnknown", "the Secret cannot be read now; try again", err)
}

func notChecked(err error) webhooks.Answer {
	return undecided("ImpersonationUnknown", "the permissions of the requester could not be checked; try again", err)
}

func notReadable(requester authenticationv1.UserInfo, ref clusterapi.UserRef, evaluationError string) webhooks.Answer {
	answer := denied("SecretNotReadable", fmt.Sprintf("it names Secret %q of another namespace, %q, which user %q may not read; "+
		"name a Secret of the cluster's own namespace or one that you may read, or have the permission granted: verb get on this Secret",
		message.Value(ref.SecretName), message.Value(ref.SecretNamespace), message.Value(requester.Username)))
	if evaluationError != "" {
		return answer.WithDetails("evaluationErrors", []string{evaluationError})
	}
	return answer
}

// impersonationNotAllowed is the reason if the requester may not act as the user.
const impersonationNotAllowed = "ImpersonationNotAllowed"

// notAllowed denies a user that the requester may not act as. The email is shown only to requesters that know it.
func notAllowed(verdict impersonation.Verdict, o object, n naming, disclosed bool) webhooks.Answer {
	hidden := verdict.MessageAbout(n.bySecret())
	answer := denied(impersonationNotAllowed, verdict.Message(maxMessage-len(o.subject(n.field).Name)))
	if !disclosed {
		answer.Message = hidden
	}
	if n.ref.SecretName != "" {
		answer.Lasting = hidden // a reader of Events may not be allowed to read Secrets
		answer = answer.WithDetails("secret", n.ref.SecretNamespace+"/"+n.ref.SecretName)
	}
	if len(verdict.EvaluationErrors) > 0 {
		answer = answer.WithDetails("evaluationErrors", verdict.EvaluationErrors)
	}
	return answer
}
