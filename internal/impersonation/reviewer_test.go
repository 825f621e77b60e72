package impersonation_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/internal/impersonation"
)

// asAlice is a review of whether alice may impersonate a user. It has all fields that a review must contain.
var asAlice = authorizationv1.SubjectAccessReviewSpec{
	User: "alice", UID: "u1", Groups: []string{"team-a", "system:authenticated"},
	Extra:              map[string]authorizationv1.ExtraValue{"example.com/scope": {"a", "b"}},
	ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: "tenant@example.com"},
}

func TestReviewerUsesTheAPIServer(t *testing.T) {
	want := authorizationv1.SubjectAccessReviewStatus{EvaluationError: "role not found", Reason: "no"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/apis/authorization.k8s.io/v1/subjectaccessreviews" {
			t.Errorf("request %s %s", r.Method, r.URL.Path)
		}
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		if review.Spec.User != "alice" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if diff := cmp.Diff(asAlice, review.Spec); diff != "" {
			t.Errorf("reviews (-want +got):\n%s", diff)
		}
		review.Status = want
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()

	reviewer, err := impersonation.NewReviewer(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := reviewer.Review(t.Context(), asAlice)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	// The API server limits the rate of reviews. Reviews must not wait for each other in the client.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 40 {
		if _, err := reviewer.Review(ctx, asAlice); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := reviewer.Review(t.Context(), authorizationv1.SubjectAccessReviewSpec{User: "bob"}); err == nil {
		t.Error("no error for a failure of the API server")
	}
}

func TestReviewerWithInvalidConfiguration(t *testing.T) {
	if _, err := impersonation.NewReviewer(&rest.Config{Host: "://"}); err == nil {
		t.Error("no error")
	}
}
