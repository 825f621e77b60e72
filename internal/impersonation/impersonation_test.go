package impersonation_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/impersonation"
)

// fakeReviewer permits the names of users or Secrets in allowed, and records the reviews.
type fakeReviewer struct {
	allowed  []string
	err      error
	reviewed []string
	specs    []authorizationv1.SubjectAccessReviewSpec
}

var _ impersonation.Reviewer = &fakeReviewer{}

func (r *fakeReviewer) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	of := spec.ResourceAttributes
	r.specs = append(r.specs, spec)
	r.reviewed = append(r.reviewed, strings.Join([]string{spec.User, of.Verb, of.Resource, of.Namespace, of.Name}, " "))
	for _, name := range r.allowed {
		if name == of.Name {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, r.err
		}
	}
	return authorizationv1.SubjectAccessReviewStatus{EvaluationError: "no role for " + of.Name}, r.err
}

var (
	alice = authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
	bot   = authenticationv1.UserInfo{
		Username: "system:serviceaccount:default:bot", Groups: []string{"system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{"authentication.kcp.io/cluster-name": {"wwwwwwww"}},
	}
	// elsewhere is the identity of bot when it is impersonated in another workspace.
	elsewhere = authenticationv1.UserInfo{
		Username: bot.Username, Groups: bot.Groups, Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kcp.io/cluster-name": {"wwwwwwww"}, "authentication.kcp.io/scopes": {"cluster:xxxxxxxx"},
		},
	}
)

func TestMayImpersonate(t *testing.T) {
	const impersonate = " impersonate users  "
	const known = "system:kcp:serviceaccount:wwwwwwww:default:bot"
	for name, tc := range map[string]struct {
		requester  authenticationv1.UserInfo
		provider   logicalcluster.Name
		email      string
		reviewer   fakeReviewer
		want       bool
		wantErrors []string
		wantAsked  []string
	}{
		"in the written case": {
			requester: alice, email: "Bob@example.com", reviewer: fakeReviewer{allowed: []string{"Bob@example.com"}},
			want: true, wantAsked: []string{"alice" + impersonate + "Bob@example.com"},
		},
		"in lower case": {
			requester: alice, email: "Bob@example.com", reviewer: fakeReviewer{allowed: []string{"bob@example.com"}},
			want: true, wantAsked: []string{"alice" + impersonate + "Bob@example.com", "alice" + impersonate + "bob@example.com"},
		},
		"neither": {
			requester: alice, email: "Bob@example.com", reviewer: fakeReviewer{allowed: []string{"carol@example.com"}},
			wantErrors: []string{"no role for Bob@example.com", "no role for bob@example.com"},
			wantAsked:  []string{"alice" + impersonate + "Bob@example.com", "alice" + impersonate + "bob@example.com"},
		},
		"in the provider's workspace, by the global name": {
			requester: bot, provider: "pppppppp", email: "bob@example.com", reviewer: fakeReviewer{allowed: []string{"bob@example.com"}},
			want: true, wantAsked: []string{known + impersonate + "bob@example.com"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			checker := impersonation.NewChecker(&tc.reviewer)
			if tc.provider != "" {
				checker = impersonation.NewProviderChecker(&tc.reviewer, tc.provider)
			}
			verdict, err := checker.MayImpersonate(t.Context(), tc.requester, tc.email)
			if err != nil || verdict.Allowed != tc.want {
				t.Errorf("MayImpersonate() = %t, %v, want %t", verdict.Allowed, err, tc.want)
			}
			if diff := cmp.Diff(tc.wantErrors, verdict.EvaluationErrors); diff != "" {
				t.Errorf("evaluation errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAsked, tc.reviewer.reviewed); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMayImpersonateFails(t *testing.T) {
	failing := &fakeReviewer{allowed: []string{"bob@example.com"}, err: errors.New("boom")}
	if verdict, err := impersonation.NewChecker(failing).MayImpersonate(t.Context(), alice, "bob@example.com"); !errors.Is(err, failing.err) || verdict.Allowed {
		t.Errorf("MayImpersonate() = %t, %v, want boom", verdict.Allowed, err)
	}
	reviewer := &fakeReviewer{allowed: []string{"bob@example.com"}}
	verdict, err := impersonation.NewProviderChecker(reviewer, "pppppppp").MayImpersonate(t.Context(), elsewhere, "bob@example.com")
	var outOfScope *impersonation.OutOfScopeError
	if !errors.As(err, &outOfScope) || verdict.Allowed || len(reviewer.reviewed) > 0 {
		t.Fatalf("MayImpersonate() = %t, %v, want an OutOfScopeError and no review", verdict.Allowed, err)
	}
	const prefix = `user "system:serviceaccount:default:bot" cannot be distinguished from others in logical cluster "pppppppp", the provider's workspace: `
	const suffix = "; use the service account's own token, as one that was impersonated in another workspace has no permissions there"
	if !strings.HasPrefix(err.Error(), prefix) || !strings.HasSuffix(err.Error(), suffix) {
		t.Errorf("error %q", err)
	}
}

// TestReviewInProvidersWorkspace checks the whole identity of a review: its groups and extra fields decide which permissions apply.
func TestReviewInProvidersWorkspace(t *testing.T) {
	reviewer := &fakeReviewer{}
	requester := authenticationv1.UserInfo{
		Username: "alice", UID: "u1", Groups: []string{"team-a"}, Extra: map[string]authenticationv1.ExtraValue{"example.com/team": {"a", "b"}},
	}
	if _, err := impersonation.NewProviderChecker(reviewer, "pppppppp").MayImpersonate(t.Context(), requester, "bob@example.com"); err != nil {
		t.Fatal(err)
	}
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User: "alice", UID: "u1", Groups: []string{"team-a"}, Extra: map[string]authorizationv1.ExtraValue{"example.com/team": {"a", "b"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: "bob@example.com"},
	}}
	if diff := cmp.Diff(want, reviewer.specs); diff != "" {
		t.Errorf("reviews (-want +got):\n%s", diff)
	}
}

func TestMayUse(t *testing.T) {
	other := clusterapi.UserRef{SecretNamespace: "team-b", SecretName: "user"}
	for name, tc := range map[string]struct {
		ref       clusterapi.UserRef
		provider  logicalcluster.Name
		allowed   []string
		want      bool
		wantAsked []string
	}{
		"an email":                       {ref: clusterapi.UserRef{Email: "bob@example.com"}, want: true},
		"no Secret":                      {want: true},
		"a Secret of the same namespace": {ref: clusterapi.UserRef{SecretNamespace: "team-a", SecretName: "user"}, want: true},
		"a Secret of another namespace, readable":   {ref: other, allowed: []string{"user"}, want: true, wantAsked: []string{"alice get secrets team-b user"}},
		"a Secret of another namespace, unreadable": {ref: other, wantAsked: []string{"alice get secrets team-b user"}},
		"on kcp, where no Secret names a user":      {ref: other, provider: "pppppppp", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer := &fakeReviewer{allowed: tc.allowed}
			checker := impersonation.NewChecker(reviewer)
			if tc.provider != "" {
				checker = impersonation.NewProviderChecker(reviewer, tc.provider)
			}
			got, evaluationError, err := checker.MayUse(t.Context(), alice, tc.ref, "team-a")
			if err != nil || got != tc.want || (evaluationError != "") == tc.want {
				t.Errorf("MayUse() = %t, %q, %v, want %t", got, evaluationError, err, tc.want)
			}
			if diff := cmp.Diff(tc.wantAsked, reviewer.reviewed); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
		})
	}
	failing := &fakeReviewer{allowed: []string{"user"}, err: errors.New("boom")}
	if got, _, err := impersonation.NewChecker(failing).MayUse(t.Context(), alice, other, "team-a"); got || !errors.Is(err, failing.err) {
		t.Errorf("MayUse() = %t, %v, want boom", got, err)
	}
}

func TestRefusal(t *testing.T) {
	const granted = "; name a user that you may impersonate, or have it granted: "
	const inWords = "verb impersonate on resource users, by the name of this user in lower case"
	denial := func(c *impersonation.Checker, requester authenticationv1.UserInfo, email string) impersonation.Verdict {
		verdict, err := c.MayImpersonate(t.Context(), requester, email)
		if err != nil {
			t.Fatal(err)
		}
		return verdict
	}
	kubernetes, provider := impersonation.NewChecker(&fakeReviewer{}), impersonation.NewProviderChecker(&fakeReviewer{}, "pppppppp")
	const inProvider = ` in logical cluster "pppppppp", the provider's workspace`
	named := func(name string) authenticationv1.UserInfo { return authenticationv1.UserInfo{Username: name} }
	scoped := authenticationv1.UserInfo{
		Username: "alice", Extra: map[string]authenticationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:xxxxxxxx"}},
	}
	const (
		role         = "warrantgate:impersonate:bob@example.com"
		createRole   = "kubectl create clusterrole " + role + " --verb=impersonate --resource=users --resource-name=bob@example.com; "
		withCommands = `user "alice" may not impersonate "bob@example.com"` + granted + createRole +
			"kubectl create clusterrolebinding " + role + ":alice --clusterrole=" + role + " --user=alice"
		ofAlice = `user "alice" may not impersonate another user` + granted + inWords
		bound   = "system:kcp:serviceaccount:wwwwwwww:default:bot"
		ofBot   = inProvider + `, where it is user "` + bound + `"` + granted + inWords + ", and ClusterRole system:kcp:workspace:access"
		// unbound is the advice for an identity that is anonymous in the provider's workspace.
		unbound = inProvider + granted + inWords + `, to an identity that is not confined to other workspaces as "alice" is (an impersonated one always is)`
	)
	for name, tc := range map[string]struct {
		verdict             impersonation.Verdict
		room                int
		want, wantOfAnybody string
	}{
		"with commands": {
			verdict: denial(kubernetes, alice, "Bob@example.com"), room: 900,
			want: `user "alice" may not impersonate "Bob@example.com"` + granted +
				"kubectl create clusterrole warrantgate:impersonate:bob@example.com --verb=impersonate --resource=users --resource-name=bob@example.com; " +
				"kubectl create clusterrolebinding warrantgate:impersonate:bob@example.com:alice --clusterrole=warrantgate:impersonate:bob@example.com --user=alice",
			wantOfAnybody: `user "alice" may not impersonate another user` + granted + inWords,
		},
		"too long for commands": {
			verdict: denial(kubernetes, alice, "bob@example.com"), room: 100,
			want:          `user "alice" may not impersonate "bob@example.com"` + granted + inWords,
			wantOfAnybody: `user "alice" may not impersonate another user` + granted + inWords,
		},
		"an email that needs quotes": {
			verdict: denial(kubernetes, alice, "o'brien;rm@example.com"), room: 900,
			want: `user "alice" may not impersonate "o'brien;rm@example.com"` + granted +
				`kubectl create clusterrole 'warrantgate:impersonate:o'\''brien;rm@example.com' --verb=impersonate --resource=users ` +
				`--resource-name='o'\''brien;rm@example.com'; kubectl create clusterrolebinding 'warrantgate:impersonate:o'\''brien;rm@example.com:alice' ` +
				`--clusterrole='warrantgate:impersonate:o'\''brien;rm@example.com' --user=alice`,
			wantOfAnybody: `user "alice" may not impersonate another user` + granted + inWords,
		},
		"an email that is not valid in the name of a role": {
			verdict: denial(kubernetes, alice, "bob/rm@example.com"), room: 900,
			want:          `user "alice" may not impersonate "bob/rm@example.com"` + granted + inWords,
			wantOfAnybody: `user "alice" may not impersonate another user` + granted + inWords,
		},
		"in the provider's workspace, with words": {
			verdict: denial(provider, bot, "bob@example.com"), room: 100,
			want: `user "system:serviceaccount:default:bot" may not impersonate "bob@example.com"` + inProvider +
				`, where it is user "system:kcp:serviceaccount:wwwwwwww:default:bot"` + granted + inWords + ", and ClusterRole system:kcp:workspace:access",
			wantOfAnybody: `user "system:serviceaccount:default:bot" may not impersonate another user` + inProvider +
				`, where it is user "system:kcp:serviceaccount:wwwwwwww:default:bot"` + granted + inWords + ", and ClusterRole system:kcp:workspace:access",
		},
		"with commands up to the limit": {
			verdict: denial(kubernetes, alice, "bob@example.com"), room: len(withCommands), want: withCommands, wantOfAnybody: ofAlice,
		},
		"one byte too long for commands": {
			verdict: denial(kubernetes, alice, "bob@example.com"), room: len(withCommands) - 1,
			want: `user "alice" may not impersonate "bob@example.com"` + granted + inWords, wantOfAnybody: ofAlice,
		},
		"in the provider's workspace, with commands": {
			verdict: denial(provider, bot, "bob@example.com"), room: 900,
			want: `user "system:serviceaccount:default:bot" may not impersonate "bob@example.com"` + inProvider + granted +
				"kubectl ws :pppppppp; " + createRole +
				"kubectl create clusterrolebinding " + role + ":82e3bca3 --clusterrole=" + role + " --user=" + bound + "; " +
				"kubectl create clusterrolebinding warrantgate:access:82e3bca3 --clusterrole=system:kcp:workspace:access --user=" + bound,
			wantOfAnybody: `user "system:serviceaccount:default:bot" may not impersonate another user` + ofBot,
		},
		"in the provider's workspace, an email that is not valid in the name of a role": {
			verdict: denial(provider, bot, "bob%rm@example.com"), room: 900,
			want:          `user "system:serviceaccount:default:bot" may not impersonate "bob%rm@example.com"` + ofBot,
			wantOfAnybody: `user "system:serviceaccount:default:bot" may not impersonate another user` + ofBot,
		},
		"in the provider's workspace, an identity that is anonymous there": {
			verdict: denial(provider, scoped, "bob@example.com"), room: 900,
			want:          `user "alice" may not impersonate "bob@example.com"` + unbound,
			wantOfAnybody: `user "alice" may not impersonate another user` + unbound,
		},
		"a user name that needs quotes": {
			verdict: denial(kubernetes, named("al ice"), "bob@example.com"), room: 900,
			want: `user "al ice" may not impersonate "bob@example.com"` + granted + createRole +
				"kubectl create clusterrolebinding '" + role + ":al ice' --clusterrole=" + role + " --user='al ice'",
			wantOfAnybody: `user "al ice" may not impersonate another user` + granted + inWords,
		},
		"a user name with a quote": {
			verdict: denial(kubernetes, named("al'ice"), "bob@example.com"), room: 900,
			want: `user "al'ice" may not impersonate "bob@example.com"` + granted + createRole +
				"kubectl create clusterrolebinding '" + role + `:al'\''ice' --clusterrole=` + role + ` --user='al'\''ice'`,
			wantOfAnybody: `user "al'ice" may not impersonate another user` + granted + inWords,
		},
		"a user name with a line break": {
			verdict: denial(kubernetes, named("al\nice"), "bob@example.com"), room: 900,
			want:          `user "al\nice" may not impersonate "bob@example.com"` + granted + inWords,
			wantOfAnybody: `user "al\nice" may not impersonate another user` + granted + inWords,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.verdict.Message(tc.room)); diff != "" {
				t.Errorf("Message() (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantOfAnybody, tc.verdict.MessageAbout("another user")); diff != "" {
				t.Errorf("MessageAbout() (-want +got):\n%s", diff)
			}
		})
	}
}
