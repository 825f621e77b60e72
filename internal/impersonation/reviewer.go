package impersonation

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Reviewer runs SubjectAccessReviews.
type Reviewer interface {
	// Review returns before ctx ends. An error means that the review failed.
	Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
}

// NewReviewer returns a reviewer that uses the API server of a client configuration.
func NewReviewer(config *rest.Config) (Reviewer, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server limits clients itself; a limit here would only delay admissions
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
		return authorizationv1.SubjectAccessReviewStatus{}, fmt.Errorf("check the permissions of the requester: %w", err)
	}
	return review.Status, nil
}

// reviewOf returns the review of resource attributes for a user.
func reviewOf(
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
