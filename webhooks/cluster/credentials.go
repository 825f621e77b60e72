package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// applicationCredentialWarning is for tenants whose clusters act through a trust, as Magnum's do (Keystone, option
// allow_insecure_application_credential_trust_escalation).
const applicationCredentialWarning = "the credentials are an application credential, with which Keystone creates no trust; use the password of " +
	"a user of the tenant. The operator of Keystone can allow it with [security_compliance] " +
	"allow_insecure_application_credential_trust_escalation, but should not: the credential could then delegate roles that it does not have"

// maxClouds limits how many clouds of one Secret are checked in a request: each needs an authentication.
const maxClouds = 8

// TooManyClouds returns the denial of a write that changes so many clouds of one Secret that they are not checked, nil if they are.
func TooManyClouds(changed int) *webhooks.Answer {
	if changed <= maxClouds {
		return nil
	}
	return ptr.To(denied("TooManyClouds", fmt.Sprintf("it changes %d clouds, and at most %d are checked at a time; change fewer, or use more Secrets",
		changed, maxClouds)))
}

// MayActWith decides whether a cluster may act with credentials, which does not depend on the object that refers to them. The gate
// Delegation and the command "check delegation" decide by it. The answer has no subject and no field.
func MayActWith(
	ctx context.Context, delegations Delegations, credentials ownership.Identity, policy identity.CredentialPolicy, through v1beta1.DelegationWay,
) webhooks.Answer {
	token, err := delegations.Delegation(ctx, credentials, policy)
	var identityErr *ownership.IdentityError
	var unknown *ownership.UnknownError
	switch {
	case errors.As(err, &identityErr):
		return denied(identityErr.Reason, identityErr.Message).WithDetails(detailsOf(credentials, token)...)
	case errors.As(err, &unknown):
		answer := undecided("DelegationUnknown", fmt.Sprintf("the roles of %s could not be determined: %s", credentials, unknown.Cause.Explain()), err)
		if unknown.Cause == ownership.CauseTenantBusy {
			answer.Status, answer.RetryAfter = metav1.StatusReasonTooManyRequests, unknown.RetryAfter
		}
		return answer
	case err != nil:
		return undecided("DelegationUnknown", fmt.Sprintf("the roles of %s could not be determined; try again", credentials), err)
	}
	var warned []webhooks.Answer
	if through == v1beta1.Trust && token.ApplicationCredential != nil {
		warned = append(warned, warning("ApplicationCredentialWithoutTrust", applicationCredentialWarning))
	}
	if token.Unrestricted() {
		warned = append(warned, warning(openstack.ApplicationCredentialUnrestricted, token.UnrestrictedWarning(credentials)))
	}
	answer := allowed("DelegationAllowed")
	if len(warned) > 0 {
		answer = together(warned)
	}
	return answer.WithDetails(detailsOf(credentials, token)...)
}

// warning admits the request with a warning.
func warning(reason, message string) webhooks.Answer {
	return webhooks.Answer{Decision: webhooks.Warned, Reason: reason, Message: message}
}

// together joins answers that warn. Each has an Event of its own, and the reason is that of the first.
func together(warned []webhooks.Answer) webhooks.Answer {
	answer := warned[0]
	if len(warned) == 1 {
		return answer
	}
	messages, notices := make([]string, 0, len(warned)), []webhooks.Notice{}
	for _, w := range warned {
		messages = append(messages, w.Message)
		if w.Notices == nil {
			w.Notices = []webhooks.Notice{{Type: corev1.EventTypeWarning, Reason: w.Reason, Message: w.Message}}
		}
		notices = append(notices, w.Notices...)
	}
	answer.Message, answer.Notices = strings.Join(messages, "; "), notices
	return answer
}

// detailsOf returns key-value pairs about the owner of the credentials, for the operator's log.
func detailsOf(credentials ownership.Identity, token openstack.Token) []any {
	return []any{
		"secret", credentials.Secret, "cloudName", credentials.Entry, "userID", token.UserID, "projectID", token.ProjectID,
		"roles", token.Roles, "cloudRequestID", token.RequestID,
	}
}
