package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/internal/share"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/webhookstest"
)

const (
	aliceID  = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
	tenantID = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"
	// legacyID belongs to the shared account.
	legacyID = "3e7a4c21-3b5d-4f60-9a12-6d0c1e2f3b45"
)

// fakeMachines are the machines by the namespace/name of their cluster.
type fakeMachines struct {
	holders map[string][]clusterapi.Machine
	err     error
}

func (m *fakeMachines) Holders(_ context.Context, cluster clusterapi.Cluster) ([]clusterapi.Machine, error) {
	return append([]clusterapi.Machine(nil), m.holders[cluster.Namespace+"/"+cluster.Name]...), m.err
}

// fakeInstances are the instances of accounts by user, and the tenants that requested them.
type fakeInstances struct {
	own       map[string][]string
	err       error
	requested []ownership.Account
}

func (i *fakeInstances) Instances(
	ctx context.Context, _ share.Tenant, account ownership.Account, lister ownership.Lister,
) ([]ownership.Instance, error) {
	i.requested = append(i.requested, account)
	if lister != nil && i.err == nil {
		instances, _, err := lister.Instances(ctx, account)
		return instances, err
	}
	var found []ownership.Instance
	for _, id := range i.own[account.User] {
		found = append(found, ownership.Instance{ID: id})
	}
	return found, i.err
}

// holder is a machine that names an instance.
func holder(name, id string) clusterapi.Machine {
	same := func(value string) (string, error) {
		if value == "" {
			return "", errors.New("nothing")
		}
		return value, nil
	}
	return clusterapi.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team-a"}, InstanceID: id,
		Kind: clusterapi.Kind{MachineKind: v1beta1.MachineKind{Kind: "CloudSigmaMachine"}, ParseInstanceID: same, ParseProviderID: same},
	}
}

func accountOf(user string) ownership.Account {
	return ownership.Account{Cloud: "cloudsigma", User: user, Region: "next"}
}

func userDependent(namespace, name string) clusterapi.Dependent {
	return clusterapi.Dependent{Account: accountOf(""),
		Cluster: clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: namespace, Name: name}}
}

// TestAClusterKeepsTheUserOfItsInstances has a requester who may impersonate all users.
func TestAClusterKeepsTheUserOfItsInstances(t *testing.T) {
	spec := func(email, region string) object { return clusterWith(object{"userEmail": email, "region": region}) }
	ref := clusterWith(object{"userRef": userRef("user", ""), "region": "next"})
	denied := func(field, owner, listed string) webhookstest.Answer {
		return answerAbout(field, "MachinesHoldInstances", field+ofCluster+`machines of cluster "prod" name instances that do not belong to `+owner+
			` in region "next": `+listed+`; delete these machines or clear their instance IDs first`, eventOnCluster)
	}
	const one = `CloudSigmaMachine "m1" (` + aliceID + `)`
	var many []clusterapi.Machine
	var named string
	for i := range 8 {
		many = append(many, holder(fmt.Sprintf("m%d", i), aliceID))
		if i < 5 {
			named += fmt.Sprintf(`CloudSigmaMachine "m%d" (%s), `, i, aliceID)
		}
	}
	tenants, legacy := accountOf("tenant@example.com"), accountOf("")
	held, owned := []clusterapi.Machine{holder("m1", aliceID)}, []clusterapi.Machine{holder("m2", tenantID)}
	alices, moved, unnamed := spec("alice@example.com", "next"), spec("tenant@example.com", "next"), spec("", "next")
	ofTenant, ofLegacy := []ownership.Account{tenants}, []ownership.Account{legacy}

	for name, tc := range map[string]struct {
		old, new      object // default: from the user Alice to the tenant
		machines      []clusterapi.Machine
		shared        bool
		accountErr    error
		machineErr    error
		cloudErr      error
		want          webhookstest.Answer
		wantRequested []ownership.Account
	}{
		"to another user, who does not own the instances": {
			machines: append(slices.Clone(held), owned...),
			want:     denied("spec.userEmail", `user "tenant@example.com"`, one), wantRequested: ofTenant,
		},
		"to another user, who owns the instances": {machines: owned, want: impersonationAllowed, wantRequested: ofTenant},
		"to another user, without machines":       {want: impersonationAllowed},
		"with more machines than the message names": {
			machines: many, wantRequested: ofTenant,
			want: denied("spec.userEmail", `user "tenant@example.com"`, named+"and 3 more"),
		},
		"to another region": {
			old: spec("tenant@example.com", "zrh"), new: spec("tenant@example.com", "next"), machines: held,
			want: denied("spec.region", `user "tenant@example.com"`, one), wantRequested: ofTenant,
		},
		"to another user, in a region that was not allowed before": {
			old: spec("alice@example.com", "far"), new: spec("tenant@example.com", "far"), machines: owned,
			accountErr: &clusterapi.AccountError{Reason: clusterapi.RegionNotAllowed, Message: "not far"},
			want:       answerAbout("spec.userEmail", "RegionNotAllowed", "spec.userEmail"+ofCluster+"not far", eventOnCluster),
		},
		"to another user, in a region that was not allowed before, without machines": {
			old: spec("alice@example.com", "far"), new: spec("tenant@example.com", "far"),
			accountErr: &clusterapi.AccountError{Reason: clusterapi.RegionNotAllowed, Message: "not far"},
			want:       impersonationAllowed,
		},
		"by a Secret, whose content is not disclosed": {
			new: ref, machines: held,
			want: denied("spec.userRef", `the user that Secret "user" of namespace "team-a" names`, one), wantRequested: ofTenant,
		},
		"to the account that clusters without a user share": {
			new: unnamed, machines: held, shared: true,
			want: denied("spec.userEmail", "the shared account (legacy credentials)", one), wantRequested: ofLegacy,
		},
		"to the account that clusters without a user share, by the removal of a Secret": {
			old: ref, new: clusterWith(object{"region": "next"}), machines: held, shared: true,
			want: denied("spec.userRef", "the shared account (legacy credentials)", one), wantRequested: ofLegacy,
		},
		"to the account that clusters without a user share, in another region": {
			old: spec("", "zrh"), new: unnamed, machines: held, shared: true,
			want: denied("spec.region", "the shared account (legacy credentials)", one), wantRequested: ofLegacy,
		},
		"to the account that clusters without a user share, which owns the instances": {
			new: unnamed, machines: []clusterapi.Machine{holder("m1", legacyID)}, shared: true,
			want: nothingNamed, wantRequested: ofLegacy,
		},
		"to the account that clusters without a user share, without machines": {new: unnamed, shared: true, want: nothingNamed},
		"to no user, without a shared account":                                {new: unnamed, machines: held, machineErr: errors.New("not read"), want: nothingNamed},
		"to no user, by the removal of a Secret, without a shared account": {
			old: ref, new: clusterWith(object{"region": "next"}), machines: held, machineErr: errors.New("not read"),
			want: nothingNamed,
		},
		"not at all": {new: spec("ALICE@example.com", "next"), machines: []clusterapi.Machine{holder("m1", tenantID)}, want: nothingNamed},
		"by a Secret that can no longer be read": {
			new: ref, machines: held, accountErr: errors.New("boom"),
			want: undecided(answerAbout("spec.userRef", "SecretUnknown", "spec.userRef"+ofCluster+"the Secret cannot be read now; try again", eventOnCluster), "boom"),
		},
		"while the machines cannot be read": {
			machineErr: errors.New("boom"),
			want:       undecided(answerAbout("spec.userEmail", "MachinesUnknown", "spec.userEmail"+ofCluster+"the machines of the cluster could not be read; try again", eventOnCluster), "boom"),
		},
		"while the cloud does not respond": {
			machines: held,
			cloudErr: &ownership.UnknownError{Cause: ownership.CauseTimeout, Err: errors.New("late")}, wantRequested: ofTenant,
			want: undecidedHoldings("", "the cloud or its identity provider did not answer in time; try again"),
		},
		"while the tenant sends too many requests": {
			machines: held,
			cloudErr: &ownership.UnknownError{Cause: ownership.CauseTenantBusy, RetryAfter: 2 * time.Second, Err: errors.New("busy")}, wantRequested: ofTenant,
			want: undecidedHoldings(metav1.StatusReasonTooManyRequests, ownership.CauseTenantBusy.Explain()),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.new == nil {
				tc.new = moved
			}
			if tc.old == nil {
				tc.old = alices
			}
			account := tenants
			if tc.shared {
				account = legacy
			}
			instances := &fakeInstances{own: map[string][]string{"tenant@example.com": {tenantID}, "": {legacyID}}, err: tc.cloudErr}
			machines := &fakeMachines{holders: map[string][]clusterapi.Machine{"team-a/prod": tc.machines}, err: tc.machineErr}
			users := &fakeUsers{emails: map[string]string{"team-a/user": "tenant@example.com"}, shared: tc.shared, account: account, accountErr: tc.accountErr}
			gate := newGate(enforced, reviewerThatAllows(impersonate("tenant@example.com")), users,
				cluster.NewHoldings(machines, instances))
			got := gate.Review(t.Context(), request(t, "cloudsigmaclusters", tc.old, tc.new))
			got.Details, tc.want.Details = nil, nil
			compareAnswers(t, tc.want, got)
			if diff := cmp.Diff(tc.wantRequested, instances.requested); diff != "" {
				t.Errorf("lists of instances (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnlyAReaderOfASecretGetsItsUser: the response names the user in a Secret of another namespace to a requester who may read it. The
// Event names the Secret.
func TestOnlyAReaderOfASecretGetsItsUser(t *testing.T) {
	theirs := accountOf("tenant@example.com")
	theirs.UserSecret = types.NamespacedName{Namespace: "team-b", Name: "user"}
	users := &fakeUsers{emails: map[string]string{"team-b/user": "tenant@example.com"}, account: theirs}
	machines := &fakeMachines{holders: map[string][]clusterapi.Machine{"team-a/prod": {holder("m1", aliceID)}}}
	reviewer := reviewerThatAllows(impersonate("tenant@example.com"), getIn("team-b"))
	got := newGate(enforced, reviewer, users, cluster.NewHoldings(machines, &fakeInstances{})).Review(t.Context(),
		request(t, "cloudsigmaclusters", clusterWith(object{"region": "next"}), clusterWith(object{"userRef": userRef("user", "team-b"), "region": "next"})))
	if got.Reason != "MachinesHoldInstances" || !strings.Contains(got.Message, `user "tenant@example.com"`) {
		t.Errorf("the response: %s %s", got.Reason, got.Message)
	}
	for _, event := range got.Events {
		if !strings.Contains(event.Message, `Secret "user" of namespace "team-b"`) || strings.Contains(event.Message, "tenant@example.com") {
			t.Errorf("the Event: %s", event.Message)
		}
	}
	if len(got.Events) != 1 {
		t.Errorf("%d Events", len(got.Events))
	}
}

// TestAClearedSecretKeepsTheUserOfInstances: clusters without a user may share an account, to which the instances do not belong.
func TestAClearedSecretKeepsTheUserOfInstances(t *testing.T) {
	named := map[string][]byte{"userEmail": []byte("alice@example.com")}
	held := `machines of cluster "prod" name instances that do not belong to the shared account (legacy credentials) in region "next": CloudSigmaMachine "m1" (` +
		aliceID + `); delete these machines or clear their instance IDs first`
	for name, tc := range map[string]struct {
		old, new map[string][]byte
		shared   bool
		id       string
		denied   bool
	}{
		"removed, with a shared account":                {old: named, shared: true, id: aliceID, denied: true},
		"emptied, with a shared account":                {old: named, new: map[string][]byte{"userEmail": nil}, shared: true, id: aliceID, denied: true},
		"removed, with a shared account that owns it":   {old: named, shared: true, id: legacyID},
		"removed, without a shared account":             {old: named, id: aliceID},
		"not there before, with a shared account":       {old: map[string][]byte{"x": nil}, shared: true, id: aliceID},
		"removed, with a shared account, but unclaimed": {old: named, shared: true},
	} {
		t.Run(name, func(t *testing.T) {
			machines := &fakeMachines{holders: map[string][]clusterapi.Machine{}}
			if tc.id != "" {
				machines.holders["team-a/prod"] = []clusterapi.Machine{holder("m1", tc.id)}
			}
			users := &fakeUsers{shared: tc.shared, dependents: map[string][]clusterapi.Dependent{"team-a/user": {userDependent("team-a", "prod")}}}
			gate := newGate(enforced, reviewerThatAllows(), users,
				cluster.NewHoldings(machines, &fakeInstances{own: map[string][]string{"": {legacyID}}}))
			r := request(t, "secrets", secretWith(tc.old), secretWith(tc.new))
			r.Name = "user"
			want := nothingNamed
			if tc.denied {
				want = answerAbout("data.userEmail", "MachinesHoldInstances", ofSecret+held, eventOnSecret)
			}
			got := gate.Review(t.Context(), r)
			got.Details = nil
			compareAnswers(t, want, got)
		})
	}
}

func undecidedHoldings(status metav1.StatusReason, why string) webhookstest.Answer {
	message := `spec.userEmail` + ofCluster + `it cannot be checked whether the instances that machines of cluster "prod" name belong to ` +
		`user "tenant@example.com" in region "next": ` + why
	answer := answerAbout("spec.userEmail", "OwnershipUnknown", message, eventOnCluster)
	answer.Decision, answer.Status = webhooks.Undecided, status
	if status != "" {
		answer.RetryAfter = 2 * time.Second
	}
	return answer
}

// TestASecretKeepsTheUserOfInstances: the clusters of other tenants are evaluated, too, and are not disclosed.
func TestASecretKeepsTheUserOfInstances(t *testing.T) {
	const public = `the user that Secret "user" of namespace "team-a" names`
	for name, tc := range map[string]struct {
		dependent clusterapi.Dependent
		err       error // of the list of clusters
		cloudErr  error
		want      string // the expected message, with WHOM in place of the user
		reason    string
		decision  webhooks.Decision
	}{
		"of the same namespace": {dependent: userDependent("team-a", "prod"), reason: "MachinesHoldInstances",
			want: `machines of cluster "prod" name instances that do not belong to WHOM in region "next": CloudSigmaMachine "m1" (` + aliceID +
				`); delete these machines or clear their instance IDs first`},
		"of another namespace": {dependent: userDependent("team-b", "theirs"), reason: "MachinesHoldInstances",
			want: `machines of a cluster of another namespace name instances that do not belong to WHOM in its region; ` +
				`their owner has to delete them or clear their instance IDs first`},
		"of another namespace, in a region that is not allowed": {
			dependent: userDependent("team-b", "theirs"), reason: "RegionNotAllowed", cloudErr: &ownership.RegionError{Region: "secret"},
			want: `machines of a cluster of another namespace name instances, and its region is not allowed`,
		},
		"of more than are checked": {
			err: clusterapi.ErrTooManyDependents, reason: "TooManyClusters",
			want: `more than 100 clusters of other namespaces take their user from it, and at most 100 are checked; create another Secret for the ` +
				`new user, and let your clusters refer to that`,
		},
		"of clusters that cannot be read": {
			err: errors.New("boom"), decision: webhooks.Undecided, reason: "ClustersUnknown",
			want: `the clusters that take their user from this Secret could not be read; try again`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			machines := &fakeMachines{holders: map[string][]clusterapi.Machine{
				"team-a/prod": {holder("m1", aliceID)}, "team-b/theirs": {holder("hidden", aliceID)},
			}}
			users := &fakeUsers{err: tc.err, dependents: map[string][]clusterapi.Dependent{"team-a/user": {tc.dependent}}}
			gate := newGate(enforced, reviewerThatAllows(impersonate("tenant@example.com")), users,
				cluster.NewHoldings(machines, &fakeInstances{err: tc.cloudErr}))
			r := request(t, "secrets", secretWith(nil), secretWith(map[string][]byte{"userEmail": []byte("tenant@example.com")}))
			r.Name = "user"
			got := gate.Review(t.Context(), r)
			want := webhookstest.Answer{
				Decision: tc.decision, Reason: tc.reason, Field: "data.userEmail", Message: ofSecret + strings.Replace(tc.want, "WHOM", `user "tenant@example.com"`, 1),
				Events: eventOnSecret(tc.reason, "Denied: "+ofSecret+strings.Replace(tc.want, "WHOM", public, 1)),
			}
			got.Details = nil
			compareAnswers(t, want, got)
		})
	}
}

// TestOnlyAReaderOfASecretRefersToIt has clusters of team-a that refer to a Secret of team-b.
func TestOnlyAReaderOfASecretRefersToIt(t *testing.T) {
	spec := func(region string) object {
		return clusterWith(object{"userRef": userRef("user", "team-b"), "region": region})
	}
	notReadable := func(field string) webhookstest.Answer {
		message := field + ofCluster + `it names Secret "user" of another namespace, "team-b", which user "alice" may not read; ` +
			`name a Secret of the cluster's own namespace or one that you may read, or have the permission granted: verb get on this Secret`
		return answerAbout(field, "SecretNotReadable", message, eventOnCluster)
	}
	for name, tc := range map[string]struct {
		old, new object
		readable bool
		want     webhookstest.Answer
	}{
		"a cluster that is created":            {new: spec("next"), want: notReadable("spec.userRef")},
		"a cluster that starts to refer to it": {old: clusterWith(object{"region": "next"}), new: spec("next"), want: notReadable("spec.userRef")},
		"a cluster that refers to it already and changes its region": {
			old: spec("zrh"), new: spec("next"), want: notReadable("spec.region"),
		},
		"by a user who may read it": {
			new: spec("next"), readable: true, want: impersonationAllowed,
		},
		"by a user who may read it, another region": {
			old: spec("zrh"), new: spec("next"), readable: true, want: nothingNamed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			reviewer := reviewerThatAllows(impersonate("tenant@example.com"))
			if tc.readable {
				reviewer = reviewerThatAllows(impersonate("tenant@example.com"), getIn("team-b"))
			}
			users := &fakeUsers{emails: map[string]string{"team-b/user": "tenant@example.com"}, account: accountOf("tenant@example.com")}
			gate := newGate(enforced, reviewer, users, cluster.NewHoldings(&fakeMachines{}, &fakeInstances{}))
			if tc.old == nil { // no object can have an Event
				tc.want.Events = nil
			}
			compareAnswers(t, tc.want, gate.Review(t.Context(), request(t, "cloudsigmaclusters", tc.old, tc.new)))
		})
	}
}

const cloudsOf = `{clouds: {tenant: {auth: {auth_url: "https://keystone.example.com/v3", application_credential_id: %s}}}}`

// TestCredentialsOfSecrets checks Secrets that are used and unused ones.
func TestCredentialsOfSecrets(t *testing.T) {
	holding := func(content string) object { return secretWith(map[string][]byte{"clouds.yaml": []byte(content)}) }
	other := &ownership.IdentityError{Reason: openstack.IdentityEndpointNotAllowed, Message: "another Keystone"}
	privileged := &ownership.IdentityError{Reason: "RolePrivileged", Message: "too many: admin"}
	clouds := func(n int) object {
		content := "clouds:\n"
		for i := range n {
			content += fmt.Sprintf("  c%d: {auth: {auth_url: x}}\n", i)
		}
		return holding(content)
	}
	byA, byB := holding(fmt.Sprintf(cloudsOf, "a")), holding(fmt.Sprintf(cloudsOf, "b"))
	used := []clusterapi.Dependent{{Account: ownership.Account{Cloud: "openstack", Identity: tenantSecret},
		Cluster: clusterapi.Cluster{Provider: v1beta1.ProviderOpenStack, Namespace: "team-a", Name: "prod"}}}
	farms := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "farms"}
	field := func(resource schema.GroupVersionResource, path string) clusterapi.IdentityField {
		return clusterapi.IdentityField{Resource: resource, Path: path}
	}

	for name, tc := range map[string]struct {
		old, new    object
		err         error
		dependents  []clusterapi.Dependent
		referring   clusterapi.IdentityField
		exempt      bool
		instances   []ownership.Instance
		want        webhooks.Decision
		wantReason  string
		wantStatus  metav1.StatusReason
		unrequested bool
	}{
		"the tenant's own, unused":                   {new: byA, want: webhooks.Allowed, wantReason: "DelegationAllowed"},
		"an administrator's, unused":                 {new: byA, err: privileged, wantReason: "RolePrivileged"},
		"of another Keystone, unused":                {new: byA, err: other, want: webhooks.Allowed, wantReason: "CredentialsOfAnotherCloud"},
		"of another Keystone, used":                  {new: byA, err: other, dependents: used, wantReason: openstack.IdentityEndpointNotAllowed},
		"an administrator's, in a namespace without": {new: byA, err: privileged, exempt: true, unrequested: true, want: webhooks.Allowed, wantReason: "NamespaceExempt"},
		"the same":                       {old: byA, new: holding(fmt.Sprintf(cloudsOf, "'a'")), err: privileged, unrequested: true, want: webhooks.Allowed, wantReason: "CredentialsUnchanged"},
		"others":                         {old: byA, new: byB, err: privileged, wantReason: "RolePrivileged"},
		"none after it":                  {old: byA, new: secretWith(nil), unrequested: true, want: webhooks.Allowed, wantReason: "CredentialsUnchanged"},
		"malformed YAML":                 {new: holding("{"), unrequested: true, wantReason: openstack.IdentityMalformed, wantStatus: metav1.StatusReasonInvalid},
		"too many at once":               {new: clouds(9), unrequested: true, wantReason: "TooManyClouds"},
		"as many at once as are checked": {new: clouds(8), want: webhooks.Allowed, wantReason: "DelegationAllowed"},
		"of a project without the machine's instance": {old: byA, new: byB, dependents: used, wantReason: "MachinesHoldInstances"},
		"of the machine's project":                    {old: byA, new: byB, dependents: used, instances: []ownership.Instance{{ID: aliceID}}, want: webhooks.Allowed, wantReason: "DelegationAllowed"},
		"of another Keystone, used by a cluster object": {
			new: byA, err: other, referring: field(clusterapi.OpenStackClusters, "spec.identityRef"), wantReason: openstack.IdentityEndpointNotAllowed,
		},
		"of another Keystone, used by a machine": {
			new: byA, err: other, referring: field(clusterapi.OpenStackMachines, "spec.identityRef"), wantReason: openstack.IdentityEndpointNotAllowed,
		},
		"of another Keystone, used by an object of a configured kind": {
			old: byB, new: byA, err: other, referring: field(farms, "spec.keys"), wantReason: openstack.IdentityEndpointNotAllowed,
		},
		"of another Keystone, in a field that refers to no credentials": {
			new: byA, err: other, referring: field(farms, "spec.identityRef"), want: webhooks.Allowed, wantReason: "CredentialsOfAnotherCloud",
		},
	} {
		t.Run(name, func(t *testing.T) {
			delegations := &fakeDelegations{token: tenant, err: tc.err, instances: tc.instances}
			var proposed map[string][]byte
			with := func(_, _ string, data map[string][]byte) cluster.Proposed { proposed = data; return delegations }
			config := enforced
			config.Delegation.Kinds = []v1beta1.CredentialKind{{Group: "example.com", Version: "v1", Kind: "Farm", Resource: "farms", IdentityRefPath: "spec.keys"}}
			if tc.exempt {
				config.ExemptNamespaces = []string{"team-a"}
			}
			machines := &fakeMachines{holders: map[string][]clusterapi.Machine{"team-a/prod": {holder("m1", aliceID)}}}
			gate := newDelegationGate(config, tenantRoles, &fakeDelegations{err: errors.New("stored objects are not read")}, with,
				referringBy{fakeCredentials(tc.dependents), tc.referring}, cluster.NewHoldings(machines, &fakeInstances{}))
			r := request(t, "secrets", tc.old, tc.new)
			r.Name = "user"
			got := gate.Review(t.Context(), r)
			if got.Decision != tc.want || got.Reason != tc.wantReason || got.Status != tc.wantStatus {
				t.Errorf("Review() = %s %s %s (%s), want %s %s %s", got.Decision, got.Reason, got.Status, got.Message, tc.want, tc.wantReason, tc.wantStatus)
			}
			if (len(delegations.requested) == 0) != tc.unrequested || !tc.unrequested && len(proposed) == 0 {
				t.Errorf("checked %v, with %d keys", delegations.requested, len(proposed))
			}
		})
	}
}

var tenantSecret = ownership.Identity{Namespace: "team-a", Secret: "user", Entry: "tenant"}

// TestConfiguredKinds checks that they are registered and evaluated like the built-in ones.
func TestConfiguredKinds(t *testing.T) {
	config := v1beta1.Cluster{
		Impersonation: v1beta1.ClusterImpersonation{Mode: v1beta1.Enforce, Kinds: []v1beta1.UserKind{
			{Group: "example.com", Version: "v1", Kind: "Farm", Resource: "farms", EmailPath: "spec.owner.email"},
			{Group: "example.com", Version: "v1", Kind: "Barn", Resource: "barns", Annotations: []string{"example.com/email"}},
		}},
		Delegation: v1beta1.ClusterDelegation{Mode: v1beta1.Enforce, Kinds: []v1beta1.CredentialKind{
			{Group: "example.com", Version: "v1", Kind: "Farm", Resource: "farms", IdentityRefPath: "spec.keys"},
		}},
		ExemptNamespaces: []string{"operators"},
	}
	hooks := registered(append(cluster.Hooks(config), cluster.DelegationHooks(config)...))
	for _, name := range []string{"farms.cluster.warrantgate.dev", "barns.cluster.warrantgate.dev", "farms.delegation.warrantgate.dev"} {
		if hooks[name] == nil {
			t.Errorf("%s is not registered", name)
		}
	}
	if conditions := hooks["secrets.delegation.warrantgate.dev"].MatchConditions; len(conditions) != 2 ||
		conditions[1].Expression != `!(request.namespace in ["operators"])` {
		t.Errorf("conditions of Secrets = %v", conditions)
	}
	gate := newGate(config, reviewerThatAllows(), &fakeUsers{}, nil)
	for resource, after := range map[string]object{
		"farms": {"metadata": metadata(nil), "spec": object{"owner": object{"email": "tenant@example.com"}}},
		"barns": kdcWith(object{"example.com/email": "tenant@example.com"}),
	} {
		r := request(t, "kdcclusters", nil, after)
		r.Resource = metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: resource}
		if got := gate.Review(t.Context(), r); got.Reason != "ImpersonationNotAllowed" {
			t.Errorf("%s: %s %s", resource, got.Decision, got.Reason)
		}
	}
	r := request(t, "openstackclusters", nil, object{"metadata": metadata(nil), "spec": object{"keys": keysRef()}})
	r.Resource = metav1.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "farms"}
	delegations := &fakeDelegations{token: tenant}
	if got := newDelegation(config.Delegation, delegations).Review(t.Context(), r); got.Reason != "DelegationAllowed" || got.Field != "spec.keys" {
		t.Errorf("Review() = %+v", got)
	}
}
