package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/fairqueue"
	"warrantgate.dev/internal/inflight"
	"warrantgate.dev/internal/openstack"
	"warrantgate.dev/internal/ownership"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/cluster"
	"warrantgate.dev/webhooks/webhookstest"
)

const (
	aliceID = "63dd227a-9502-4311-919e-cd49f3416753"
	tsapID  = "feaf4d9d-7cdc-4ecc-b2f7-bef11a0c7519"
	// legacyID belongs to the shared account.
	legacyID = "4192fc6e-0372-4961-99fa-6dc9d4038dbf"
)

// fakeMachines are the machines by the namespace/name of their cluster, and the versions of objects. All objects have the UID uid, if it is
// not "".
type fakeMachines struct {
	holders  map[string][]clusterapi.Machine
	versions map[string]string
	uid      types.UID
	err      error
	// versionErr is the error of Version.
	versionErr error
}

func (m *fakeMachines) Holders(_ context.Context, cluster clusterapi.Cluster) ([]clusterapi.Machine, error) {
	return append([]clusterapi.Machine(nil), m.holders[cluster.Namespace+"/"+cluster.Name]...), m.err
}

func (m *fakeMachines) Version(_ context.Context, object inflight.Object, uid types.UID) (string, error) {
	if uid != "" && m.uid != "" && uid != m.uid {
		return "", m.versionErr
	}
	return m.versions[object.Name], m.versionErr
}

// fakeInstances are the instances of accounts by user, and the tenants that requested them.
type fakeInstances struct {
	own       map[string][]string
	err       error
	requested []ownership.Account
}

func (i *fakeInstances) InstancesBy(
	ctx context.Context, _ fairqueue.Tenant, account ownership.Account, lister ownership.Lister,
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
	return clusterapi.Dependent{Kind: "CloudSigmaCluster", Name: name, Account: accountOf(""),
		Cluster: clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: namespace, Name: name}}
}

// TestAClusterKeepsTheUserOfItsInstances has a requester who may impersonate all users.
func TestAClusterKeepsTheUserOfItsInstances(t *testing.T) {
	spec := func(email, region string) object { return clusterWith(object{"userEmail": email, "region": region}) }
	ref := clusterWith(object{"userRef": userRef("user", ""), "region": "next"})
	denied := func(field, whom, listed string) webhookstest.Answer {
		message := field + ofCluster + `machines of cluster "prod" name instances that do not belong to ` + whom + ` in region "next": ` + listed +
			`; delete these machines or clear their instance IDs first`
		return webhookstest.Answer{Reason: "MachinesHoldInstances", Field: field, Message: message,
			Events: eventOnCluster("MachinesHoldInstances", "Denied: "+message)}
	}
	const one = `CloudSigmaMachine "m1" (` + aliceID + `)`
	many := make([]clusterapi.Machine, 0, 8)
	for i := range 8 {
		many = append(many, holder(fmt.Sprintf("m%d", i), aliceID))
	}
	tsaps := accountOf("tsap@shalb.com")

	for name, tc := range map[string]struct {
		old, new      object
		machines      []clusterapi.Machine
		account       ownership.Account
		shared        bool
		accountErr    error
		machineErr    error
		cloudErr      error
		want          webhookstest.Answer
		wantRequested []ownership.Account
	}{
		"to another user, who does not own the instances": {
			old: spec("alice@shalb.com", "next"), new: spec("tsap@shalb.com", "next"), machines: []clusterapi.Machine{holder("m1", aliceID), holder("m2", tsapID)},
			account: tsaps, want: denied("spec.userEmail", `user "tsap@shalb.com"`, one), wantRequested: []ownership.Account{tsaps},
		},
		"to another user, who owns the instances": {
			old: spec("alice@shalb.com", "next"), new: spec("tsap@shalb.com", "next"), machines: []clusterapi.Machine{holder("m2", tsapID)},
			account: tsaps, want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"}, wantRequested: []ownership.Account{tsaps},
		},
		"to another user, without machines": {
			old: spec("alice@shalb.com", "next"), new: spec("tsap@shalb.com", "next"), account: tsaps,
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"},
		},
		"with more machines than the message names": {
			old: spec("alice@shalb.com", "next"), new: spec("tsap@shalb.com", "next"), machines: many, account: tsaps, wantRequested: []ownership.Account{tsaps},
			want: denied("spec.userEmail", `user "tsap@shalb.com"`, strings.ReplaceAll(`M0, M1, M2, M3, M4, and 3 more`, "M", "CloudSigmaMachine \"m")),
		},
		"to another region": {
			old: spec("tsap@shalb.com", "zrh"), new: spec("tsap@shalb.com", "next"), machines: []clusterapi.Machine{holder("m1", aliceID)},
			account: tsaps, want: denied("spec.region", `user "tsap@shalb.com"`, one), wantRequested: []ownership.Account{tsaps},
		},
		"to another user, in a region that was not allowed before": {
			old: spec("alice@shalb.com", "far"), new: spec("tsap@shalb.com", "far"), machines: []clusterapi.Machine{holder("m2", tsapID)},
			accountErr: &clusterapi.AccountError{Reason: clusterapi.RegionNotAllowed, Message: "not far"},
			want: webhookstest.Answer{Reason: "RegionNotAllowed", Field: "spec.userEmail", Message: "spec.userEmail" + ofCluster + "not far",
				Events: eventOnCluster("RegionNotAllowed", "Denied: spec.userEmail"+ofCluster+"not far")},
		},
		"to another user, in a region that was not allowed before, without machines": {
			old: spec("alice@shalb.com", "far"), new: spec("tsap@shalb.com", "far"),
			accountErr: &clusterapi.AccountError{Reason: clusterapi.RegionNotAllowed, Message: "not far"},
			want:       webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"},
		},
		"by a Secret, whose content is not disclosed": {
			old: spec("alice@shalb.com", "next"), new: ref, machines: []clusterapi.Machine{holder("m1", aliceID)}, account: tsaps,
			want: denied("spec.userRef", `the user that Secret "user" of namespace "team-a" names`, one), wantRequested: []ownership.Account{tsaps},
		},
		"to the account that clusters without a user share": {
			old: spec("alice@shalb.com", "next"), new: spec("", "next"), machines: []clusterapi.Machine{holder("m1", aliceID)}, account: accountOf(""), shared: true,
			want: denied("spec.userEmail", "the shared account (legacy credentials)", one), wantRequested: []ownership.Account{accountOf("")},
		},
		"to the account that clusters without a user share, by the removal of a Secret": {
			old: ref, new: clusterWith(object{"region": "next"}), machines: []clusterapi.Machine{holder("m1", aliceID)}, account: accountOf(""), shared: true,
			want: denied("spec.userRef", "the shared account (legacy credentials)", one), wantRequested: []ownership.Account{accountOf("")},
		},
		"to the account that clusters without a user share, in another region": {
			old: spec("", "zrh"), new: spec("", "next"), machines: []clusterapi.Machine{holder("m1", aliceID)}, account: accountOf(""), shared: true,
			want: denied("spec.region", "the shared account (legacy credentials)", one), wantRequested: []ownership.Account{accountOf("")},
		},
		"to the account that clusters without a user share, which owns the instances": {
			old: spec("alice@shalb.com", "next"), new: spec("", "next"), machines: []clusterapi.Machine{holder("m1", legacyID)}, account: accountOf(""), shared: true,
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"}, wantRequested: []ownership.Account{accountOf("")},
		},
		"to the account that clusters without a user share, without machines": {
			old: spec("alice@shalb.com", "next"), new: spec("", "next"), account: accountOf(""), shared: true,
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"to no user, without a shared account": {
			old: spec("alice@shalb.com", "next"), new: spec("", "next"), machines: []clusterapi.Machine{holder("m1", aliceID)}, machineErr: errors.New("not read"),
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"to no user, by the removal of a Secret, without a shared account": {
			old: ref, new: clusterWith(object{"region": "next"}), machines: []clusterapi.Machine{holder("m1", aliceID)}, machineErr: errors.New("not read"),
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"not at all": {
			old: spec("alice@shalb.com", "next"), new: spec("ALICE@shalb.com", "next"), machines: []clusterapi.Machine{holder("m1", tsapID)},
			want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
		},
		"while the machines cannot be read": {
			old: spec("alice@shalb.com", "next"), new: spec("tsap@shalb.com", "next"), machineErr: errors.New("boom"), account: tsaps,
			want: webhookstest.Answer{Decision: webhooks.Undecided, Reason: "MachinesUnknown", Field: "spec.userEmail", Details: details("error", "boom"),
				Message: `spec.userEmail` + ofCluster + `the machines of the cluster could not be read; try again`,
				Events: eventOnCluster("MachinesUnknown", `Denied: spec.userEmail`+ofCluster+
					`the machines of the cluster could not be read; try again`)},
		},
		"while the cloud does not respond": {
			old: spec("alice@shalb.com", "next"), new: spec("tsap@shalb.com", "next"), machines: []clusterapi.Machine{holder("m1", aliceID)}, account: tsaps,
			cloudErr: &ownership.UnknownError{Cause: ownership.CauseTimeout, Err: errors.New("late")}, wantRequested: []ownership.Account{tsaps},
			want: undecidedHoldings("", "the cloud or its identity provider did not answer in time; try again"),
		},
		"while the tenant sends too many requests": {
			old: spec("alice@shalb.com", "next"), new: spec("tsap@shalb.com", "next"), machines: []clusterapi.Machine{holder("m1", aliceID)}, account: tsaps,
			cloudErr: &ownership.UnknownError{Cause: ownership.CauseTenantBusy, RetryAfter: 2 * time.Second, Err: errors.New("busy")}, wantRequested: []ownership.Account{tsaps},
			want: undecidedHoldings(metav1.StatusReasonTooManyRequests, ownership.CauseTenantBusy.Explain()),
		},
	} {
		t.Run(name, func(t *testing.T) {
			instances := &fakeInstances{own: map[string][]string{"tsap@shalb.com": {tsapID}, "": {legacyID}}, err: tc.cloudErr}
			machines := &fakeMachines{holders: map[string][]clusterapi.Machine{"team-a/prod": tc.machines}, err: tc.machineErr}
			users := &fakeUsers{emails: map[string]string{"team-a/user": "tsap@shalb.com"}, shared: tc.shared, account: tc.account, accountErr: tc.accountErr}
			gate := newGate(enforced, reviewerThatAllows(impersonate("tsap@shalb.com")), users,
				cluster.NewHoldings(machines, instances, &inflight.Registry{}, ""))
			got := gate.Review(t.Context(), request(t, "cloudsigmaclusters", tc.old, tc.new))
			if strings.Contains(tc.want.Message, `CloudSigmaMachine "m0`) { // written short above
				for i := range 5 {
					short, long := fmt.Sprintf(`CloudSigmaMachine "m%d,`, i), fmt.Sprintf(`CloudSigmaMachine "m%d" (%s),`, i, aliceID)
					tc.want.Message = strings.Replace(tc.want.Message, short, long, 1)
					tc.want.Events[0].Message = strings.Replace(tc.want.Events[0].Message, short, long, 1)
				}
			}
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
	theirs := accountOf("tsap@shalb.com")
	theirs.UserSecret = types.NamespacedName{Namespace: "team-b", Name: "user"}
	users := &fakeUsers{emails: map[string]string{"team-b/user": "tsap@shalb.com"}, account: theirs}
	machines := &fakeMachines{holders: map[string][]clusterapi.Machine{"team-a/prod": {holder("m1", aliceID)}}}
	reviewer := reviewerThatAllows(impersonate("tsap@shalb.com"), getIn("team-b"))
	got := newGate(enforced, reviewer, users, cluster.NewHoldings(machines, &fakeInstances{}, &inflight.Registry{}, "")).Review(t.Context(),
		request(t, "cloudsigmaclusters", clusterWith(object{"region": "next"}), clusterWith(object{"userRef": userRef("user", "team-b"), "region": "next"})))
	if got.Reason != "MachinesHoldInstances" || !strings.Contains(got.Message, `user "tsap@shalb.com"`) {
		t.Errorf("the response: %s %s", got.Reason, got.Message)
	}
	for _, event := range got.Events {
		if !strings.Contains(event.Message, `Secret "user" of namespace "team-b"`) || strings.Contains(event.Message, "tsap@shalb.com") {
			t.Errorf("the Event: %s", event.Message)
		}
	}
	if len(got.Events) != 1 {
		t.Errorf("%d Events", len(got.Events))
	}
}

// TestAClearedSecretKeepsTheUserOfInstances: clusters without a user may share an account, to which the instances do not belong.
func TestAClearedSecretKeepsTheUserOfInstances(t *testing.T) {
	named := map[string][]byte{"userEmail": []byte("alice@shalb.com")}
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
				cluster.NewHoldings(machines, &fakeInstances{own: map[string][]string{"": {legacyID}}}, &inflight.Registry{}, ""))
			r := request(t, "secrets", secretWith(tc.old), secretWith(tc.new))
			r.Name = "user"
			want := webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"}
			if tc.denied {
				want = webhookstest.Answer{
					Reason: "MachinesHoldInstances", Field: "data.userEmail", Message: ofSecret + held,
					Events: eventOn("v1", "Secret", "user", "MachinesHoldInstances", "Denied: "+ofSecret+held),
				}
			}
			got := gate.Review(t.Context(), r)
			got.Details = nil
			compareAnswers(t, want, got)
		})
	}
}

func undecidedHoldings(status metav1.StatusReason, why string) webhookstest.Answer {
	message := `spec.userEmail` + ofCluster + `it cannot be checked whether the instances that machines of cluster "prod" name belong to ` +
		`user "tsap@shalb.com" in region "next": ` + why
	answer := webhookstest.Answer{Decision: webhooks.Undecided, Status: status, Reason: "OwnershipUnknown", Field: "spec.userEmail", Message: message,
		Events: eventOnCluster("OwnershipUnknown", "Denied: "+message)}
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
		want      string // the expected message, with whom in place of the user
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
			gate := newGate(enforced, reviewerThatAllows(impersonate("tsap@shalb.com")), users,
				cluster.NewHoldings(machines, &fakeInstances{err: tc.cloudErr}, &inflight.Registry{}, ""))
			r := request(t, "secrets", secretWith(nil), secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}))
			r.Name = "user"
			got := gate.Review(t.Context(), r)
			want := webhookstest.Answer{
				Decision: tc.decision, Reason: tc.reason, Field: "data.userEmail", Message: ofSecret + strings.Replace(tc.want, "WHOM", `user "tsap@shalb.com"`, 1),
				Events: eventOn("v1", "Secret", "user", tc.reason, "Denied: "+ofSecret+strings.Replace(tc.want, "WHOM", public, 1)),
			}
			got.Details = nil
			compareAnswers(t, want, got)
		})
	}
}

// TestAChangeWaitsForAClaim has two writes at once. Each alone would be admitted.
func TestAChangeWaitsForAClaim(t *testing.T) {
	claim := inflight.Write{
		Object: inflight.Object{Resource: schema.GroupVersionResource{Resource: "cloudsigmamachines"}, Namespace: "team-a", Name: "m1"}, ResourceVersion: "5",
		Uses: []inflight.Key{clusterapi.Cluster{Provider: v1beta1.ProviderCloudSigma, Namespace: "team-a", Name: "prod"}.Key()},
	}
	for name, tc := range map[string]struct {
		resource string
		old, new object
		dryRun   bool
	}{
		"of a cluster":                 {resource: "cloudsigmaclusters", old: clusterWith(object{"userEmail": "a@b"}), new: clusterWith(object{"userEmail": "tsap@shalb.com"})},
		"of a Secret":                  {resource: "secrets", old: secretWith(nil), new: secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")})},
		"of a cluster, on dry run":     {resource: "cloudsigmaclusters", new: clusterWith(object{"userEmail": "tsap@shalb.com"}), dryRun: true},
		"of a Secret, on dry run":      {resource: "secrets", new: secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}), dryRun: true},
		"of a cluster that is created": {resource: "cloudsigmaclusters", new: clusterWith(object{"userEmail": "tsap@shalb.com"})},
	} {
		t.Run(name, func(t *testing.T) {
			registry := &inflight.Registry{}
			machines := &fakeMachines{versions: map[string]string{"m1": "5"}}
			users := &fakeUsers{account: accountOf("tsap@shalb.com"), dependents: map[string][]clusterapi.Dependent{"team-a/user": {userDependent("team-a", "prod")}}}
			gate := newGate(enforced, reviewerThatAllows(impersonate("tsap@shalb.com")), users,
				cluster.NewHoldings(machines, &fakeInstances{}, registry, ""))
			entry, err := registry.Begin(t.Context(), claim, machines.Version)
			if err != nil {
				t.Fatal(err)
			}
			defer entry.End()
			r := request(t, tc.resource, tc.old, tc.new)
			r.DryRun = ptr.To(tc.dryRun)
			if tc.resource == "secrets" {
				r.Name = "user"
			}
			got := gate.Review(t.Context(), r)
			wantDecision, wantReason := webhooks.Undecided, "ClaimPending"
			if tc.dryRun {
				wantDecision, wantReason = webhooks.Allowed, "ImpersonationAllowed"
			}
			if got.Decision != wantDecision || got.Reason != wantReason {
				t.Errorf("while the claim is being stored: %s %s (%s), want %s", got.Decision, got.Reason, got.Message, wantReason)
			}
			machines.versions["m1"] = "6"
			if got := gate.Review(t.Context(), r); got.Decision != webhooks.Allowed {
				t.Errorf("after the claim is stored: %s %s", got.Decision, got.Reason)
			}

			// The change is being stored now, and blocks a claim, unless it was a dry run.
			late := claim
			late.Name = "m2"
			machines.versions = map[string]string{"prod": "2", "user": "2"}
			if tc.old == nil {
				machines.versions = nil
			}
			second, err := registry.Begin(t.Context(), late, machines.Version)
			if pending := (*inflight.PendingError)(nil); errors.As(err, &pending) == tc.dryRun {
				t.Errorf("a claim after the change: error = %v", err)
			}
			if second != nil {
				second.End()
			}
		})
	}
}

// TestCreations: an object whose name is taken cannot be created, and does not delay other writes. Another creation delays them until the
// created object is stored, or for some seconds: another object of its name may be deleted before.
func TestCreations(t *testing.T) {
	const exists = "an object of this name already exists; change that one, or delete it first"
	clusterKey := func(provider v1beta1.Provider) inflight.Key {
		return clusterapi.Cluster{Provider: provider, Namespace: "team-a", Name: "prod"}.Key()
	}
	for name, tc := range map[string]struct {
		delegation bool
		resource   string
		new        object
		field, of  string
		changes    inflight.Key
		wantReason string
	}{
		"a CloudSigmaCluster": {
			resource: "cloudsigmaclusters", new: clusterWith(object{"userEmail": "tsap@shalb.com"}), field: "spec.userEmail", of: `CloudSigmaCluster "prod"`,
			changes: clusterKey(v1beta1.ProviderCloudSigma), wantReason: "ImpersonationAllowed",
		},
		"a Secret with a user": {
			resource: "secrets", new: secretWith(map[string][]byte{"userEmail": []byte("tsap@shalb.com")}), field: "data.userEmail",
			of: `Secret "user"`, changes: clusterapi.SecretKey("team-a", "user"), wantReason: "ImpersonationAllowed",
		},
		"an OpenStackCluster": {
			delegation: true, resource: "openstackclusters", new: onOpenStack(keysRef()), field: "spec.identityRef",
			of: `OpenStackCluster "prod"`, changes: clusterKey(v1beta1.ProviderOpenStack), wantReason: "DelegationAllowed",
		},
		"a Secret with credentials": {
			delegation: true, resource: "secrets", new: secretWith(map[string][]byte{"clouds.yaml": fmt.Appendf(nil, cloudsOf, "a")}), field: "data[clouds.yaml]",
			of: `Secret "user"`, changes: clusterapi.SecretKey("team-a", "user"), wantReason: "DelegationAllowed",
		},
		"a Cluster": {
			delegation: true, resource: "clusters", new: to("b"), field: "spec.infrastructureRef",
			of: `Cluster "prod"`, changes: clusterKey(v1beta1.ProviderOpenStack), wantReason: "ReferenceAllowed",
		},
	} {
		for when, stored := range map[string]struct {
			before, after types.UID
			dryRun        bool
			err           error
			wantExists    bool
			wantHeld      bool
		}{
			"that cannot be read":     {err: errors.New("away")},
			"that is not stored yet":  {wantHeld: true},
			"after another one":       {after: "former", wantHeld: true},
			"that is stored":          {after: "0eb3"},
			"that exists":             {before: "former", after: "former", wantExists: true},
			"that exists, on dry run": {before: "former", after: "former", dryRun: true},
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				registry, machines := &inflight.Registry{}, &fakeMachines{versionErr: stored.err}
				set := func(uid types.UID) {
					machines.uid, machines.versions = uid, nil
					if uid != "" {
						machines.versions = map[string]string{"prod": "1", "user": "1"}
					}
				}
				set(stored.before)
				holdings := cluster.NewHoldings(machines, &fakeInstances{}, registry, "")
				gate := newGate(enforced, reviewerThatAllows(impersonate("tsap@shalb.com")), &fakeUsers{account: accountOf("tsap@shalb.com")}, holdings)
				if tc.delegation {
					delegations := &fakeDelegations{token: tenant}
					references := &fakeReferences{accounts: map[string]ownership.Account{"b": onProject("others")}}
					gate = newDelegationGate(enforced, tenantRoles, delegations,
						func(string, string, map[string][]byte) cluster.Proposed { return delegations }, references, holdings)
				}
				r := request(t, tc.resource, nil, tc.new)
				if tc.resource == "clusters" {
					r = referenceRequest(t, nil, tc.new)
				}
				if tc.resource == "secrets" {
					r.Name = "user"
				}
				r.DryRun = ptr.To(stored.dryRun)
				got := gate.Review(t.Context(), r)
				switch {
				case stored.wantExists:
					compareAnswers(t, webhookstest.Answer{
						Status: metav1.StatusReasonAlreadyExists, Reason: "AlreadyExists", Field: tc.field,
						Message: tc.field + " of " + tc.of + ` of namespace "team-a": ` + exists,
					}, got)
				case stored.err != nil:
					if got.Decision != webhooks.Undecided || got.Reason != "ClaimPending" {
						t.Errorf("Review() = %s %s (%s), want ClaimPending", got.Decision, got.Reason, got.Message)
					}
				case got.Decision != webhooks.Allowed || got.Reason != tc.wantReason:
					t.Errorf("Review() = %s %s (%s), want %s", got.Decision, got.Reason, got.Message, tc.wantReason)
				}
				set(stored.after)
				_, err := registry.Begin(t.Context(), inflight.Write{
					Object: inflight.Object{Namespace: "team-a", Name: "another"}, ResourceVersion: "3", Changes: []inflight.Key{tc.changes},
				}, machines.Version)
				if _, held := errors.AsType[*inflight.PendingError](err); held != stored.wantHeld {
					t.Errorf("a write afterwards: %v, want it blocked: %t", err, stored.wantHeld)
				}
			})
		}
	}
}

// spyReviewer and spyUsers call a function before they return.
type spyReviewer struct {
	*fakeReviewer
	before func()
}

func (r spyReviewer) Review(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	r.before()
	return r.fakeReviewer.Review(ctx, spec)
}

type spyUsers struct {
	*fakeUsers
	before func()
}

func (u spyUsers) User(ctx context.Context, ref clusterapi.UserRef) (string, error) {
	u.before()
	return u.fakeUsers.User(ctx, ref)
}

func (u spyUsers) AccountOf(ctx context.Context, provider v1beta1.Provider, object *unstructured.Unstructured) (ownership.Account, error) {
	u.before()
	return u.fakeUsers.AccountOf(ctx, provider, object)
}

// TestOnlyAReaderOfASecretBlocksItsWrites has clusters of team-a that refer to a Secret of team-b, and a write of this Secret before each
// answer of the API server. A Secret that was read must not change until the cluster is stored.
func TestOnlyAReaderOfASecretBlocksItsWrites(t *testing.T) {
	spec := func(region string) object {
		return clusterWith(object{"userRef": userRef("user", "team-b"), "region": region})
	}
	notReadable := func(field string) webhookstest.Answer {
		message := field + ofCluster + `it names Secret "user" of another namespace, "team-b", which user "alice" may not read; ` +
			`name a Secret of the cluster's own namespace or one that you may read, or have the permission granted: verb get on this Secret`
		return webhookstest.Answer{Reason: "SecretNotReadable", Field: field, Message: message, Events: eventOnCluster("SecretNotReadable", "Denied: "+message)}
	}
	const heldUp, free = "held up", "free"
	for name, tc := range map[string]struct {
		old, new object
		readable bool
		dryRun   bool
		want     webhookstest.Answer
		// wantReview and wantRead are the results of the write of the Secret while the permissions are reviewed, and while the Secret is read.
		wantReview, wantRead []string
	}{
		"a cluster that is created": {new: spec("next"), want: notReadable("spec.userRef"), wantReview: []string{free}},
		"a cluster that starts to refer to it": {
			old: clusterWith(object{"region": "next"}), new: spec("next"), want: notReadable("spec.userRef"), wantReview: []string{free},
		},
		"a cluster that refers to it already and changes its region": {
			old: spec("zrh"), new: spec("next"), want: notReadable("spec.region"), wantReview: []string{free},
		},
		"on dry run": {new: spec("next"), dryRun: true, want: notReadable("spec.userRef"), wantReview: []string{free}},
		"by a user who may read it": {
			new: spec("next"), readable: true, want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"},
			wantReview: []string{free, heldUp}, wantRead: []string{heldUp, heldUp},
		},
		"by a user who may read it, another region": {
			old: spec("zrh"), new: spec("next"), readable: true, want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "NothingNamed"},
			wantReview: []string{free}, wantRead: []string{heldUp},
		},
		"by a user who may read it, on dry run": {
			new: spec("next"), readable: true, dryRun: true, want: webhookstest.Answer{Decision: webhooks.Allowed, Reason: "ImpersonationAllowed"},
			wantReview: []string{free, free}, wantRead: []string{free, free},
		},
	} {
		t.Run(name, func(t *testing.T) {
			registry, machines := &inflight.Registry{}, &fakeMachines{versions: map[string]string{"prod": "1"}}
			if tc.old == nil {
				machines.versions = nil
			}
			attempt := func(became *[]string) func() {
				return func() {
					entry, err := registry.Begin(t.Context(), inflight.Write{
						Object:          inflight.Object{Resource: schema.GroupVersionResource{Resource: "secrets"}, Namespace: "team-b", Name: "user"},
						ResourceVersion: "3", Changes: []inflight.Key{clusterapi.SecretKey("team-b", "user")},
					}, machines.Version)
					if err != nil {
						*became = append(*became, heldUp)
						return
					}
					entry.End()
					*became = append(*became, free)
				}
			}
			var review, read []string
			reviewer := reviewerThatAllows(impersonate("tsap@shalb.com"))
			if tc.readable {
				reviewer = reviewerThatAllows(impersonate("tsap@shalb.com"), getIn("team-b"))
			}
			users := &fakeUsers{emails: map[string]string{"team-b/user": "tsap@shalb.com"}, account: accountOf("tsap@shalb.com")}
			gate := newGate(enforced, spyReviewer{reviewer, attempt(&review)}, spyUsers{users, attempt(&read)},
				cluster.NewHoldings(machines, &fakeInstances{}, registry, ""))
			r := request(t, "cloudsigmaclusters", tc.old, tc.new)
			r.DryRun = ptr.To(tc.dryRun)
			if tc.old != nil {
				r.OldObject.Raw = encode(t, withVersion(tc.old, "1"))
			}
			if tc.old == nil { // no object can have an Event
				tc.want.Events = nil
			}
			compareAnswers(t, tc.want, gate.Review(t.Context(), r))
			if diff := cmp.Diff(tc.wantReview, review); diff != "" {
				t.Errorf("writes of the Secret while permissions are reviewed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRead, read); diff != "" {
				t.Errorf("writes of the Secret while it is read (-want +got):\n%s", diff)
			}
		})
	}
}

// withVersion is an object in a resource version.
func withVersion(o object, version string) object {
	return object{"metadata": metadata(object{"resourceVersion": version}), "spec": o["spec"]}
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
	used := []clusterapi.Dependent{{Kind: "OpenStackCluster", Name: "prod", Account: ownership.Account{Cloud: "openstack", Identity: tenantSecret},
		Cluster: clusterapi.Cluster{Provider: v1beta1.ProviderOpenStack, Namespace: "team-a", Name: "prod"}}}

	for name, tc := range map[string]struct {
		old, new    object
		err         error
		dependents  []clusterapi.Dependent
		exempt      bool
		instances   []ownership.Instance
		want        webhooks.Decision
		wantReason  string
		wantStatus  metav1.StatusReason
		unrequested bool
	}{
		"the tenant's own, unused":                   {new: holding(fmt.Sprintf(cloudsOf, "a")), want: webhooks.Allowed, wantReason: "DelegationAllowed"},
		"an administrator's, unused":                 {new: holding(fmt.Sprintf(cloudsOf, "a")), err: privileged, wantReason: "RolePrivileged"},
		"of another Keystone, unused":                {new: holding(fmt.Sprintf(cloudsOf, "a")), err: other, want: webhooks.Allowed, wantReason: "CredentialsOfAnotherCloud"},
		"of another Keystone, used":                  {new: holding(fmt.Sprintf(cloudsOf, "a")), err: other, dependents: used, wantReason: openstack.IdentityEndpointNotAllowed},
		"an administrator's, in a namespace without": {new: holding(fmt.Sprintf(cloudsOf, "a")), err: privileged, exempt: true, unrequested: true, want: webhooks.Allowed, wantReason: "NamespaceExempt"},
		"the same":                       {old: holding(fmt.Sprintf(cloudsOf, "a")), new: holding(fmt.Sprintf(cloudsOf, "'a'")), err: privileged, unrequested: true, want: webhooks.Allowed, wantReason: "CredentialsUnchanged"},
		"others":                         {old: holding(fmt.Sprintf(cloudsOf, "a")), new: holding(fmt.Sprintf(cloudsOf, "b")), err: privileged, wantReason: "RolePrivileged"},
		"none after it":                  {old: holding(fmt.Sprintf(cloudsOf, "a")), new: secretWith(nil), unrequested: true, want: webhooks.Allowed, wantReason: "CredentialsUnchanged"},
		"malformed YAML":                 {new: holding("{"), unrequested: true, wantReason: openstack.IdentityMalformed, wantStatus: metav1.StatusReasonInvalid},
		"too many at once":               {new: clouds(9), unrequested: true, wantReason: "TooManyClouds"},
		"as many at once as are checked": {new: clouds(8), want: webhooks.Allowed, wantReason: "DelegationAllowed"},
		"of a project without the machine's instance": {old: holding(fmt.Sprintf(cloudsOf, "a")), new: holding(fmt.Sprintf(cloudsOf, "b")), dependents: used, wantReason: "MachinesHoldInstances"},
		"of the machine's project": {
			old: holding(fmt.Sprintf(cloudsOf, "a")), new: holding(fmt.Sprintf(cloudsOf, "b")), dependents: used, instances: []ownership.Instance{{ID: aliceID}},
			want: webhooks.Allowed, wantReason: "DelegationAllowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			delegations := &fakeDelegations{token: tenant, err: tc.err, instances: tc.instances}
			var proposed map[string][]byte
			with := func(_, _ string, data map[string][]byte) cluster.Proposed { proposed = data; return delegations }
			config := enforced
			if tc.exempt {
				config.ExemptNamespaces = []string{"team-a"}
			}
			machines := &fakeMachines{holders: map[string][]clusterapi.Machine{"team-a/prod": {holder("m1", aliceID)}}}
			gate := newDelegationGate(config, tenantRoles, &fakeDelegations{err: errors.New("stored objects are not read")}, with,
				fakeCredentials(tc.dependents), cluster.NewHoldings(machines, &fakeInstances{}, &inflight.Registry{}, ""))
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

// TestAnotherClusterOfTheSameCredentials changes the label with the Cluster of an OpenStackCluster.
func TestAnotherClusterOfTheSameCredentials(t *testing.T) {
	labeled := func(name string) object {
		return object{"metadata": metadata(object{"labels": object{"cluster.x-k8s.io/cluster-name": name}}), "spec": object{"identityRef": keysRef()}}
	}
	for name, tc := range map[string]struct {
		old, new   object
		wantReason string
	}{
		"whose machines name other instances": {old: labeled("empty"), new: labeled("full"), wantReason: "MachinesHoldInstances"},
		"that has no machines":                {old: labeled("full"), new: labeled("empty"), wantReason: "IdentityUnchanged"},
		"by its own name":                     {old: labeled("empty"), new: onOpenStack(keysRef()), wantReason: "MachinesHoldInstances"},
		"that is created again":               {new: labeled("full"), wantReason: "MachinesHoldInstances"},
	} {
		t.Run(name, func(t *testing.T) {
			machines := &fakeMachines{holders: map[string][]clusterapi.Machine{
				"team-a/full": {holder("m1", aliceID)}, "team-a/prod": {holder("m2", aliceID)},
			}}
			gate := newDelegationGate(enforced, tenantRoles, &fakeDelegations{token: tenant}, nil, fakeCredentials(nil),
				cluster.NewHoldings(machines, &fakeInstances{}, &inflight.Registry{}, ""))
			if got := gate.Review(t.Context(), request(t, "openstackclusters", tc.old, tc.new)); got.Reason != tc.wantReason {
				t.Errorf("Review() = %s %s (%s), want %s", got.Decision, got.Reason, got.Message, tc.wantReason)
			}
		})
	}
}

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
	hooks := registered(t, append(cluster.Hooks(config), cluster.DelegationHooks(config)...))
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
		"farms": {"metadata": metadata(nil), "spec": object{"owner": object{"email": "tsap@shalb.com"}}},
		"barns": kdcWith(object{"example.com/email": "tsap@shalb.com"}),
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
