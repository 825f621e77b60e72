package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/identity"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/webhookstest"
)

// tenantRoles is the policy of the tests.
var tenantRoles = identity.CredentialPolicy{
	Roles:     identity.RolePolicy{Required: []string{"load-balancer_member"}, Allowed: []string{"member", "reader"}},
	Operators: identity.Operators{Users: []identity.PrincipalPattern{{Name: "admin"}}},
}

// fakeDelegations has the credentials "tenant" of Secret "keys" in namespace "team-a", and records the requests.
type fakeDelegations struct {
	token     openstack.Token
	err       error
	requested []ownership.Identity
	// instances are those of every account.
	instances []ownership.Instance
}

var _ cluster.Delegations = &fakeDelegations{}

func (d *fakeDelegations) Delegation(_ context.Context, credentials ownership.Identity, policy identity.CredentialPolicy) (openstack.Token, error) {
	d.requested = append(d.requested, credentials)
	if diff := cmp.Diff(tenantRoles, policy); diff != "" {
		return openstack.Token{}, errors.New("another policy: " + diff)
	}
	return d.token, d.err
}

// Instances implements cluster.Proposed.
func (d *fakeDelegations) Instances(context.Context, ownership.Account) ([]ownership.Instance, int, error) {
	return d.instances, 1, nil
}

// newDelegation returns the gate without a gate on machines.
func newDelegation(config v1beta1.ClusterDelegation, delegations *fakeDelegations) webhookstest.Gate {
	with := func(string, string, map[string][]byte) cluster.Proposed { return delegations }
	return newDelegationGate(v1beta1.Cluster{Delegation: config}, tenantRoles, delegations, with, fakeCredentials(nil), nil)
}

// fakeCredentials are the objects that refer to credentials.
type fakeCredentials []clusterapi.Dependent

// CredentialDependents implements cluster.Credentials.
func (c fakeCredentials) CredentialDependents(_ context.Context, _, _ string, clouds []string) ([]clusterapi.Dependent, error) {
	return slices.DeleteFunc(slices.Clone(c), func(d clusterapi.Dependent) bool { return !slices.Contains(clouds, d.Account.Identity.Entry) }), nil
}

// Refers implements cluster.Credentials.
func (c fakeCredentials) Refers(_ context.Context, _ []clusterapi.IdentityField, namespace, secret, cloud string) (bool, error) {
	return slices.ContainsFunc(c, func(d clusterapi.Dependent) bool {
		return d.Account.Identity == ownership.Identity{Namespace: namespace, Secret: secret, Entry: cloud}
	}), nil
}

// referringBy is fakeCredentials with an object whose field refers to all clouds.
type referringBy struct {
	fakeCredentials
	field clusterapi.IdentityField
}

// Refers implements cluster.Credentials.
func (r referringBy) Refers(ctx context.Context, fields []clusterapi.IdentityField, namespace, secret, cloud string) (bool, error) {
	if slices.Contains(fields, r.field) {
		return true, nil
	}
	return r.fakeCredentials.Refers(ctx, fields, namespace, secret, cloud)
}

// tenant is the token of an application credential of the tenant.
var tenant = openstack.Token{
	UserID: "u1", ProjectID: "p1", Roles: []string{"load-balancer_member", "member"}, RequestID: "req-1",
	ApplicationCredential: &openstack.ApplicationCredential{Name: "pool", Restricted: true},
}

var tenantKeys = ownership.Identity{Namespace: "team-a", Secret: "keys", Entry: "tenant"}

// ActingBy implements cluster.Credentials: no Cluster has a reference yet.
func (fakeCredentials) ActingBy(_ context.Context, provider v1beta1.Provider, namespace, name string) ([]clusterapi.Cluster, error) {
	return []clusterapi.Cluster{{Provider: provider, Namespace: namespace, Name: name}}, nil
}

// AccountBy implements cluster.Credentials.
func (fakeCredentials) AccountBy(context.Context, clusterapi.Cluster, string) (ownership.Account, error) {
	return ownership.Account{}, errors.New("nothing is referred to")
}

// onOpenStack is an OpenStackCluster or an OpenStackMachine.
func onOpenStack(identityRef any) object {
	return object{"metadata": metadata(nil), "spec": object{"identityRef": identityRef}}
}

func keysRef(modify ...func(object)) object {
	ref := object{"name": "keys", "cloudName": "tenant"}
	for _, m := range modify {
		m(ref)
	}
	return ref
}

func with(key string, value any) func(object) { return func(o object) { o[key] = value } }

const ofOpenStackCluster = `spec.identityRef of OpenStackCluster "prod" of namespace "team-a": `

func eventOnOpenStack(reason, message string) []events.Event {
	return eventOn("infrastructure.cluster.x-k8s.io/v1beta1", "OpenStackCluster", "prod", reason, message)
}

func tenantDetails() func() []any {
	return details("secret", "keys", "cloudName", "tenant", "userID", "u1", "projectID", "p1", "roles", tenant.Roles, "cloudRequestID", "req-1")
}

func noDetails() func() []any {
	return details("secret", "keys", "cloudName", "tenant", "userID", "", "projectID", "", "roles", []string(nil), "cloudRequestID", "")
}

func TestCredentialsOfClusters(t *testing.T) {
	allowed := webhookstest.Answer{Decision: webhooks.Allowed, Reason: "DelegationAllowed", Field: "spec.identityRef", Details: tenantDetails()}
	unchanged := webhookstest.Answer{Decision: webhooks.Allowed, Reason: "IdentityUnchanged"}
	denial := &ownership.IdentityError{Reason: "RolePrivileged", Message: `cloud "tenant" of Secret "keys": too many: admin`}
	const unanswered = ": the identity provider is unavailable or its response is invalid; try again"
	const noMessage = `OpenStackCluster "prod" refers to no credentials: spec.identityRef.name and spec.identityRef.cloudName have to be set`
	about := func(reason, message string, event func(reason, message string) []events.Event) webhookstest.Answer {
		return answerAbout("spec.identityRef", reason, ofOpenStackCluster+message, event)
	}
	privileged := about("RolePrivileged", denial.Message, eventOnOpenStack)
	privileged.Details = noDetails()
	warned, created := privileged, privileged
	warned.Events = eventOnOpenStack("RolePrivileged", "Admitted with a warning: "+privileged.Message)
	created.Events = nil // there is no object
	const rolesUnknown = `the roles of cloud "tenant" of Secret "keys" could not be determined`
	busy := undecided(about("DelegationUnknown", rolesUnknown+": "+ownership.CauseTenantBusy.Explain(), nil), "TooManyRequests: many")
	busy.Status, busy.RetryAfter = metav1.StatusReasonTooManyRequests, time.Second
	unreadable := about("ClusterUnreadable", `OpenStackCluster "prod": spec.identityRef.name is float64 where a string belongs`, nil)
	unreadable.Status = metav1.StatusReasonInvalid

	for name, tc := range map[string]struct {
		resource      string
		config        v1beta1.ClusterDelegation
		before, after object
		delegations   fakeDelegations
		want          webhookstest.Answer
		unrequested   bool
	}{
		"a new cluster with the tenant's own":         {after: onOpenStack(keysRef()), want: allowed},
		"another Secret":                              {before: onOpenStack(keysRef(with("name", "old"))), after: onOpenStack(keysRef()), want: allowed},
		"another entry":                               {before: onOpenStack(keysRef(with("cloudName", "old"))), after: onOpenStack(keysRef()), want: allowed},
		"another region":                              {before: onOpenStack(keysRef()), after: onOpenStack(keysRef(with("region", "west"))), want: allowed},
		"a cluster with a malformed reference before": {before: onOpenStack("keys"), after: onOpenStack(keysRef()), want: allowed},
		"the same, with all fields":                   {before: onOpenStack(keysRef()), after: onOpenStack(keysRef(with("type", "Secret"))), want: unchanged, unrequested: true},
		"a machine with its own":                      {resource: "openstackmachines", after: onOpenStack(keysRef()), want: allowed},
		"roles that may not be delegated": {
			before: onOpenStack(nil), after: onOpenStack(keysRef()), delegations: fakeDelegations{err: denial}, want: privileged,
		},
		"roles that may not be delegated, of a cluster that is not created": {after: onOpenStack(keysRef()), delegations: fakeDelegations{err: denial}, want: created},
		"a gate that only warns": {
			config: v1beta1.ClusterDelegation{Mode: v1beta1.Warn}, before: onOpenStack(nil), after: onOpenStack(keysRef()), delegations: fakeDelegations{err: denial},
			want: warned,
		},
		"a Keystone that does not respond": {
			before: onOpenStack(nil), after: onOpenStack(keysRef()),
			delegations: fakeDelegations{err: &ownership.UnknownError{Cause: ownership.CauseIdentityProvider, Err: errors.New("503")}},
			want:        undecided(about("DelegationUnknown", rolesUnknown+unanswered, eventOnOpenStack), "IdentityProviderUnavailable: 503"),
		},
		"too many credentials of the tenant at once": {
			after:       onOpenStack(keysRef()),
			delegations: fakeDelegations{err: &ownership.UnknownError{Cause: ownership.CauseTenantBusy, RetryAfter: time.Second, Err: errors.New("many")}},
			want:        busy,
		},
		"an error of another type": {
			after: onOpenStack(keysRef()), delegations: fakeDelegations{err: http.ErrServerClosed},
			want: undecided(about("DelegationUnknown", rolesUnknown+"; try again", nil), "http: Server closed"),
		},
		"no credentials":            {after: onOpenStack(object{}), unrequested: true, want: about("IdentityMissing", noMessage, nil)},
		"a field of the wrong type": {after: onOpenStack(keysRef(with("name", 5))), unrequested: true, want: unreadable},
		"another kind": {
			resource: "kdcclusters", after: kdcWith(nil), unrequested: true,
			want: webhookstest.Answer{Decision: webhooks.Denied, Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: `kdcclusters of group "k8s.kube-dc.com" is not a kind of objects that refer to credentials`},
		},
		"a trust is created with a password": {
			config: v1beta1.ClusterDelegation{Through: v1beta1.Trust}, after: onOpenStack(keysRef()),
			delegations: fakeDelegations{token: openstack.Token{UserID: "u1", ProjectID: "p1", Roles: tenant.Roles, RequestID: "req-1"}}, want: allowed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.resource == "" {
				tc.resource = "openstackclusters"
			}
			if tc.delegations.err == nil && tc.delegations.token.UserID == "" {
				tc.delegations.token = tenant
			}
			gate := newDelegation(tc.config, &tc.delegations)
			got := gate.Review(t.Context(), request(t, tc.resource, tc.before, tc.after))
			compareAnswers(t, tc.want, got)
			want := []ownership.Identity{tenantKeys}
			if tc.unrequested {
				want = nil
			}
			if diff := cmp.Diff(want, tc.delegations.requested); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnlyClustersOfClusterAPIReferToInfrastructure: a resource is identified by its group and name.
func TestOnlyClustersOfClusterAPIReferToInfrastructure(t *testing.T) {
	for _, resource := range []metav1.GroupVersionResource{
		{Group: "example.com", Version: "v1", Resource: "clusters"}, {Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"},
	} {
		r := request(t, "openstackclusters", nil, onOpenStack(keysRef()))
		r.Resource = resource
		want := webhookstest.Answer{Decision: webhooks.Denied, Status: metav1.StatusReasonBadRequest, Reason: "UnknownKind", Message: fmt.Sprintf(
			"%s of group %q is not a kind of objects that refer to credentials", resource.Resource, resource.Group)}
		compareAnswers(t, want, newDelegation(v1beta1.ClusterDelegation{}, &fakeDelegations{}).Review(t.Context(), r))
	}
}

// TestWarningsAboutApplicationCredentials: Magnum creates a trust, which Keystone does not allow with an application credential. An unrestricted one
// can create further ones, which the operator cannot distinguish from those of the tenant.
func TestWarningsAboutApplicationCredentials(t *testing.T) {
	const (
		own = `cloud "tenant" of Secret "keys": application credential "pool" of user "alice" in project "web" is unrestricted: it can create further ` +
			"application credentials of this user, which stay valid after it is deleted; use one that was created without --unrestricted"
		noTrust = "the credentials are an application credential, with which Keystone creates no trust; use the password of " +
			"a user of the tenant. The operator of Keystone can allow it with [security_compliance] " +
			"allow_insecure_application_credential_trust_escalation, but should not: the credential could then delegate roles that it does not have"
	)
	unrestricted := tenant
	unrestricted.UserName, unrestricted.ProjectName = "alice", "web"
	unrestricted.ApplicationCredential = &openstack.ApplicationCredential{Name: "pool"}
	event := func(reason, message string) []events.Event {
		return eventOnOpenStack(reason, "Admitted with a warning: "+ofOpenStackCluster+message)
	}
	for name, tc := range map[string]struct {
		token           openstack.Token
		through         v1beta1.DelegationWay
		reason, message string
		events          []events.Event
	}{
		"a restricted one, with a trust": {
			token: tenant, through: v1beta1.Trust, reason: "ApplicationCredentialWithoutTrust", message: noTrust,
			events: event("ApplicationCredentialWithoutTrust", noTrust),
		},
		"an unrestricted one": {
			token: unrestricted, reason: "ApplicationCredentialUnrestricted", message: own, events: event("ApplicationCredentialUnrestricted", own),
		},
		"an unrestricted one, with a trust": {
			token: unrestricted, through: v1beta1.Trust, reason: "ApplicationCredentialWithoutTrust", message: noTrust + "; " + own,
			events: append(event("ApplicationCredentialWithoutTrust", noTrust), event("ApplicationCredentialUnrestricted", own)...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate := newDelegation(v1beta1.ClusterDelegation{Mode: v1beta1.Enforce, Through: tc.through}, &fakeDelegations{token: tc.token})
			want := webhookstest.Answer{
				Decision: webhooks.Warned, Reason: tc.reason, Field: "spec.identityRef", Message: ofOpenStackCluster + tc.message, Events: tc.events,
				Details: tenantDetails(),
			}
			compareAnswers(t, want, gate.Review(t.Context(), request(t, "openstackclusters", onOpenStack(nil), onOpenStack(keysRef()))))
		})
	}
}

func TestUndecodableObjectsAreDenied(t *testing.T) {
	gate := newDelegation(v1beta1.ClusterDelegation{}, &fakeDelegations{})
	for _, r := range []admission.Request{request(t, "openstackclusters", nil, object{}), referenceRequest(t, nil, to("a"))} {
		for _, raw := range []string{"", "{", "[]", "5", `"x"`} {
			r.Object.Raw = []byte(raw)
			if got := gate.Review(t.Context(), r); got.Decision != webhooks.Denied || got.Reason != "Undecodable" {
				t.Errorf("Review() of %s %q = %+v, want a denial", r.Resource.Resource, raw, got)
			}
		}
	}
}

func TestMatchConditionsSelectReferences(t *testing.T) {
	matches := matcherOf(t, cluster.DelegationHooks(enforced), "delegation", "openstackclusters")
	for name, tc := range map[string]struct {
		old, new any // the references
		create   bool
		want     bool
	}{
		"a new cluster":                {create: true, new: keysRef(), want: true},
		"a new cluster without":        {create: true},
		"a first reference":            {new: keysRef(), want: true},
		"another Secret":               {old: keysRef(), new: keysRef(with("name", "other")), want: true},
		"another entry":                {old: keysRef(), new: keysRef(with("cloudName", "other")), want: true},
		"a region":                     {old: keysRef(), new: keysRef(with("region", "west")), want: true},
		"the same":                     {old: keysRef(), new: keysRef()},
		"the reference is removed":     {old: keysRef(), new: nil},
		"malformed":                    {old: keysRef(), new: "keys", want: true},
		"malformed before":             {old: []any{1}, new: []any{1}},
		"no reference before or after": {},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(ref any) runtime.Object {
				var content map[string]any
				if err := json.Unmarshal(encode(t, onOpenStack(ref)), &content); err != nil {
					t.Fatal(err)
				}
				return &unstructured.Unstructured{Object: content}
			}
			var old runtime.Object
			if !tc.create {
				old = of(tc.old)
			}
			if got := matches(t, old, of(tc.new)); got != tc.want {
				t.Errorf("selected = %t, want %t", got, tc.want)
			}
		})
	}
}

// FuzzDelegation sends objects to the gate that an API server might admit.
func FuzzDelegation(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"spec":{"identityRef":{"name":"keys","cloudName":"tenant"}}}`, `{"spec":{"identityRef":{"name":5}}}`,
		`{"metadata":{"name":"x","ownerReferences":[{"kind":"Cluster"}]},"spec":{"identityRef":null}}`, `{"spec":{"identityRef":{"type":"ClusterIdentity"}}}`,
	} {
		f.Add([]byte(seed), []byte(`{}`))
	}
	gate := newDelegation(v1beta1.ClusterDelegation{}, &fakeDelegations{err: &ownership.IdentityError{Reason: "RoleMissing"}})
	f.Fuzz(func(t *testing.T, after, before []byte) {
		r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, Resource: delegationResources["openstackclusters"],
			Object: runtime.RawExtension{Raw: after}, OldObject: runtime.RawExtension{Raw: before},
		}}
		if got := gate.Review(t.Context(), r); got.Decision == webhooks.Allowed && got.Reason != "IdentityUnchanged" || got.Reason == "" {
			t.Errorf("Review() = %+v", got)
		}
	})
}
