package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/impersonation"
)

// permissions are the users that each user and group may impersonate, and the Secrets that it may get, as "get namespace/name".
type permissions map[string][]string

// Review implements impersonation.Reviewer.
func (p permissions) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	if spec.User == "unlucky" {
		return authorizationv1.SubjectAccessReviewStatus{}, errors.New("etcd is away")
	}
	what, want := spec.ResourceAttributes.Name, authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: spec.ResourceAttributes.Name}
	if spec.ResourceAttributes.Verb == "get" {
		what = "get " + spec.ResourceAttributes.Namespace + "/" + what
		want = authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: spec.ResourceAttributes.Namespace, Name: want.Name}
	}
	allowed := slices.ContainsFunc(append(spec.Groups, spec.User), func(by string) bool { return slices.Contains(p[by], what) })
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed && *spec.ResourceAttributes == want}, nil
}

const (
	byAlice   = `{"username":"alice","groups":["team"]}`
	byBob     = `{"username":"bob"}`
	byUnlucky = `{"username":"unlucky"}`
	mayNot    = "AuthorNotAllowed who named its user has no permission for it now: "
	takeOver  = ", so the permission for it cannot be checked again; somebody who may impersonate the user takes it over: kubectl annotate --overwrite "
	unknown   = "AuthorUnknown it is not recorded who named its user" + takeOver +
		"--namespace team cloudsigmaclusters.infrastructure.cluster.x-k8s.io pool warrantgate.dev/user-named-by=$(date +%s)"
)

func TestAuthors(t *testing.T) {
	byEmail := func(record string) clusterapi.Named { return clusterapi.Named{User: tsap.User, Record: record} }
	bySecret := func(record, secretRecord string) clusterapi.Named {
		return clusterapi.Named{User: tsap.User, Record: record, Secret: types.NamespacedName{Namespace: "team", Name: "user"}, SecretRecord: secretRecord}
	}
	inShared := func(named clusterapi.Named) clusterapi.Named {
		named.Secret.Namespace = "shared"
		return named
	}
	byBot := `{"username":"system:serviceaccount:default:bot","groups":["system:authenticated"],"extra":` +
		`{"authentication.kcp.io/cluster-name":["home"],"authentication.kcp.io/scopes":["cluster:home"]}}`
	onKCP := func(record string) clusterapi.Named {
		return clusterapi.Named{User: tsap.User, Provider: "provider", Record: record}
	}
	both := permissions{"alice": {tsap.User}, "bob": {tsap.User}}
	for name, tc := range map[string]struct {
		named   clusterapi.Named
		may     permissions
		want    []string
		wantErr string
	}{
		"the author may": {named: byEmail(byAlice), may: permissions{"alice": {tsap.User}}},
		"a group may":    {named: byEmail(byAlice), may: permissions{"team": {tsap.User}}},
		"the author may, in the letters of the cluster": {
			named: clusterapi.Named{User: "TSAP@example.com", Record: byAlice}, may: permissions{"alice": {"TSAP@example.com"}},
		},
		"the permission was revoked": {named: byEmail(byAlice), may: permissions{"alice": {"other@example.com"}, "bob": {tsap.User}}, want: []string{
			mayNot + `user "alice" may not impersonate "tsap@example.com"; grant it again: ` +
				"kubectl create clusterrole warrantgate:impersonate:tsap@example.com --verb=impersonate --resource=users --resource-name=tsap@example.com; " +
				"kubectl create clusterrolebinding warrantgate:impersonate:tsap@example.com:alice --clusterrole=warrantgate:impersonate:tsap@example.com --user=alice",
		}},
		"both authors may": {named: bySecret(byAlice, byBob), may: both},
		"only the author of the cluster may, and the other is not disclosed": {
			named: bySecret(byAlice, byBob), may: permissions{"alice": {tsap.User}}, want: []string{
				`AuthorNotAllowed who named the user in Secret "user" of namespace "team" has no permission for it now; somebody who may impersonate the user ` +
					"takes it over: kubectl annotate --overwrite --namespace team secrets user warrantgate.dev/user-named-by=$(date +%s)",
			},
		},
		"only the author of the Secret may, and the user is not disclosed": {
			named: bySecret(byAlice, byBob), may: permissions{"bob": {tsap.User}}, want: []string{
				mayNot + `user "alice" may not impersonate the user that Secret "user" of namespace "team" names; grant it again: ` +
					"verb impersonate on resource users, by the name of this user in lower case",
			},
		},
		"the author may not read the Secret any more": {named: inShared(bySecret(byAlice, byBob)), may: both, want: []string{
			mayNot + `user "alice" may not read Secret "user" of namespace "shared"; grant it again: verb get on this Secret`,
		}},
		"the author may read the Secret": {
			named: inShared(bySecret(byAlice, byBob)), may: permissions{"alice": {tsap.User, "get shared/user"}, "bob": {tsap.User}},
		},
		"no record":         {named: byEmail(""), may: both, want: []string{unknown}},
		"no user":           {named: clusterapi.Named{Record: byBob}},
		"an invalid record": {named: byEmail("me"), may: both, want: []string{unknown}},
		"no record on the Secret": {named: bySecret(byAlice, ""), may: both, want: []string{
			`AuthorUnknown it is not recorded who named the user in Secret "user" of namespace "team"` + takeOver +
				"--namespace team secrets user warrantgate.dev/user-named-by=$(date +%s)",
		}},
		"permissions cannot be checked": {
			named: byEmail(byUnlucky), wantErr: "authors of the users of clusters: etcd is away",
		},
		"on kcp, a service account by its global name": {
			named: onKCP(byBot), may: permissions{"system:kcp:serviceaccount:home:default:bot": {tsap.User}},
		},
		"on kcp, a service account has no permissions by its own name": {
			named: onKCP(byBot), may: permissions{"system:serviceaccount:default:bot": {tsap.User}},
			want: []string{mayNot + `user "system:serviceaccount:default:bot" may not impersonate "tsap@example.com" in logical cluster ` +
				`"provider", the provider's workspace; grant it again: kubectl ws :provider; `},
		},
		"on kcp, a service account that was impersonated elsewhere": {
			named: onKCP(strings.ReplaceAll(byBot, `["home"]`, `["forged"]`)),
			want:  []string{mayNot + `user "system:serviceaccount:default:bot" cannot be distinguished from others in logical cluster "provider"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			audited := newAudit(fakeObjects{accounts: map[string]any{"team/pool": tsap}, named: map[string]clusterapi.Named{"team/pool": tc.named}}, &fakeCloud{})
			audited.Checker = checkerOf(tc.may)
			result, err := audited.Run(t.Context())
			if message := errorText(err); message != tc.wantErr {
				t.Errorf("error = %q, want %q", message, tc.wantErr)
			}
			var got []string
			for i, finding := range result.Findings {
				if finding.Object.Kind != "CloudSigmaCluster" || finding.Object.Name != "pool" {
					t.Errorf("the finding is about %+v", finding.Object)
				}
				text := finding.Reason + " " + finding.Message
				if i < len(tc.want) && tc.named.Provider != "" { // the commands have a test of their own
					text = text[:min(len(text), len(tc.want[i]))]
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func checkerOf(reviewer impersonation.Reviewer) func(provider logicalcluster.Name) (*impersonation.Checker, error) {
	return func(provider logicalcluster.Name) (*impersonation.Checker, error) {
		if provider == "" {
			return impersonation.NewChecker(reviewer), nil
		}
		return impersonation.NewProviderChecker(reviewer, provider), nil
	}
}

// counted counts reviews.
type counted struct {
	impersonation.Reviewer
	count int
}

// Review implements impersonation.Reviewer.
func (c *counted) Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	c.count++
	return c.Reviewer.Review(ctx, spec)
}

// TestAuthorsOfManyClusters: a tenant can create thousands of clusters.
func TestAuthorsOfManyClusters(t *testing.T) {
	objects := fakeObjects{accounts: map[string]any{}, named: map[string]clusterapi.Named{}}
	for i := range 2000 {
		cluster := fmt.Sprintf("team/pool-%d", i)
		objects.accounts[cluster], objects.named[cluster] = tsap, clusterapi.Named{User: tsap.User, Record: []string{byAlice, byBob}[i%2]}
	}
	reviewer := &counted{Reviewer: permissions{"alice": {tsap.User}}}
	audited := newAudit(objects, &fakeCloud{})
	audited.Checker = checkerOf(reviewer)
	result, err := audited.Run(t.Context())
	if err != nil || len(result.Findings) != 1000 {
		t.Errorf("%d findings, error = %v", len(result.Findings), err)
	}
	if reviewer.count != 2 {
		t.Errorf("%d reviews, want one for each author", reviewer.count)
	}
}

// TestAuthorsOfOtherProviders: a failure in the workspace of one provider leaves the others.
func TestAuthorsOfOtherProviders(t *testing.T) {
	objects := fakeObjects{accounts: map[string]any{}, named: map[string]clusterapi.Named{}}
	for i := range 20 {
		cluster := fmt.Sprintf("%c|team/pool", 'a'+i)
		objects.accounts[cluster] = tsap
		objects.named[cluster] = clusterapi.Named{User: tsap.User, Record: byAlice, Provider: logicalcluster.Name([]string{"one", "two"}[i%2])}
	}
	broken := errors.New("no client")
	audited := newAudit(objects, &fakeCloud{})
	audited.Checker = func(provider logicalcluster.Name) (*impersonation.Checker, error) {
		if provider == "two" {
			return nil, broken
		}
		return impersonation.NewProviderChecker(permissions{}, provider), nil
	}
	result, err := audited.Run(t.Context())
	if !errors.Is(err, broken) || len(result.Findings) != 10 {
		t.Errorf("%d findings, error = %v", len(result.Findings), err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestAuthorsAreNotCheckedWithoutRecords: in the modes Off and Warn the gate records nothing.
func TestAuthorsAreNotCheckedWithoutRecords(t *testing.T) {
	audited := newAudit(fakeObjects{
		accounts: map[string]any{"team/pool": tsap}, named: map[string]clusterapi.Named{"team/pool": {User: tsap.User}},
	}, &fakeCloud{})
	if result, err := audited.Run(t.Context()); err != nil || len(result.Findings) > 0 {
		t.Errorf("Run() = %+v, %v", result.Findings, err)
	}
}

// TestOtherFindingsWithoutAuthors: what is found before an error is reported.
func TestOtherFindingsWithoutAuthors(t *testing.T) {
	objects := fakeObjects{
		machines: []clusterapi.Machine{machine("worker", idOther)}, accounts: map[string]any{"team/pool": tsap},
		named: map[string]clusterapi.Named{"team/pool": {User: tsap.User}},
	}
	broken := errors.New("no client")
	audited := newAudit(objects, &fakeCloud{})
	audited.Checker = func(logicalcluster.Name) (*impersonation.Checker, error) { return nil, broken }
	result, err := audited.Run(t.Context())
	if !errors.Is(err, broken) {
		t.Errorf("error = %v", err)
	}
	if !slices.ContainsFunc(result.Findings, func(f audit.Finding) bool { return f.Object.Name == "worker" }) {
		t.Errorf("findings %+v, want that about the machine", result.Findings)
	}
}
