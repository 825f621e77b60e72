package audit_test

import (
	"context"
	"errors"
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

// permissions are the users that each user and group may impersonate.
type permissions map[string][]string

// Review implements impersonation.Reviewer.
func (p permissions) Review(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	if spec.User == "unlucky" {
		return authorizationv1.SubjectAccessReviewStatus{}, errors.New("etcd is away")
	}
	want := authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: spec.ResourceAttributes.Name}
	allowed := slices.ContainsFunc(append(spec.Groups, spec.User), func(by string) bool { return slices.Contains(p[by], spec.ResourceAttributes.Name) })
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed && *spec.ResourceAttributes == want}, nil
}

const (
	byAlice   = `{"username":"alice","groups":["team"]}`
	byBob     = `{"username":"bob"}`
	byUnlucky = `{"username":"unlucky"}`
	mayNot    = "who named its user has no permission for it now: "
	unknownBy = "it is not recorded who named its user, so the permission for it cannot be checked again; somebody who may impersonate the user adds the " +
		"record: kubectl annotate --overwrite --namespace team cloudsigmaclusters.infrastructure.cluster.x-k8s.io pool warrantgate.dev/user-named-by=me"
)

func TestAuthors(t *testing.T) {
	byEmail := func(records ...string) clusterapi.Named { return clusterapi.Named{User: tsap.User, Records: records} }
	bySecret := func(records ...string) clusterapi.Named {
		return clusterapi.Named{User: tsap.User, Secret: types.NamespacedName{Namespace: "team", Name: "user"}, Records: records}
	}
	byBot := `{"username":"system:serviceaccount:default:bot","groups":["system:authenticated"],"extra":` +
		`{"authentication.kcp.io/cluster-name":["home"],"authentication.kcp.io/scopes":["cluster:home"]}}`
	for name, tc := range map[string]struct {
		named   clusterapi.Named
		may     permissions
		want    []string
		wantErr string
	}{
		"the author may": {named: byEmail(byAlice), may: permissions{"alice": {tsap.User}}},
		"a group may":    {named: byEmail(byAlice), may: permissions{"team": {tsap.User}}},
		"the author may, in the letters of the cluster": {
			named: clusterapi.Named{User: "TSAP@example.com", Records: []string{byAlice}}, may: permissions{"alice": {"TSAP@example.com"}},
		},
		"the permission was revoked": {named: byEmail(byAlice), may: permissions{"alice": {"other@example.com"}, "bob": {tsap.User}}, want: []string{
			"AuthorNotAllowed " + mayNot + `user "alice" may not impersonate "tsap@example.com"; name a user that you may impersonate, or have it granted: ` +
				"kubectl create clusterrole warrantgate:impersonate:tsap@example.com --verb=impersonate --resource=users --resource-name=tsap@example.com; " +
				"kubectl create clusterrolebinding warrantgate:impersonate:tsap@example.com:alice --clusterrole=warrantgate:impersonate:tsap@example.com --user=alice",
		}},
		"the author of the Secret may":  {named: bySecret(byBob, byAlice), may: permissions{"alice": {tsap.User}}},
		"the author of the cluster may": {named: bySecret(byAlice, byBob), may: permissions{"alice": {tsap.User}}},
		"neither may, and the Secret is not disclosed": {named: bySecret(byBob, byAlice), want: []string{
			"AuthorNotAllowed " + mayNot + `user "alice" may not impersonate the user that Secret "user" of namespace "team" names; name a user that you may ` +
				"impersonate, or have it granted: verb impersonate on resource users, by the name of this user in lower case",
		}},
		"no record":                             {named: byEmail(), may: permissions{"alice": {tsap.User}}, want: []string{"AuthorUnknown " + unknownBy}},
		"a record that warrantgate never wrote": {named: byEmail("me"), want: []string{"AuthorUnknown " + unknownBy}},
		"no user":                               {named: clusterapi.Named{Records: []string{byBob}}},
		"permissions cannot be checked": {
			named: byEmail(byUnlucky), wantErr: "permissions of the authors of clusters: etcd is away",
		},
		"on kcp, a service account by its global name": {
			named: clusterapi.Named{User: tsap.User, Provider: "provider", Records: []string{byBot}},
			may:   permissions{"system:kcp:serviceaccount:home:default:bot": {tsap.User}},
		},
		"on kcp, a service account has no permissions by its own name": {
			named: clusterapi.Named{User: tsap.User, Provider: "provider", Records: []string{byBot}},
			may:   permissions{"system:serviceaccount:default:bot": {tsap.User}},
			want: []string{"AuthorNotAllowed " + mayNot + `user "system:serviceaccount:default:bot" may not impersonate "tsap@example.com" in logical cluster ` +
				`"provider", the provider's workspace; name a user that you may impersonate, or have it granted: `},
		},
		"on kcp, a service account that was impersonated elsewhere": {
			named: clusterapi.Named{User: tsap.User, Provider: "provider", Records: []string{strings.ReplaceAll(byBot, `["home"]`, `["forged"]`)}},
			want:  []string{"AuthorNotAllowed " + mayNot + `user "system:serviceaccount:default:bot" cannot be distinguished from others in logical cluster "provider"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			audited := newAudit(fakeObjects{accounts: map[string]any{"team/pool": tsap}, named: map[string]clusterapi.Named{"team/pool": tc.named}}, &fakeCloud{})
			audited.Checker = func(provider logicalcluster.Name) (*impersonation.Checker, error) {
				if provider == "" {
					return impersonation.NewChecker(tc.may), nil
				}
				return impersonation.NewProviderChecker(tc.may, provider), nil
			}
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
				if i < len(tc.want) && strings.HasPrefix(tc.named.Provider.String(), "provider") { // the commands have a test of their own
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
