// Package impersonation decides which requester may name which cloud user in an object. The provider then acts as this user.
//
// The permission is the one of Kubernetes: verb "impersonate" on resource "users". Only this verb counts. The verbs of constrained
// impersonation (KEP-5284) do not: "impersonate:user-info" permits a user name, but each request also needs
// "impersonate-on:user-info:<verb>" for its resource. These limits apply to Kubernetes resources. A provider acts with all
// permissions of the user in the cloud, which these verbs do not describe. A limited permission in Kubernetes would become an
// unlimited permission in the cloud.
package impersonation

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
)

// Checker decides which requester may name which user.
type Checker struct {
	reviewer Reviewer
	// provider is the logical cluster in which permissions are checked, "" on Kubernetes.
	provider logicalcluster.Name
}

// NewChecker returns the checker of a Kubernetes cluster.
func NewChecker(reviewer Reviewer) *Checker { return &Checker{reviewer: reviewer} }

// NewProviderChecker returns a checker for the kinds that a provider exports on kcp. The reviewer checks permissions in the
// provider's workspace, which contains the APIExport. In its own workspace the requester may be cluster-admin, and could permit
// itself to impersonate any user.
func NewProviderChecker(reviewer Reviewer, provider logicalcluster.Name) *Checker {
	return &Checker{reviewer: reviewer, provider: provider}
}

// Verdict reports whether a requester may impersonate a user. The zero value means no.
type Verdict struct {
	Allowed bool
	// EvaluationErrors are those of the authorizer, if the requester may not.
	EvaluationErrors []string

	email            string
	requester, known authenticationv1.UserInfo
	provider         logicalcluster.Name
}

// OutOfScopeError means that the requester claims an identity that cannot be verified, such as one outside of its scopes. The text is for the user.
type OutOfScopeError struct {
	// Reason is the reason of a denial.
	Reason  string
	message string
}

// Error implements error.
func (e *OutOfScopeError) Error() string { return e.message }

// MayImpersonate decides whether the requester may act as a user. RBAC compares names exactly, but emails are not case-sensitive: a
// permission for the email as written or in lower case is sufficient. The error is an *OutOfScopeError if the requester's identity
// is not accepted. Any other error means that the check failed.
func (c *Checker) MayImpersonate(ctx context.Context, requester authenticationv1.UserInfo, email string) (Verdict, error) {
	known, err := c.knownAs(requester)
	if err != nil {
		reason, remedy := "HomeOutOfScope", "use the service account's own token, as one that was impersonated in another workspace has no permissions there"
		if errors.Is(err, identity.ErrClaimed) {
			reason, remedy = "IdentityClaimed", "write the object without that virtual workspace"
		}
		return Verdict{}, &OutOfScopeError{Reason: reason, message: fmt.Sprintf("user %q cannot be distinguished from others%s: %v; %s",
			message.Value(requester.Username), where(c.provider), err, remedy)}
	}
	verdict := Verdict{email: email, requester: requester, known: known, provider: c.provider}
	spellings := []string{email}
	if lower := ownership.LowerEmail(email); lower != email {
		spellings = append(spellings, lower)
	}
	for _, name := range spellings {
		status, err := c.reviewer.Review(ctx, reviewOf(known, authorizationv1.ResourceAttributes{
			Verb: "impersonate", Resource: "users", Name: name,
		}))
		if err != nil {
			return Verdict{}, err
		}
		if status.Allowed {
			verdict.Allowed, verdict.EvaluationErrors = true, nil
			return verdict, nil
		}
		if status.EvaluationError != "" {
			verdict.EvaluationErrors = append(verdict.EvaluationErrors, status.EvaluationError)
		}
	}
	return verdict, nil
}

// MayRead decides whether the requester may read the Secret of a reference. evaluationError is that of the authorizer. An error
// means that the check failed.
func (c *Checker) MayRead(ctx context.Context, requester authenticationv1.UserInfo, ref clusterapi.UserRef) (allowed bool, evaluationError string, err error) {
	status, err := c.reviewer.Review(ctx, reviewOf(requester, authorizationv1.ResourceAttributes{
		Verb: "get", Resource: "secrets", Namespace: ref.SecretNamespace, Name: ref.SecretName,
	}))
	return err == nil && status.Allowed, status.EvaluationError, err
}

// MayUse decides whether an object of the requester in a namespace may refer to a Secret. For a Secret of another namespace the
// requester needs the permission to read it. Otherwise every requester could act as the user in that Secret. The other results are
// those of MayRead.
func (c *Checker) MayUse(
	ctx context.Context, requester authenticationv1.UserInfo, ref clusterapi.UserRef, namespace string,
) (allowed bool, evaluationError string, err error) {
	// On kcp no Secret names a user (clusterapi.UserRefUnguarded), and a Secret of this name in the provider's workspace is another
	// Secret.
	if ref.SecretName == "" || ref.SecretNamespace == namespace || c.provider != "" {
		return true, "", nil
	}
	return c.MayRead(ctx, requester, ref)
}

// knownAs returns the identity of the requester in the logical cluster of the permission check. An error means that the identity is
// not accepted there.
func (c *Checker) knownAs(requester authenticationv1.UserInfo) (authenticationv1.UserInfo, error) {
	if c.provider == "" {
		return requester, nil
	}
	extra := make(map[string][]string, len(requester.Extra))
	for key, values := range requester.Extra {
		extra[key] = values
	}
	known, err := identity.Elsewhere(identity.Owner{
		Username: requester.Username, UID: requester.UID, Groups: requester.Groups, Extra: extra,
	}, c.provider)
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	info := authenticationv1.UserInfo{Username: known.Username, UID: known.UID, Groups: known.Groups}
	for key, values := range known.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info, nil
}

// OrHaveItGranted is the advice in a denial. The commands or the description of the permission follow it.
const OrHaveItGranted = "; name a user that you may impersonate, or have it granted: "

// Message is the text of a denial: that the requester may not impersonate the user, and how to permit it. It contains commands if
// the text then fits into room bytes.
func (v Verdict) Message(room int) string {
	who := fmt.Sprintf("%q", message.Value(v.email))
	text := v.text(who, where(v.provider))
	if commands := v.grant(); commands != "" && len(text)+len(commands) <= room {
		return text + commands
	}
	return v.MessageAbout(who)
}

// MessageAbout is Message without commands. who describes the user that the message is about.
func (v Verdict) MessageAbout(who string) string {
	place := where(v.provider)
	if v.known.Username != v.requester.Username && v.known.Username != user.Anonymous {
		place += fmt.Sprintf(", where it is user %q", message.Value(v.known.Username))
	}
	return v.text(who, place) + v.grantInWords()
}

func (v Verdict) text(who, place string) string {
	return fmt.Sprintf("user %q may not impersonate %s%s%s", message.Value(v.requester.Username), who, place, OrHaveItGranted)
}

// where names the workspace of the check if it is not the requester's own.
func where(provider logicalcluster.Name) string {
	if provider == "" {
		return ""
	}
	return fmt.Sprintf(" in logical cluster %q, the provider's workspace", provider)
}
