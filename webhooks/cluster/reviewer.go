package cluster

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
)

// Reviewer tells what somebody may do.
type Reviewer interface {
	// Review answers before ctx ends. An error means that there is no answer.
	Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
}

// NewReviewer returns a reviewer that asks the API server which config reaches.
func NewReviewer(config *rest.Config) (Reviewer, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server has its own fairness; ours would make an admission wait
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for SubjectAccessReviews: %w", err)
	}
	return apiServer{reviews: client.SubjectAccessReviews()}, nil
}

type apiServer struct {
	reviews authorizationclient.SubjectAccessReviewInterface
}

// Review implements Reviewer.
func (s apiServer) Review(
	ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	review, err := s.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, fmt.Errorf("ask what the requester may do: %w", err)
	}
	return review.Status, nil
}

// mayImpersonate asks whether the requester may act as a user. RBAC goes by the exact name, while emails are compared
// without regard to case: the right to either spelling, as it is written or in lower case, is enough.
func (g *Gate) mayImpersonate(
	ctx context.Context, requester authenticationv1.UserInfo, email string,
) (allowed bool, evaluationErrors []string, err error) {
	spellings := []string{email}
	if lower := ownership.LowerEmail(email); lower != email {
		spellings = append(spellings, lower)
	}
	for _, name := range spellings {
		status, err := g.reviewer.Review(ctx, question(requester, authorizationv1.ResourceAttributes{
			Verb: "impersonate", Resource: "users", Name: name,
		}))
		if err != nil || status.Allowed {
			return status.Allowed, nil, err
		}
		if status.EvaluationError != "" {
			evaluationErrors = append(evaluationErrors, status.EvaluationError)
		}
	}
	return false, evaluationErrors, nil
}

// knownAs returns as whom the requester is known where its permissions are checked. The error says why it is not believed.
func (g *Gate) knownAs(requester authenticationv1.UserInfo) (authenticationv1.UserInfo, error) {
	if g.provider == "" {
		return requester, nil
	}
	extra := make(map[string][]string, len(requester.Extra))
	for key, values := range requester.Extra {
		extra[key] = values
	}
	known, err := identity.Elsewhere(identity.Owner{
		Username: requester.Username, UID: requester.UID, Groups: requester.Groups, Extra: extra,
	}, g.provider)
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

// forged refuses a requester that claims to be what it cannot be.
func (g *Gate) forged(requester authenticationv1.UserInfo, err error) webhooks.Answer {
	return denied("HomeOutOfScope", fmt.Sprintf("user %q cannot be told apart from others%s: %v; "+
		"use the service account's own token, as one that was impersonated in another workspace has no permissions there",
		message.Value(requester.Username), g.where(), err))
}

// where says in which workspace a permission is missing, if that is not the requester's own.
func (g *Gate) where() string {
	if g.provider == "" {
		return ""
	}
	return fmt.Sprintf(" in logical cluster %q, the provider's workspace", g.provider)
}

// knownThere says who the requester is there, if that is another name.
func (*Gate) knownThere(requester, known authenticationv1.UserInfo) string {
	if known.Username == requester.Username || known.Username == user.Anonymous {
		return ""
	}
	return fmt.Sprintf(", where it is user %q", message.Value(known.Username))
}

// getSecret asks whether the requester may read a Secret.
func getSecret(requester authenticationv1.UserInfo, ref clusterapi.UserRef) authorizationv1.SubjectAccessReviewSpec {
	return question(requester, authorizationv1.ResourceAttributes{
		Verb: "get", Resource: secrets.Resource, Namespace: ref.SecretNamespace, Name: ref.SecretName,
	})
}

func question(
	requester authenticationv1.UserInfo, attributes authorizationv1.ResourceAttributes,
) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(requester.Extra))
	for key, values := range requester.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: requester.Username, UID: requester.UID, Groups: requester.Groups, Extra: extra, ResourceAttributes: &attributes,
	}
}
