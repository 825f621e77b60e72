package cluster_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/webhookstest"
)

const (
	scopesKey  = "authentication.kcp.io/scopes"
	homeKey    = "authentication.kcp.io/cluster-name"
	warrantKey = "authorization.kcp.io/warrant"
)

// TestOnKCPTheProviderAuthorizes compares the user of the review for a requester of another workspace, and the message of a denial.
func TestOnKCPTheProviderAuthorizes(t *testing.T) {
	type extra = map[string]authenticationv1.ExtraValue
	const (
		bot     = "system:serviceaccount:default:bot"
		subject = `spec.userEmail of CloudSigmaCluster "prod" of namespace "team-a": `
		where   = ` in logical cluster "pppppppp", the provider's workspace`
		end     = "; name a user that you may impersonate, or have it granted: "
		role    = "kubectl ws :pppppppp; kubectl create clusterrole warrantgate:impersonate:tenant@example.com --verb=impersonate --resource=users " +
			"--resource-name=tenant@example.com; kubectl create clusterrolebinding warrantgate:impersonate:tenant@example.com:"
		to     = " --clusterrole=warrantgate:impersonate:tenant@example.com "
		access = "; kubectl create clusterrolebinding warrantgate:access:"
		forged = " in logical cluster \"pppppppp\", the provider's workspace: its scopes do not include the home that it claims; " +
			"use the service account's own token, as one that was impersonated in another workspace has no permissions there"
	)
	impersonateAs := func(user string, groups []string, extra map[string]authorizationv1.ExtraValue) []authorizationv1.SubjectAccessReviewSpec {
		return []authorizationv1.SubjectAccessReviewSpec{{
			User: user, Groups: groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: "tenant@example.com"},
		}}
	}
	authenticated := []string{"system:authenticated"}
	for name, tc := range map[string]struct {
		requester     authenticationv1.UserInfo
		wantRequested []authorizationv1.SubjectAccessReviewSpec
		wantReason    string // default: ImpersonationNotAllowed
		wantMessage   string
	}{
		"a user who signed in, with all fields": {
			requester:     authenticationv1.UserInfo{Username: "alice", Groups: authenticated, Extra: extra{warrantKey: {`{"user":"carol"}`}}},
			wantRequested: impersonateAs("alice", authenticated, map[string]authorizationv1.ExtraValue{warrantKey: {`{"user":"carol"}`}}),
			wantMessage: `user "alice" may not impersonate "tenant@example.com"` + where + end + role + "2bd806c9" + to + "--user=alice" +
				access + "2bd806c9 --clusterrole=system:kcp:workspace:access --user=alice",
		},
		"a service account of another workspace, by its global name": {
			requester: authenticationv1.UserInfo{
				Username: bot, UID: "1", Groups: []string{"system:serviceaccounts", "system:authenticated"},
				Extra: extra{homeKey: {"wwwwwwww"}, scopesKey: {"cluster:wwwwwwww"}, warrantKey: {`{"user":"carol"}`}},
			},
			wantRequested: impersonateAs("system:kcp:serviceaccount:wwwwwwww:default:bot", []string{"system:authenticated", "system:cluster:wwwwwwww"}, nil),
			wantMessage: `user "` + bot + `" may not impersonate "tenant@example.com"` + where + end + role + "82e3bca3" + to +
				"--user=system:kcp:serviceaccount:wwwwwwww:default:bot" + access + "82e3bca3 --clusterrole=system:kcp:workspace:access " +
				"--user=system:kcp:serviceaccount:wwwwwwww:default:bot",
		},
		"a service account of the provider's workspace, which needs no access, by its own name": {
			requester:     authenticationv1.UserInfo{Username: bot, Groups: authenticated, Extra: extra{homeKey: {"pppppppp"}, scopesKey: {"cluster:pppppppp"}}},
			wantRequested: impersonateAs(bot, authenticated, map[string]authorizationv1.ExtraValue{homeKey: {"pppppppp"}, scopesKey: {"cluster:pppppppp"}}),
			wantMessage: `user "` + bot + `" may not impersonate "tenant@example.com"` + where + end + role + "edf06253" + to +
				"--serviceaccount=default:bot",
		},
		"a service account of a forged home has no review": {
			requester:   authenticationv1.UserInfo{Username: bot, Groups: authenticated, Extra: extra{homeKey: {"vvvvvvvv"}, scopesKey: {"cluster:wwwwwwww"}}},
			wantReason:  "HomeOutOfScope",
			wantMessage: `user "` + bot + `" cannot be distinguished from others` + forged,
		},
		"a user that the author of a WorkspaceType can impersonate has no review": {
			requester:  authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:kcp:initializer:xxxxxxxx:trap", "system:masters", "system:authenticated"}},
			wantReason: "IdentityClaimed",
			wantMessage: `user "alice" cannot be distinguished from others` + where + ": the request came through a virtual workspace of kcp, " +
				"where the author of a WorkspaceType or an APIExport can impersonate everybody; write the object without that virtual workspace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer := reviewerThatAllows()
			r := request(t, "cloudsigmaclusters", nil, clusterWith(object{"userEmail": "tenant@example.com"}))
			r.UserInfo = tc.requester
			got := newForProvider(enforced, reviewer, &fakeUsers{}).Review(t.Context(), r)
			reason := tc.wantReason
			if reason == "" {
				reason = "ImpersonationNotAllowed"
			}
			want := webhookstest.Answer{Decision: webhooks.Denied, Reason: reason, Field: "spec.userEmail", Message: subject + tc.wantMessage}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(webhookstest.Answer{}, "Details", "Events")); diff != "" {
				t.Errorf("Review() (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRequested, reviewer.requested, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
			if len(got.Message) > 1024-80 {
				t.Errorf("%d bytes", len(got.Message))
			}

			if tc.wantReason != "" {
				return
			}
			allowing := newForProvider(enforced, reviewerThatAllows(tc.wantRequested...), &fakeUsers{})
			if got := allowing.Review(t.Context(), r); got.Decision != webhooks.Allowed || got.Reason != "ImpersonationAllowed" {
				t.Errorf("Review() with permission = %v", got)
			}
			failing := newForProvider(enforced, &fakeReviewer{err: errors.New("no")}, &fakeUsers{})
			if got := failing.Review(t.Context(), r); got.Decision != webhooks.Undecided || got.Reason != "ImpersonationUnknown" {
				t.Errorf("Review() without a response = %v", got)
			}
		})
	}
}

// On kcp no gate checks Secrets. There is no review in the provider's workspace for reading one, because it would be another Secret.
func TestOnKCPNoSecretNamesAUser(t *testing.T) {
	reviewer := reviewerThatAllows()
	users := &fakeUsers{err: &clusterapi.AccountError{Reason: clusterapi.UserRefUnguarded, Message: "spec.userRef: no gate"}}
	for _, namespace := range []string{"", "team-a", "team-b"} {
		got := newForProvider(enforced, reviewer, users).Review(t.Context(),
			request(t, "cloudsigmaclusters", nil, clusterWith(object{"userRef": userRef("user", namespace)})))
		if got.Decision != webhooks.Denied || got.Reason != string(clusterapi.UserRefUnguarded) {
			t.Errorf("Review() = %v, %s", got.Decision, got.Reason)
		}
		if want := `spec.userRef of CloudSigmaCluster "prod" of namespace "team-a": no gate`; got.Message != want {
			t.Errorf("message %q, want %q", got.Message, want)
		}
	}
	if len(reviewer.requested) > 0 {
		t.Errorf("reviews %v", reviewer.requested)
	}
}
