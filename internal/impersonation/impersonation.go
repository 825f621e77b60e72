// Package impersonation decides who may name which user of a cloud, as whom a provider then acts.
//
// The permission is the one that Kubernetes has for this, "impersonate" on "users". Only this verb counts. The verbs of constrained
// impersonation (KEP-5284) do not: "impersonate:user-info" permits to take a user's name, but a request under it must also be
// permitted by an "impersonate-on:user-info:<verb>" on what it does. These limits are about resources of Kubernetes. A provider acts
// with all the permissions that the user has in the cloud, which none of them describes, so a permission that is limited in
// Kubernetes would become an unlimited one in the cloud.
package impersonation

import (
	"context"
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

// Checker decides who may name which user.
type Checker struct {
	reviewer Reviewer
	// provider is the logical cluster in which permissions are checked, "" on Kubernetes.
	provider logicalcluster.Name
}

// NewChecker returns the checker of a Kubernetes cluster.
func NewChecker(reviewer Reviewer) *Checker { return &Checker{reviewer: reviewer} }

// NewProviderChecker returns the checker for what a provider exports on kcp. The reviewer asks in the provider's workspace, the one
// of the APIExport: in its own workspace the requester may be cluster-admin, and permit itself to impersonate anybody.
func NewProviderChecker(reviewer Reviewer, provider logicalcluster.Name) *Checker {
	return &Checker{reviewer: reviewer, provider: provider}
}

// Verdict says whether a requester may impersonate a user. The zero value refuses.
type Verdict struct {
	Allowed bool
	// EvaluationErrors are those of the authorizer, if it refused.
	EvaluationErrors []string

	email            string
	requester, known authenticationv1.UserInfo
	provider         logicalcluster.Name
}

// OutOfScopeError says that a requester claims an identity that it may not have. It is for people.
type OutOfScopeError struct{ message string }

// Error implements error.
func (e *OutOfScopeError) Error() string { return e.message }

// MayImpersonate decides whether the requester may act as a user. RBAC compares exact names, while emails are not case-sensitive:
// the permission for either spelling, as it is written or in lower case, is enough. The error is an *OutOfScopeError where the
// requester is not believed; any other means that there is no answer now.
func (c *Checker) MayImpersonate(ctx context.Context, requester authenticationv1.UserInfo, email string) (Verdict, error) {
	known, err := c.knownAs(requester)
	if err != nil {
		return Verdict{}, &OutOfScopeError{fmt.Sprintf("user %q cannot be told apart from others%s: %v; "+
			"use the service account's own token, as one that was impersonated in another workspace has no permissions there",
			message.Value(requester.Username), where(c.provider), err)}
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

// MayRead decides whether the requester may read the Secret of a reference. evaluationError is that of the authorizer. The error
// means that there is no answer now.
func (c *Checker) MayRead(ctx context.Context, requester authenticationv1.UserInfo, ref clusterapi.UserRef) (allowed bool, evaluationError string, err error) {
	status, err := c.reviewer.Review(ctx, reviewOf(requester, authorizationv1.ResourceAttributes{
		Verb: "get", Resource: "secrets", Namespace: ref.SecretNamespace, Name: ref.SecretName,
	}))
	return err == nil && status.Allowed, status.EvaluationError, err
}

// MayUse decides whether the requester may have an object of a namespace refer to a Secret: to one of another namespace only if the
// requester may read it, or anybody could act as whoever is named there. The other results are those of MayRead.
func (c *Checker) MayUse(
	ctx context.Context, requester authenticationv1.UserInfo, ref clusterapi.UserRef, namespace string,
) (allowed bool, evaluationError string, err error) {
	// On kcp no Secret names a user (clusterapi.UserRefUnguarded), and in the provider's workspace it would be another Secret.
	if ref.SecretName == "" || ref.SecretNamespace == namespace || c.provider != "" {
		return true, "", nil
	}
	return c.MayRead(ctx, requester, ref)
}

// knownAs returns as whom the requester is known where its permissions are checked. The error says why it is not believed.
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

// OrHaveItGranted says what to do about a refusal. What would grant the permission follows.
const OrHaveItGranted = "; name a user whom you may impersonate, or have it granted: "

// Refusal says that the requester may not impersonate the user, and what would permit it. It has the commands for that if the text
// then has at most so many bytes.
func (v Verdict) Refusal(room int) string {
	text := v.text(fmt.Sprintf("%q", message.Value(v.email)), where(v.provider))
	if commands := v.grant(); commands != "" && len(text)+len(commands) <= room {
		return text + commands
	}
	return v.RefusalOf(fmt.Sprintf("%q", message.Value(v.email)))
}

// RefusalOf is the refusal without commands, which names the user in other words.
func (v Verdict) RefusalOf(whom string) string {
	place := where(v.provider)
	if v.known.Username != v.requester.Username && v.known.Username != user.Anonymous {
		place += fmt.Sprintf(", where it is user %q", message.Value(v.known.Username))
	}
	return v.text(whom, place) + v.grantInWords()
}

func (v Verdict) text(whom, place string) string {
	return fmt.Sprintf("user %q may not impersonate %s%s%s", message.Value(v.requester.Username), whom, place, OrHaveItGranted)
}

// where says in which workspace a permission is missing, if that is not the requester's own.
func where(provider logicalcluster.Name) string {
	if provider == "" {
		return ""
	}
	return fmt.Sprintf(" in logical cluster %q, the provider's workspace", provider)
}
