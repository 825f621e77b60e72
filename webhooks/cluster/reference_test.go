package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/webhookstest"
)

// referring is a Cluster of Cluster API with that reference.
func referring(infrastructureRef any) object {
	return object{"metadata": metadata(nil), "spec": object{"infrastructureRef": infrastructureRef}}
}

func to(name any) object { return referring(object{"kind": "OpenStackCluster", "name": name}) }

// referenceRequest is alice's request about a Cluster.
func referenceRequest(t *testing.T, before, after object) admission.Request {
	t.Helper()
	r := request(t, "openstackclusters", before, after)
	r.Resource = metav1.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	return r
}

// fakeReferences are the accounts of OpenStackClusters by their names, and the Clusters that refer to each.
type fakeReferences struct {
	fakeCredentials
	accounts map[string]ownership.Account
	acting   []clusterapi.Cluster
	err      error
}

func (r *fakeReferences) AccountBy(_ context.Context, of clusterapi.Cluster, name string) (ownership.Account, error) {
	account, known := r.accounts[name]
	if of != prodOnOpenStack {
		return ownership.Account{}, errors.New("another cluster")
	}
	if r.err == nil && !known {
		return account, &clusterapi.AccountError{Reason: clusterapi.ClusterMissing, Message: "there is none"}
	}
	return account, r.err
}

func (r *fakeReferences) ActingBy(context.Context, v1beta1.Provider, string, string) ([]clusterapi.Cluster, error) {
	return r.acting, r.err
}

var prodOnOpenStack = clusterapi.Cluster{Provider: v1beta1.ProviderOpenStack, Namespace: "team-a", Name: "prod"}

func onProject(secret string) ownership.Account {
	return ownership.Account{Cloud: "openstack", Identity: ownership.Identity{Namespace: "team-a", Secret: secret, Entry: "tenant"}}
}

// TestAClusterKeepsTheIdentityOfItsInstances has machines that name an instance of the first identity.
func TestAClusterKeepsTheIdentityOfItsInstances(t *testing.T) {
	const of = `spec.infrastructureRef of Cluster "prod" of namespace "team-a": `
	const held = of + `machines of cluster "prod" name instances that do not belong to the project of cloud "tenant" of Secret "others" ` +
		`in the region of its credentials: CloudSigmaMachine "m1" (` + aliceID + `); delete these machines or clear their instance IDs first`
	const unusable = `OpenStackCluster "b" refers to no credentials`
	allowed := func(reason string) webhookstest.Answer {
		return webhookstest.Answer{Decision: webhooks.Allowed, Reason: reason}
	}
	denied := func(reason, message string) webhookstest.Answer {
		return answerAbout("spec.infrastructureRef", reason, message, eventOnReference)
	}
	unknown := func(reason, message string) webhookstest.Answer {
		a := denied(reason, of+message)
		a.Decision = webhooks.Undecided
		return a
	}
	listed := []ownership.Account{onProject("others")}
	stays := denied("MachinesHoldInstances", held)
	for name, tc := range map[string]struct {
		old, new      object // default: from "a" to "b"
		created, free bool
		err           error
		machineErr    error
		own           []string
		dryRun        bool
		want          webhookstest.Answer
		wantRequested []ownership.Account
	}{
		"to an identity that does not own the instances": {want: stays, wantRequested: listed},
		"on a dry run":                           {dryRun: true, want: stays, wantRequested: listed},
		"for the first time":                     {old: referring(nil), want: stays, wantRequested: listed},
		"after a reference that cannot be read":  {old: to(5), want: stays, wantRequested: listed},
		"by a Cluster that is created":           {created: true, wantRequested: listed, want: answerAbout("spec.infrastructureRef", "MachinesHoldInstances", held, nil)},
		"to an identity that owns the instances": {own: []string{aliceID}, want: allowed("ReferenceAllowed"), wantRequested: listed},
		"while no machine names an instance":     {free: true, want: allowed("ReferenceAllowed")},
		"that does not exist":                    {new: to("c"), want: allowed("ReferenceAllowed")},
		"that no object can be":                  {new: to(strings.Repeat("x", 254)), err: errors.New("it must not be read"), want: allowed("ReferenceAllowed")},
		"by the same name":                       {new: referring(object{"apiGroup": "infrastructure.cluster.x-k8s.io", "name": "a"}), want: allowed("ReferenceUnchanged")},
		"without a name":                         {new: referring(nil), want: allowed("ReferenceUnchanged")},
		"without a reference":                    {new: object{"metadata": metadata(nil)}, want: allowed("ReferenceUnchanged")},
		"without credentials":                    {err: &clusterapi.AccountError{Reason: clusterapi.IdentityMissing, Message: unusable}, want: denied("IdentityMissing", of+unusable)},
		"without credentials, while no machine names an instance": {
			free: true, err: &clusterapi.AccountError{Reason: clusterapi.IdentityMissing, Message: unusable},
			want: allowed("ReferenceAllowed"),
		},
		"that cannot be read now": {err: errors.New("away"), want: unknown("ObjectsUnknown", "the OpenStackCluster that it refers to cannot be read now; try again")},
		"while the machines cannot be read": {
			machineErr: errors.New("away"),
			want:       unknown("MachinesUnknown", "the machines of the cluster could not be read; try again"),
		},
		"while the machines cannot be read, without credentials": {
			machineErr: errors.New("away"), err: &clusterapi.AccountError{Reason: clusterapi.IdentityMissing},
			want: unknown("MachinesUnknown", "the machines of the cluster could not be read; try again"),
		},
		"of the wrong type": {new: to(5), want: webhookstest.Answer{
			Status: metav1.StatusReasonInvalid, Reason: "ClusterUnreadable",
			Message: `Cluster "prod": spec.infrastructureRef.name is float64 where a string belongs`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			machines := &fakeMachines{err: tc.machineErr, holders: map[string][]clusterapi.Machine{"team-a/prod": {holder("m1", aliceID)}}}
			if tc.old == nil && !tc.created {
				tc.old = to("a")
			}
			if tc.new == nil {
				tc.new = to("b")
			}
			if tc.free {
				machines.holders = nil
			}
			instances := &fakeInstances{own: map[string][]string{"": tc.own}}
			references := &fakeReferences{accounts: map[string]ownership.Account{"a": onProject("keys"), "b": onProject("others")}, err: tc.err}
			gate := newDelegationGate(enforced, tenantRoles, &fakeDelegations{}, nil, references,
				cluster.NewHoldings(machines, instances))
			r := referenceRequest(t, tc.old, tc.new)
			r.DryRun = ptr.To(tc.dryRun)
			got := gate.Review(t.Context(), r)
			got.Details = nil
			compareAnswers(t, tc.want, got)
			if diff := cmp.Diff(tc.wantRequested, instances.requested); diff != "" {
				t.Errorf("accounts that are listed (-want +got):\n%s", diff)
			}
		})
	}
}

func eventOnReference(reason, message string) []events.Event {
	return eventOn("cluster.x-k8s.io/v1beta2", "Cluster", "prod", reason, message)
}

func TestReferencesWithoutAGateOnMachines(t *testing.T) {
	gate := newDelegation(v1beta1.ClusterDelegation{}, &fakeDelegations{})
	want := webhookstest.Answer{Decision: webhooks.Allowed, Reason: "MachinesNotGated"}
	compareAnswers(t, want, gate.Review(t.Context(), referenceRequest(t, to("a"), to("b"))))
}

// TestCredentialsAreCheckedForInstances has writes of objects while machines of one Cluster name instances of another project.
func TestCredentialsAreCheckedForInstances(t *testing.T) {
	full := clusterapi.Cluster{Provider: v1beta1.ProviderOpenStack, Namespace: "team-a", Name: "full"}
	referred := fakeReferences{acting: []clusterapi.Cluster{prodOnOpenStack, full}}
	for name, tc := range map[string]struct {
		resource      string
		references    fakeReferences
		through       v1beta1.DelegationWay
		delegationErr error
		wantReason    string
	}{
		"of a cluster that two refer to":              {references: referred, wantReason: "MachinesHoldInstances"},
		"of a cluster that another one refers to":     {references: fakeReferences{acting: []clusterapi.Cluster{prodOnOpenStack}}, wantReason: "DelegationAllowed"},
		"of a cluster that none refers to":            {wantReason: "DelegationAllowed"},
		"of a cluster, and the others cannot be read": {references: fakeReferences{err: errors.New("away")}, wantReason: "ClustersUnknown"},
		"of a cluster, with a warning about them":     {references: referred, through: v1beta1.Trust, wantReason: "MachinesHoldInstances"},
		"of a cluster, denied in any case":            {references: referred, delegationErr: &ownership.IdentityError{Reason: "RolePrivileged"}, wantReason: "RolePrivileged"},
		"of a cluster, undecided in any case":         {references: referred, delegationErr: errors.New("away"), wantReason: "DelegationUnknown"},
		"of a machine, which has a gate of its own":   {resource: "openstackmachines", references: referred, wantReason: "DelegationAllowed"},
	} {
		t.Run(name, func(t *testing.T) {
			config := enforced
			config.Delegation.Through = tc.through
			if tc.resource == "" {
				tc.resource = "openstackclusters"
			}
			machines := &fakeMachines{holders: map[string][]clusterapi.Machine{"team-a/full": {holder("m1", aliceID)}}}
			gate := newDelegationGate(config, tenantRoles, &fakeDelegations{token: tenant, err: tc.delegationErr}, nil, &tc.references,
				cluster.NewHoldings(machines, &fakeInstances{}))
			for operation, old := range map[string]object{"update": onOpenStack(keysRef(with("name", "old"))), "creation": nil} {
				if got := gate.Review(t.Context(), request(t, tc.resource, old, onOpenStack(keysRef()))); got.Reason != tc.wantReason {
					t.Errorf("Review() of the %s = %s %s (%s), want %s", operation, got.Decision, got.Reason, got.Message, tc.wantReason)
				}
			}
		})
	}
}

// TestACreationOfAClusterIgnoresTheOldObject: a request to create a Cluster is evaluated even if it contains an old object.
func TestACreationOfAClusterIgnoresTheOldObject(t *testing.T) {
	machines := &fakeMachines{holders: map[string][]clusterapi.Machine{"team-a/prod": {holder("m1", aliceID)}}}
	gate := newDelegationGate(enforced, tenantRoles, &fakeDelegations{}, nil, &fakeReferences{accounts: map[string]ownership.Account{"b": onProject("others")}},
		cluster.NewHoldings(machines, &fakeInstances{}))
	r := referenceRequest(t, to("b"), to("b"))
	r.Operation = admissionv1.Create
	if got := gate.Review(t.Context(), r); got.Reason != "MachinesHoldInstances" {
		t.Errorf("Review() = %s %s (%s)", got.Decision, got.Reason, got.Message)
	}
}

func TestMatchConditionsSelectClusters(t *testing.T) {
	matches := matcherOf(t, cluster.DelegationHooks(enforced), "delegation", "reference")
	for name, tc := range map[string]struct {
		old, new object
		want     bool
	}{
		"a new Cluster":                     {new: to("a"), want: true},
		"a new Cluster without a reference": {new: referring(nil)},
		"a first reference":                 {old: referring(nil), new: to("a"), want: true},
		"another reference":                 {old: to("a"), new: to("b"), want: true},
		"a heartbeat":                       {old: to("a"), new: object{"metadata": metadata(nil), "spec": object{"infrastructureRef": object{"name": "a"}}, "status": object{"phase": "Provisioned"}}},
		"another kind":                      {old: to("a"), new: referring(object{"kind": "Other", "name": "a"})},
		"the reference is cleared":          {old: to("a"), new: referring(nil)},
		"malformed":                         {old: to("a"), new: referring("b")},
		"a name that is not a string":       {old: to("a"), new: to(5), want: true},
		"a Cluster without a spec":          {new: object{"metadata": metadata(nil)}},
		"a Cluster that had no ref":         {old: object{"metadata": metadata(nil)}, new: to("a"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var old runtime.Object
			if tc.old != nil {
				old = decoded(t, tc.old)
			}
			if got := matches(t, old, decoded(t, tc.new)); got != tc.want {
				t.Errorf("selected = %t, want %t", got, tc.want)
			}
		})
	}
}

func decoded(t *testing.T, o object) runtime.Object {
	t.Helper()
	var content map[string]any
	if err := json.Unmarshal(encode(t, o), &content); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}
