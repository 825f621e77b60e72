package audit_test

import (
	stdcmp "cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"warrantgate.dev/internal/audit"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/internal/ownership"
)

// IDs of the tests: the machine's own instance, an instance that no machine names, and an instance of another user.
const (
	idOwn   = "5d0c3e1f-9a47-4b6e-8f21-7c9d0e1f2a3b"
	idSpare = "3e7a4c21-3b5d-4f60-9a12-6d0c1e2f3b45"
	idOther = "b1f2a9c4-7d3e-4a58-9c06-2e5d8f7a1b34"
)

var tenant = ownership.Account{Cloud: "cloudsigma", User: "tenant@example.com", Region: "next"}

// kind accepts every text with the length of a UUID as an ID.
var kind = clusterapi.Kind{
	MachineKind:     v1beta1.Default().MachineKinds()[0],
	ParseInstanceID: parse, ParseProviderID: func(value string) (string, error) { return parse(strings.TrimPrefix(value, "cloudsigma://")) },
}

func parse(value string) (string, error) {
	if len(value) != len(idOwn) {
		return "", errors.New("no UUID")
	}
	return value, nil
}

// machine returns a machine of cluster "pool" in namespace "team".
func machine(name, instanceID string, modify ...func(*clusterapi.Machine)) clusterapi.Machine {
	m := clusterapi.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "pool"},
		},
		Kind: kind, InstanceID: instanceID,
	}
	for _, change := range modify {
		change(&m)
	}
	return m
}

func ofCluster(name string) func(*clusterapi.Machine) {
	return func(m *clusterapi.Machine) {
		m.Labels = map[string]string{}
		if name != "" {
			m.Labels["cluster.x-k8s.io/cluster-name"] = name
		}
	}
}

func inNamespace(namespace string) func(*clusterapi.Machine) {
	return func(m *clusterapi.Machine) { m.Namespace = namespace }
}

func withProviderID(id string) func(*clusterapi.Machine) {
	return func(m *clusterapi.Machine) { m.ProviderID = "cloudsigma://" + id }
}

// ownedBy adds an owner reference to a Machine of Cluster API.
func ownedBy(name string) func(*clusterapi.Machine) {
	return func(m *clusterapi.Machine) {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Name: name})
	}
}

// ofKind changes the machine to another kind of the same provider.
func ofKind(resource string) func(*clusterapi.Machine) {
	return func(m *clusterapi.Machine) { m.Kind.MachineKind.Resource, m.Kind.Kind = resource, resource }
}

// external returns an object of an external provider, without a cluster, that names an ID.
func external(name, id string, modify ...func(*clusterapi.Machine)) clusterapi.Machine {
	m := machine(name, "", append([]func(*clusterapi.Machine){ofKind("awsmachines"), ofCluster(""), ownedBy("any")}, modify...)...)
	m.Kind.Provider, m.Kind.InstanceIDPath, m.ProviderID = "external-aws", "", id
	m.Kind.ParseProviderID, _ = ownership.ExternalIDs("")
	m.UID += types.UID("-" + m.Namespace)
	return m
}

func deleted(m *clusterapi.Machine) { m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

// fakeObjects contains an account or an error for each cluster (namespace/name), and the cluster name or an error for each Machine of
// Cluster API. Names of objects in a logical cluster have it as a prefix: "a|team/pool".
type fakeObjects struct {
	machines []clusterapi.Machine
	accounts map[string]any
	owners   map[string]any
	// byReference are clusters that are found by a reference, and that Clusters does not yield.
	byReference map[string]bool
}

func (o fakeObjects) Machines() iter.Seq[clusterapi.Machine] { return slices.Values(o.machines) }

func (o fakeObjects) Machine(object clusterapi.MachineKey) (clusterapi.Machine, bool) {
	i := slices.IndexFunc(o.machines, func(m clusterapi.Machine) bool { return m.Key() == object })
	if i < 0 {
		return clusterapi.Machine{}, false
	}
	return o.machines[i], true
}

func (o fakeObjects) Naming(id string, _ clusterapi.Machine) []clusterapi.Machine {
	return slices.DeleteFunc(slices.Clone(o.machines), func(m clusterapi.Machine) bool { return !slices.Contains(m.IDs(), id) })
}

func (o fakeObjects) Clusters() iter.Seq2[clusterapi.Cluster, corev1.ObjectReference] {
	return func(yield func(clusterapi.Cluster, corev1.ObjectReference) bool) {
		for name := range o.accounts {
			if strings.Contains(name, "#") || o.byReference[name] { // a machine's own identity, or a reference
				continue
			}
			in, name, found := strings.Cut(name, "|")
			if !found {
				in, name = "", in
			}
			namespace, name, _ := strings.Cut(name, "/")
			cluster := clusterapi.Cluster{LogicalCluster: logicalcluster.Name(in), Provider: v1beta1.ProviderCloudSigma, Namespace: namespace, Name: name}
			if !yield(cluster, corev1.ObjectReference{Kind: "CloudSigmaCluster", Namespace: namespace, Name: name}) {
				return
			}
		}
	}
}

func (o fakeObjects) Account(_ context.Context, cluster clusterapi.Cluster) (ownership.Account, error) {
	name := within(cluster.LogicalCluster, cluster.Namespace+"/"+cluster.Name)
	if ref := cluster.Identity; ref != (clusterapi.IdentityRef{}) {
		name += "#" + ref.Name
	}
	switch found := o.accounts[name].(type) {
	case ownership.Account:
		return found, nil
	case error:
		return ownership.Account{}, found
	default:
		return ownership.Account{}, &clusterapi.AccountError{Reason: clusterapi.ClusterMissing, Message: name + " is no cluster"}
	}
}

func (o fakeObjects) OwnerSeen(_ context.Context, machine clusterapi.Machine) (*clusterapi.Owner, error) {
	name := within(machine.LogicalCluster, machine.Owners()[0])
	if err, failed := o.owners[name].(error); failed {
		return nil, err
	}
	return &clusterapi.Owner{Name: machine.Owners()[0], ClusterName: fmt.Sprint(o.owners[name])}, nil
}

func within(in logicalcluster.Name, name string) string {
	if in == "" {
		return name
	}
	return in.String() + "|" + name
}

// fakeCloud lists instances by user, with three requests for each list.
type fakeCloud struct {
	instances map[string][]ownership.Instance
	errs      map[string]error
	// hidden are instances that no list contains. askErr is the error of Ask.
	hidden map[string]ownership.Verdict
	askErr error
	// listTakes and askTakes are how long a list and Ask take in a bubble of testing/synctest.
	listTakes, askTakes time.Duration
	mu                  sync.Mutex
	requested           []string
}

func (c *fakeCloud) Ask(_ context.Context, claim ownership.Claim) (ownership.Answer, error) {
	<-time.After(c.askTakes)
	return ownership.Answer{Verdict: stdcmp.Or(c.hidden[claim.ID], ownership.Foreign)}, c.askErr
}

func (c *fakeCloud) Instances(_ context.Context, account ownership.Account) ([]ownership.Instance, int, error) {
	<-time.After(c.listTakes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requested = append(c.requested, account.User)
	return c.instances[account.User], 3, c.errs[account.User]
}

func newAudit(objects fakeObjects, cloud *fakeCloud) *audit.Audit {
	return &audit.Audit{
		Objects: objects, Clouds: map[string]ownership.Cloud{"cloudsigma": cloud},
		Limiter: map[string]*rate.Limiter{"cloudsigma": rate.NewLimiter(rate.Inf, 1)}, Now: time.Now,
	}
}

func TestPass(t *testing.T) {
	own := ownership.Instance{ID: idOwn, Name: "worker", MachineUID: "uid-worker"}
	for name, tc := range map[string]struct {
		machines    []clusterapi.Machine
		accounts    map[string]any // default: cluster team/pool acts as tenant
		owners      map[string]any
		byReference map[string]bool
		instances   []ownership.Instance
		listErr     error
		hidden      map[string]ownership.Verdict
		askErr      error
		want        []string // reason object: message
		wantErr     string
	}{
		"a machine that names its user's instance": {
			machines: []clusterapi.Machine{machine("worker", idOwn, withProviderID(idOwn))}, instances: []ownership.Instance{own},
		},
		"a machine that names nothing is being created, and so is its server": {
			machines: []clusterapi.Machine{machine("worker", "")}, instances: []ownership.Instance{own},
		},
		"instances that were not created for machines are not reported": {
			machines: []clusterapi.Machine{machine("worker", idOwn)}, instances: []ownership.Instance{own, {ID: idSpare, Name: "my-desktop"}},
		},
		"the incident: the stale instance of another user, and the user's own of the same name": {
			machines:  []clusterapi.Machine{machine("worker", idOther)},
			instances: []ownership.Instance{own},
			want: []string{
				"InstanceNotOwned CloudSigmaMachine/worker: instance " + idOther + ` exists, but is not one of user "tenant@example.com" in region "next", ` +
					`which cluster "pool" acts as; the user's own instance for this machine is ` + idOwn +
					"; clear the field, so that the provider adopts an instance of the user or creates one",
			},
		},
		"a second instance of the same name, without a machine's UID": {
			machines:  []clusterapi.Machine{machine("worker", idOwn)},
			instances: []ownership.Instance{own, {ID: idSpare, Name: "worker"}},
			want: []string{
				"InstanceDuplicate CloudSigmaMachine/worker: instance " + idSpare + ` ("worker") of user "tenant@example.com" in region "next" was created ` +
					"for this machine, which names " + idOwn + "; delete the one that is not needed",
			},
		},
		"an instance that was created for a machine that was deleted": {
			machines:  []clusterapi.Machine{machine("worker", idOwn)},
			instances: []ownership.Instance{own, {ID: idSpare, Name: "worker-0", MachineUID: "uid-gone"}},
			want: []string{
				"InstanceOrphaned CloudSigmaCluster/pool: instance " + idSpare + ` ("worker-0") of user "tenant@example.com" in region "next" was created ` +
					"for a machine that does not exist here; delete it if nothing else uses it",
			},
		},
		"an instance that an earlier identity created for a machine that now acts as another user": {
			machines: []clusterapi.Machine{machine("worker", idOther, ofCluster("other"))},
			accounts: map[string]any{"team/pool": tenant, "team/other": ownership.Account{Cloud: "cloudsigma", User: "else@example.com", Region: "next"}},
			hidden:   map[string]ownership.Verdict{idOther: ownership.Owned}, instances: []ownership.Instance{own},
			want: []string{
				"InstanceOrphaned CloudSigmaCluster/pool: instance " + idOwn + ` ("worker") of user "tenant@example.com" in region "next" was created ` +
					"for a machine whose cluster acts as another user; delete it if nothing else uses it",
			},
		},
		"an instance that was created for a machine whose user is not known": {
			machines: []clusterapi.Machine{machine("worker", "", ofCluster("gone"))}, instances: []ownership.Instance{own},
		},
		"an instance with the name of a machine in a namespace of another user": {
			machines: []clusterapi.Machine{machine("my-desktop", idOther, inNamespace("elsewhere"))},
			accounts: map[string]any{"team/pool": tenant, "elsewhere/pool": ownership.Account{Cloud: "cloudsigma", User: "else@example.com", Region: "next"}},
			hidden:   map[string]ownership.Verdict{idOther: ownership.Owned}, instances: []ownership.Instance{{ID: idSpare, Name: "my-desktop"}},
		},
		"an instance with the name of machines in two namespaces of the account": {
			machines: []clusterapi.Machine{machine("worker", ""), machine("worker", "", inNamespace("second"), ofCluster("other"))},
			accounts: map[string]any{
				"team/pool": tenant, "second/pool": tenant, "second/other": ownership.Account{Cloud: "cloudsigma", User: "else@example.com", Region: "next"},
			},
			instances: []ownership.Instance{own},
		},
		"an instance with a machine's name that an earlier attempt created as another user": {
			machines: []clusterapi.Machine{machine("worker", "", withProviderID(idSpare), ofCluster("other"))},
			accounts: map[string]any{"team/pool": tenant, "team/other": ownership.Account{Cloud: "cloudsigma", User: "else@example.com", Region: "next"}},
			instances: []ownership.Instance{
				{ID: idOther, Name: "worker"}, {ID: idOwn, Name: "my-desktop"},
			},
			hidden: map[string]ownership.Verdict{idSpare: ownership.Owned},
			want: []string{
				"InstanceOrphaned CloudSigmaCluster/pool: instance " + idOther + ` ("worker") of user "tenant@example.com" in region "next" was created ` +
					"for a machine whose cluster acts as another user; delete it if nothing else uses it",
			},
		},
		"two machines of two users that name one instance": {
			machines: []clusterapi.Machine{machine("worker", idOwn), machine("copy", "", withProviderID(idOwn), ofCluster("other"))},
			accounts: map[string]any{"team/pool": tenant, "team/other": ownership.Account{Cloud: "cloudsigma", User: "else@example.com", Region: "next"}},
			instances: []ownership.Instance{
				own,
			},
			want: []string{
				"InstanceIDConflict CloudSigmaMachine/copy: 2 machines name instance " + idOwn + ", which can be that of one only",
				"InstanceNotOwned CloudSigmaMachine/copy: instance " + idOwn + ` exists, but is not one of user "else@example.com" in region "next", ` +
					`which cluster "other" acts as; clear the field, so that the provider adopts an instance of the user or creates one`,
				"InstanceIDConflict CloudSigmaMachine/worker: 2 machines name instance " + idOwn + ", which can be that of one only",
			},
		},
		"a machine and its server that name one instance": {
			machines:  []clusterapi.Machine{machine("worker", idOwn, ofKind("openstackmachines")), machine("worker", idOwn, ofKind("openstackservers"))},
			instances: []ownership.Instance{own},
		},
		"a machine, its server and another machine that name one instance": {
			machines: []clusterapi.Machine{
				machine("worker", idOwn, ofKind("openstackmachines")), machine("worker", idOwn, ofKind("openstackservers")), machine("copy", idOwn, ofKind("openstackmachines")),
			},
			instances: []ownership.Instance{own},
			want: []string{
				"InstanceIDConflict openstackmachines/copy: 3 machines name instance " + idOwn + ", which can be that of one only",
				"InstanceIDConflict openstackmachines/worker: 2 machines name instance " + idOwn + ", which can be that of one only",
				"InstanceIDConflict openstackservers/worker: 2 machines name instance " + idOwn + ", which can be that of one only",
			},
		},
		"fields without a valid ID": {
			machines: []clusterapi.Machine{machine("odd", "server-1")},
			want: []string{
				"InstanceIDInvalid CloudSigmaMachine/odd: it does not name an instance in status.instanceID or spec.providerID; " +
					"clear both fields, so that the provider adopts an instance of the user or creates one",
			},
		},
		"machines whose provider acts as an unknown user": {
			machines: []clusterapi.Machine{
				machine("a", idOwn, ofCluster("")), machine("b", idSpare, ofCluster("gone")), machine("c", idOther, ofCluster("nobody")),
				machine("d", "", ofCluster("gone")),
			},
			accounts: map[string]any{"team/nobody": &clusterapi.AccountError{Reason: clusterapi.UserMissing, Message: "it names no user"}},
			want: []string{
				"UserMissing CloudSigmaCluster/nobody: the user that its provider acts as is unknown: it names no user",
				"MachineWithoutCluster CloudSigmaMachine/a: it has no label cluster.x-k8s.io/cluster-name, so the user that its provider acts as is unknown",
				`ClusterMissing CloudSigmaMachine/b: it belongs to cluster "gone", which does not exist here`,
				"UserMissing CloudSigmaMachine/c: the user that its provider acts as is unknown: it names no user",
			},
		},
		"a cluster without a user, and without machines": {
			accounts: map[string]any{
				"team/nobody": &clusterapi.AccountError{Reason: clusterapi.UserSecretMissing, Message: `there is no Secret "user"`},
				"team/exempt": &clusterapi.AccountError{Reason: clusterapi.NamespaceExempt, Message: "the Secrets are not checked"},
			},
			want: []string{
				"NamespaceExempt CloudSigmaCluster/exempt: the user that its provider acts as is unknown: the Secrets are not checked",
				`UserSecretMissing CloudSigmaCluster/nobody: the user that its provider acts as is unknown: there is no Secret "user"`,
			},
		},
		"a cluster that was deleted after it was listed": {
			accounts: map[string]any{"team/pool": &clusterapi.AccountError{Reason: clusterapi.ClusterMissing, Message: "it is gone"}},
		},
		"a cluster that is only found by a reference": {
			machines: []clusterapi.Machine{machine("worker", idOwn), machine("thief", idOther)}, byReference: map[string]bool{"team/pool": true},
			instances: []ownership.Instance{own},
			want: []string{
				"InstanceNotOwned CloudSigmaMachine/thief: instance " + idOther + ` exists, but is not one of user "tenant@example.com" in region "next", ` +
					`which cluster "pool" acts as; clear the field, so that the provider adopts an instance of the user or creates one`,
			},
		},
		"a machine whose owner is of the same cluster": {
			machines: []clusterapi.Machine{machine("worker", idOwn, ownedBy("a"))}, owners: map[string]any{"a": "pool"}, instances: []ownership.Instance{own},
		},
		"a machine whose owner is of another cluster": {
			machines: []clusterapi.Machine{machine("worker", idOwn, ownedBy("a")), machine("new", "", ownedBy("a"))},
			owners:   map[string]any{"a": "other"}, instances: []ownership.Instance{own},
			want: []string{
				`OwnerClusterMismatch CloudSigmaMachine/worker: its owner, Machine "a", belongs to cluster "other" by its label cluster.x-k8s.io/cluster-name, ` +
					`which the provider uses, but the machine has the label of cluster "pool"; set the same label on both; if Cluster API sets it back, clear status.instanceID and spec.providerID`,
			},
		},
		"a machine whose owner is not known": {
			machines: []clusterapi.Machine{machine("worker", idOwn, ownedBy("a")), machine("leaving", idSpare, ownedBy("gone"), deleted), machine("odd", idOther, ownedBy("two"), deleted)},
			owners: map[string]any{
				"a": &clusterapi.AccountError{Reason: clusterapi.OwnerMachineMissing, Message: "there is none"}, "two": &clusterapi.AccountError{Reason: clusterapi.OwnerMachineAmbiguous, Message: "there are two"},
				"gone": &clusterapi.AccountError{Reason: clusterapi.OwnerMachineMissing, Message: "there is none"},
			},
			instances: []ownership.Instance{own, {ID: idSpare}, {ID: idOther}},
			want: []string{
				"OwnerMachineAmbiguous CloudSigmaMachine/odd: the cluster that its provider acts for is unknown: there are two",
				"OwnerMachineMissing CloudSigmaMachine/worker: the cluster that its provider acts for is unknown: there is none",
			},
		},
		"owners that cannot be read": {
			machines: []clusterapi.Machine{machine("worker", idOwn, ownedBy("a"))}, owners: map[string]any{"a": errors.New("machines are forbidden")},
			instances: []ownership.Instance{own}, wantErr: "owners of machines: machines are forbidden",
		},
		"an instance that is not in the list, but exists": {
			machines: []clusterapi.Machine{machine("worker", idOwn)}, hidden: map[string]ownership.Verdict{idOwn: ownership.Owned},
		},
		"an instance that does not exist": {
			machines: []clusterapi.Machine{machine("worker", idOwn)}, hidden: map[string]ownership.Verdict{idOwn: ownership.Absent},
			want: []string{
				"InstanceNotFound CloudSigmaMachine/worker: there is no instance " + idOwn + ` of user "tenant@example.com" in region "next", ` +
					`which cluster "pool" acts as; clear the field, so that the provider adopts an instance of the user or creates one`,
			},
		},
		"an instance that its provider has deleted, of a machine that is being deleted": {
			machines: []clusterapi.Machine{machine("worker", idOwn, deleted)}, hidden: map[string]ownership.Verdict{idOwn: ownership.Absent},
		},
		"an instance that cannot be looked up": {
			machines: []clusterapi.Machine{machine("worker", idOwn)},
			askErr:   &ownership.UnknownError{Cause: ownership.CauseTimeout, Err: context.DeadlineExceeded},
			want: []string{
				`OwnershipUnknown CloudSigmaMachine/worker: it could not be determined whether its instance belongs to user "tenant@example.com" in region "next": ` +
					"the cloud or its identity provider did not answer in time; try again",
			},
		},
		"an account that cannot be listed has no findings about its machines": {
			machines: []clusterapi.Machine{machine("worker", idOther)},
			listErr:  &ownership.UnknownError{Cause: ownership.CauseRateLimited, Err: errors.New("429")},
			want: []string{
				`OwnershipUnknown CloudSigmaCluster/pool: the instances of user "tenant@example.com" in region "next" could not be listed: ` +
					"the cloud or its identity provider limits the rate of requests; try again later",
			},
			wantErr: `instances of user "tenant@example.com" in region "next": RateLimited: 429`,
		},
		"a region that is not allowed": {
			machines: []clusterapi.Machine{machine("worker", idOther)},
			listErr:  &ownership.RegionError{Region: "next", Allowed: []string{"zrh"}},
			want: []string{
				`RegionNotAllowed CloudSigmaCluster/pool: region "next" is none of those configured (zrh)`,
			},
		},
		"a cluster that cannot be read": {
			accounts: map[string]any{"team/pool": errors.New("secrets are forbidden"), "other/pool": tenant},
			machines: []clusterapi.Machine{machine("worker", idOwn), machine("stray", idOther, inNamespace("other"))}, instances: []ownership.Instance{own},
			want: []string{
				"InstanceNotOwned CloudSigmaMachine/stray: instance " + idOther + ` exists, but is not one of user "tenant@example.com" in region "next", ` +
					`which cluster "pool" acts as; clear the field, so that the provider adopts an instance of the user or creates one`,
				"AccountsNotAudited CloudSigmaCluster/pool: the account of this cluster could not be read, so no other clusters of this namespace " +
					"(on kcp: of this workspace) were checked; the cause is in the log of warrantgate",
			},
			wantErr: `accounts of 1 namespaces or logical clusters could not be read, among them namespace "team": secrets are forbidden`,
		},
		"objects of an external provider in two namespaces, and others that do not count": {
			machines: []clusterapi.Machine{
				external("a", "aws:///x/i-1"), external("b", "AWS:///x/i-1/", inNamespace("else")), external("c", "aws:///x/i-2"), external("d", ""),
				external("e", "aws:///x/i-3"), external("f", "aws:///x/i-3", ofKind("awspools")), external("g", idOwn, inNamespace("else")),
				machine("worker", idOwn), external("h", "two words"),
			},
			instances: []ownership.Instance{own},
			want: []string{
				"InstanceIDConflict awsmachines/b: 2 machines name instance aws:/x/i-1, which can be that of one only",
				"InstanceIDConflict awsmachines/a: 2 machines name instance aws:/x/i-1, which can be that of one only",
				`ProviderIDInvalid awsmachines/h: spec.providerID "two words" is not an ID: it must have at most 400 letters, digits and punctuation ` +
					"characters of a URI, and no segment . or .., so it is not compared with others",
			},
		},
		"an ID of an external provider that many objects of one namespace have": {
			machines: []clusterapi.Machine{
				external("a", "i-1"), external("b", "i-1"), external("c", "i-1"), external("d", "i-1"), external("e", "i-1"), external("z", "i-1", inNamespace("else")),
			},
			want: []string{
				"InstanceIDConflict awsmachines/z: 6 machines name instance i-1, which can be that of one only",
				"InstanceIDConflict awsmachines/a: 2 machines name instance i-1, which can be that of one only",
				"InstanceIDConflict awsmachines/b: 2 machines name instance i-1, which can be that of one only",
				"InstanceIDConflict awsmachines/c: 2 machines name instance i-1, which can be that of one only",
				"InstanceIDConflict awsmachines/d: 2 machines name instance i-1, which can be that of one only",
				"InstanceIDConflict awsmachines/e: 2 machines name instance i-1, which can be that of one only",
			},
		},
		"an orphan that an object of an external provider names": {
			machines:  []clusterapi.Machine{machine("worker", idOwn), external("worker", idSpare), external("hider", idSpare, inNamespace("else"))},
			instances: []ownership.Instance{own, {ID: idSpare, Name: "worker-0", MachineUID: "uid-gone"}},
			want: []string{
				"InstanceIDConflict awsmachines/hider: 2 machines name instance " + idSpare + ", which can be that of one only",
				"InstanceOrphaned CloudSigmaCluster/pool: instance " + idSpare + ` ("worker-0") of user "tenant@example.com" in region "next" was created ` +
					"for a machine that does not exist here; delete it if nothing else uses it",
				"InstanceIDConflict awsmachines/worker: 2 machines name instance " + idSpare + ", which can be that of one only",
			},
		},
		"a cloud that is not configured": {
			accounts: map[string]any{"team/pool": ownership.Account{Cloud: "elsewhere", User: "tenant@example.com", Region: "next"}},
			want: []string{
				`OwnershipUnknown CloudSigmaCluster/pool: the instances of user "tenant@example.com" in region "next" could not be listed: ` +
					"the cloud is unavailable or its response is invalid; try again",
			},
			wantErr: `instances of user "tenant@example.com" in region "next": no access to the cloud "elsewhere" is configured`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := fakeObjects{machines: tc.machines, accounts: tc.accounts, owners: tc.owners, byReference: tc.byReference}
			if objects.accounts == nil {
				objects.accounts = map[string]any{"team/pool": tenant}
			}
			cloud := &fakeCloud{
				instances: map[string][]ownership.Instance{tenant.User: tc.instances}, errs: map[string]error{tenant.User: tc.listErr},
				hidden: tc.hidden, askErr: tc.askErr,
			}
			result, err := newAudit(objects, cloud).Run(t.Context())
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("Run() error (-want +got):\n%s", diff)
			}
			var got []string
			for _, f := range result.Findings {
				got = append(got, fmt.Sprintf("%s %s/%s: %s", f.Reason, f.Object.Kind, f.Object.Name, f.Message))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		})
	}
}

// A tenant can make the read of each of its clusters last long.
func TestOnlyOneClusterOfANamespaceThatCannotBeRead(t *testing.T) {
	accounts := map[string]any{"fair/pool": tenant}
	for i := range 100 {
		accounts[fmt.Sprintf("slow/pool-%d", i)] = context.DeadlineExceeded
	}
	objects := &countingObjects{fakeObjects: fakeObjects{accounts: accounts}, reads: map[string]int{}}
	a := newAudit(objects.fakeObjects, &fakeCloud{})
	a.Objects = objects
	result, err := a.Run(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || result.Accounts != 1 || len(result.Findings) != 1 {
		t.Errorf("%d accounts, findings %v, error %v, want one account, one finding and the error", result.Accounts, result.Findings, err)
	}
	if diff := cmp.Diff(map[string]int{"fair": 1, "slow": 1}, objects.reads); diff != "" {
		t.Errorf("reads by namespace (-want +got):\n%s", diff)
	}
}

// countingObjects counts the accounts that are read, by namespace.
type countingObjects struct {
	fakeObjects
	reads map[string]int
}

func (o *countingObjects) Account(ctx context.Context, cluster clusterapi.Cluster) (ownership.Account, error) {
	o.reads[cluster.Namespace]++
	return o.fakeObjects.Account(ctx, cluster)
}

// An instance that was created for a machine that names none is a finding if two passes in a row see it.
func TestAnInstanceThatItsMachineDoesNotName(t *testing.T) {
	own := ownership.Instance{ID: idOwn, Name: "worker", MachineUID: "uid-worker"}
	byName := ownership.Instance{ID: idSpare, Name: "worker"}
	const of = ` ("worker") of user "tenant@example.com" in region "next" was created for this machine, which names none; if the provider does not ` +
		`adopt it, delete it`
	type pass struct {
		machines  []clusterapi.Machine
		instances []ownership.Instance
		listErr   error
		want      []string
		// wantNew is the number of instances that are a finding if the next pass sees the same.
		wantNew int
	}
	unnamed := []clusterapi.Machine{machine("worker", "")}
	away := errors.New("away")
	for name, passes := range map[string][]pass{
		"no change between the runs": {
			{machines: unnamed, instances: []ownership.Instance{own}, wantNew: 1},
			{machines: unnamed, instances: []ownership.Instance{own}, want: []string{"InstanceNotNamed worker: instance " + idOwn + of}},
			{machines: unnamed, instances: []ownership.Instance{own}, want: []string{"InstanceNotNamed worker: instance " + idOwn + of}},
		},
		"by name, and a second one that came later": {
			{machines: unnamed, instances: []ownership.Instance{byName}, wantNew: 1},
			{machines: unnamed, instances: []ownership.Instance{byName, own}, want: []string{"InstanceNotNamed worker: instance " + idSpare + of}, wantNew: 1},
			{machines: unnamed, instances: []ownership.Instance{byName, own}, want: []string{
				"InstanceNotNamed worker: instance " + idSpare + of, "InstanceNotNamed worker: instance " + idOwn + of,
			}},
		},
		"the machine names it later": {
			{machines: unnamed, instances: []ownership.Instance{own}, wantNew: 1},
			{machines: []clusterapi.Machine{machine("worker", idOwn)}, instances: []ownership.Instance{own}},
			{machines: unnamed, instances: []ownership.Instance{own}, wantNew: 1},
		},
		"another machine names it": {
			{machines: append(unnamed, machine("other", idOwn)), instances: []ownership.Instance{own}},
			{machines: append(unnamed, machine("other", idOwn)), instances: []ownership.Instance{own}},
		},
		"the machine is created again": {
			{machines: unnamed, instances: []ownership.Instance{byName}, wantNew: 1},
			{machines: []clusterapi.Machine{machine("worker", "", func(m *clusterapi.Machine) { m.UID = "again" })}, instances: []ownership.Instance{byName}, wantNew: 1},
		},
		"the machine names an ID without an instance": {
			{machines: []clusterapi.Machine{machine("worker", "soon")}, instances: []ownership.Instance{own}, want: []string{
				"InstanceIDInvalid worker: it does not name an instance in status.instanceID or spec.providerID" +
					"; clear both fields, so that the provider adopts an instance of the user or creates one",
			}},
		},
		"the cloud fails in between": {
			{machines: unnamed, instances: []ownership.Instance{own}, wantNew: 1},
			{machines: unnamed, listErr: away, want: []string{
				`OwnershipUnknown pool: the instances of user "tenant@example.com" in region "next" could not be listed: the cloud is unavailable or its response is invalid; try again`,
			}},
			{machines: unnamed, instances: []ownership.Instance{own}, want: []string{"InstanceNotNamed worker: instance " + idOwn + of}},
		},
		"it is deleted in between": {
			{machines: unnamed, instances: []ownership.Instance{own}, wantNew: 1},
			{machines: unnamed},
			{machines: unnamed, instances: []ownership.Instance{own}, wantNew: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &fakeCloud{instances: map[string][]ownership.Instance{}, errs: map[string]error{}}
			audited := newAudit(fakeObjects{}, cloud)
			for i, p := range passes {
				audited.Objects = fakeObjects{machines: p.machines, accounts: map[string]any{"team/pool": tenant}}
				cloud.instances[tenant.User], cloud.errs[tenant.User] = p.instances, p.listErr
				result, err := audited.Run(t.Context())
				if !errors.Is(err, p.listErr) {
					t.Errorf("pass %d: error %v", i, err)
				}
				var got []string
				for _, f := range result.Findings {
					got = append(got, f.Reason+" "+f.Object.Name+": "+f.Message)
				}
				if diff := cmp.Diff(p.want, got); diff != "" {
					t.Errorf("pass %d (-want +got):\n%s", i, diff)
				}
				if result.NotNamed != p.wantNew {
					t.Errorf("pass %d: NotNamed = %d, want %d", i, result.NotNamed, p.wantNew)
				}
			}
		})
	}
}

// If clusters have their own credentials, the audit checks the credentials, too.
func TestPassChecksCredentials(t *testing.T) {
	keys := ownership.Account{Cloud: "cloudsigma", Identity: ownership.Identity{Namespace: "team", Secret: "keys", Entry: "tenant"}}
	own := keys
	own.Identity.Secret = "own"
	bringing := func(m *clusterapi.Machine) { m.Identity = clusterapi.IdentityRef{Name: "own", CloudName: "tenant"} }
	rejected := &ownership.IdentityError{Reason: "RoleMissing", Message: "missing: load-balancer_member"}
	unknown := &ownership.UnknownError{Cause: ownership.CauseIdentityProvider, Err: errors.New("503")}

	for name, tc := range map[string]struct {
		machines   []clusterapi.Machine
		accounts   map[string]any
		rejections map[string]error // by the Secret
		listErr    error
		want       []string
		wantErr    string
		requests   int
	}{
		"that may be delegated": {accounts: map[string]any{"team/pool": keys}, requests: 4},
		"that may not be delegated": {
			accounts: map[string]any{"team/pool": keys, "team/other": keys}, rejections: map[string]error{"keys": rejected},
			want: []string{
				"RoleMissing CloudSigmaCluster/other: missing: load-balancer_member", "RoleMissing CloudSigmaCluster/pool: missing: load-balancer_member",
			},
			requests: 4,
		},
		"of a machine": {
			machines: []clusterapi.Machine{machine("worker", "", bringing)},
			accounts: map[string]any{"team/pool": keys, "team/pool#own": own}, rejections: map[string]error{"own": rejected},
			want: []string{"RoleMissing CloudSigmaMachine/worker: missing: load-balancer_member"}, requests: 8,
		},
		"of a machine that names another project's instance": {
			machines: []clusterapi.Machine{machine("worker", idOther, bringing)},
			accounts: map[string]any{"team/pool": keys, "team/pool#own": own},
			want: []string{
				"InstanceNotOwned CloudSigmaMachine/worker: instance " + idOther + ` exists, but is not one of the project of cloud "tenant" of Secret "own" ` +
					"in the region of its credentials, with which this machine acts; clear the field, so that the provider adopts an instance of the user or creates one",
			},
			requests: 9,
		},
		"of a machine, and that are not known": {
			machines: []clusterapi.Machine{machine("worker", "", bringing), machine("holder", idOwn, bringing)},
			accounts: map[string]any{"team/pool": keys, "team/pool#own": &clusterapi.AccountError{Reason: clusterapi.IdentityMissing, Message: "no name"}},
			want: []string{
				"IdentityMissing CloudSigmaMachine/holder: the user that its provider acts as is unknown: no name",
				"IdentityMissing CloudSigmaMachine/worker: the user that its provider acts as is unknown: no name",
			},
			requests: 4,
		},
		"that can no longer be used are reported once, and the pass is complete": {
			accounts: map[string]any{"team/pool": keys}, rejections: map[string]error{"keys": rejected}, listErr: rejected,
			want: []string{"RoleMissing CloudSigmaCluster/pool: missing: load-balancer_member"}, requests: 4,
		},
		"that can no longer be used since they were checked": {
			accounts: map[string]any{"team/pool": keys}, listErr: rejected,
			want: []string{"RoleMissing CloudSigmaCluster/pool: missing: load-balancer_member"}, requests: 4,
		},
		"that cannot be checked": {
			accounts: map[string]any{"team/pool": keys}, rejections: map[string]error{"keys": unknown}, listErr: unknown,
			want: []string{
				`OwnershipUnknown CloudSigmaCluster/pool: the instances of the project of cloud "tenant" of Secret "keys" in the region of its credentials ` +
					"could not be listed: the identity provider is unavailable or its response is invalid; try again",
			},
			wantErr:  `instances of the project of cloud "tenant" of Secret "keys" in the region of its credentials: IdentityProviderUnavailable: 503`,
			requests: 4,
		},
		"that the cluster does not have": {accounts: map[string]any{"team/pool": tenant}, requests: 3},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := &fakeCloud{errs: map[string]error{"": tc.listErr}}
			a := newAudit(fakeObjects{machines: tc.machines, accounts: tc.accounts}, cloud)
			a.Delegation = func(_ context.Context, identity ownership.Identity) error { return tc.rejections[identity.Secret] }
			result, err := a.Run(t.Context())
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			var got []string
			for _, f := range result.Findings {
				got = append(got, f.Reason+" "+f.Object.Kind+"/"+f.Object.Name+": "+f.Message)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if gotErr != tc.wantErr || result.Requests != tc.requests {
				t.Errorf("%d requests, error %q, want %d and %q", result.Requests, gotErr, tc.requests, tc.wantErr)
			}
		})
	}
}

func TestPassListsEachAccountOnce(t *testing.T) {
	objects := fakeObjects{accounts: map[string]any{}}
	cloud := &fakeCloud{instances: map[string][]ownership.Instance{}}
	for i := range 100 {
		user := fmt.Sprintf("user-%d@example.com", i%5)
		objects.accounts[fmt.Sprintf("team/c%d", i)] = ownership.Account{Cloud: "cloudsigma", User: user, Region: "next"}
		id := fmt.Sprintf("%08d-9a47-4b6e-8f21-7c9d0e1f2a3b", i)
		objects.machines = append(objects.machines, machine(fmt.Sprintf("m%d", i), id, ofCluster(fmt.Sprintf("c%d", i))))
		cloud.instances[user] = append(cloud.instances[user], ownership.Instance{ID: id, Name: fmt.Sprintf("m%d", i)})
	}
	result, err := newAudit(objects, cloud).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(audit.Result{Machines: 100, Accounts: 5, Requests: 15}, result, cmpopts.IgnoreUnexported(audit.Result{})); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
	if want := []string{"user-0@example.com", "user-1@example.com", "user-2@example.com", "user-3@example.com", "user-4@example.com"}; !slices.Equal(cloud.requested, want) {
		t.Errorf("listed %q, want %q", cloud.requested, want)
	}
}

// An instance that two namespaces share is reported in the one that is asked for.
func TestPassOfANamespace(t *testing.T) {
	other := ownership.Account{Cloud: "cloudsigma", User: "other@example.com", Region: "next"}
	for namespace, tc := range map[string]struct {
		want      []string
		requested []string
	}{
		"":      {[]string{"InstanceOrphaned team", "InstanceNotOwned zoe"}, []string{other.User, tenant.User}},
		"team":  {[]string{"InstanceOrphaned team"}, []string{tenant.User}},
		"zoe":   {[]string{"InstanceOrphaned zoe", "InstanceNotOwned zoe"}, []string{other.User, tenant.User}},
		"empty": {},
	} {
		t.Run(namespace, func(t *testing.T) {
			cloud := &fakeCloud{instances: map[string][]ownership.Instance{tenant.User: {{ID: idSpare, Name: "gone", MachineUID: "uid-gone"}}}}
			a := newAudit(fakeObjects{
				accounts: map[string]any{"team/pool": tenant, "zoe/pool": tenant, "zoe/second": other},
				machines: []clusterapi.Machine{machine("wrong", idOther, inNamespace("zoe"), ofCluster("second"))},
			}, cloud)
			a.Namespace = namespace
			result, err := a.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range result.Findings {
				got = append(got, f.Reason+" "+f.Object.Namespace)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.requested, cloud.requested); diff != "" {
				t.Errorf("listed accounts (-want +got):\n%s", diff)
			}
		})
	}
}

// Readers of Events in a namespace may not be allowed to read the Secret of another namespace with the user of a cluster. Clusters of one user
// share one list, however they name the user.
func TestFindingsDoNotNameTheUserInASecretOfAnotherNamespace(t *testing.T) {
	hidden := tenant
	hidden.UserSecret = types.NamespacedName{Namespace: "users", Name: "theirs"}
	spare := ownership.Instance{ID: idSpare, Name: "gone", MachineUID: "uid-gone"}
	cloud := &fakeCloud{instances: map[string][]ownership.Instance{tenant.User: {
		{ID: idOwn, Name: "worker", MachineUID: "uid-worker"}, {ID: idOther, Name: "node", MachineUID: "uid-node"}, spare,
	}}}
	const foreignA, foreignB = "aaaaaaaa-9a47-4b6e-8f21-7c9d0e1f2a3b", "bbbbbbbb-9a47-4b6e-8f21-7c9d0e1f2a3b"
	objects := fakeObjects{
		accounts: map[string]any{"team/pool": hidden, "zoe/pool": tenant},
		machines: []clusterapi.Machine{
			machine("worker", idOwn), machine("wrong", foreignA), machine("new", ""),
			machine("node", idOther, inNamespace("zoe")), machine("wrong-as-well", foreignB, inNamespace("zoe")),
		},
	}
	cloud.instances[tenant.User] = append(cloud.instances[tenant.User],
		ownership.Instance{ID: "cccccccc-9a47-4b6e-8f21-7c9d0e1f2a3b", Name: "worker"}, ownership.Instance{ID: "dddddddd-9a47-4b6e-8f21-7c9d0e1f2a3b", Name: "new"})
	a := newAudit(objects, cloud)
	for run := range 2 { // a server of a machine that names none is a finding of the second run
		result, err := a.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(cloud.requested) != run+1 {
			t.Errorf("lists of %q", cloud.requested)
		}
		var got []string
		for _, f := range result.Findings {
			got = append(got, f.Reason+" "+f.Object.Namespace)
			if f.Account.User != tenant.User {
				t.Errorf("the log of %s names user %q", f.Reason, f.Account.User)
			}
			shown, secret := strings.Contains(f.Message, tenant.User), strings.Contains(f.Message, `Secret "theirs" of namespace "users"`)
			if elsewhere := f.Object.Namespace == "zoe"; shown != elsewhere || secret == elsewhere {
				t.Errorf("in namespace %s: %s", f.Object.Namespace, f.Message)
			}
		}
		want := []string{"InstanceOrphaned team", "InstanceDuplicate team", "InstanceNotOwned team", "InstanceNotOwned zoe"}
		if run == 1 {
			want = []string{"InstanceOrphaned team", "InstanceNotNamed team", "InstanceDuplicate team", "InstanceNotOwned team", "InstanceNotOwned zoe"}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("findings of run %d (-want +got):\n%s", run, diff)
		}
	}
	cloud.errs = map[string]error{tenant.User: &ownership.UnknownError{Cause: ownership.CauseTimeout, Err: errors.New("late")}}
	result, _ := a.Run(t.Context()) // the error is for the operator
	if len(result.Findings) != 1 || strings.Contains(result.Findings[0].Message, tenant.User) {
		t.Errorf("findings without an answer: %+v", result.Findings)
	}
}

// recorded contains the recorded Events.
type recorded struct {
	mu     sync.Mutex
	events []events.Event
}

func (r *recorded) Record(event events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *recorded) take() []events.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.events
	r.events = nil
	return taken
}

// elected holds the Lease at once.
type elected struct{}

func (elected) Run(ctx context.Context, lead func(context.Context)) error {
	lead(ctx)
	return nil
}

func TestControllerMakesAPassAtAnIntervalOnceAllIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := fakeObjects{machines: []clusterapi.Machine{machine("worker", idOther)}, accounts: map[string]any{"team/pool": tenant}}
		recorder := &recorded{}
		notYet := errors.New("not yet")
		var mu sync.Mutex
		synced := notYet
		controller := &audit.Controller{
			Audit: newAudit(objects, &fakeCloud{}), Recorder: recorder, Election: elected{}, Interval: 10 * time.Minute,
			Synced: func() error {
				mu.Lock()
				defer mu.Unlock()
				return synced
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- controller.Start(ctx) }()

		after := func(d time.Duration) []events.Event {
			<-time.After(d)
			synctest.Wait()
			return recorder.take()
		}
		if got := after(time.Hour); len(got) > 0 {
			t.Errorf("Events before all objects were seen: %v", got)
		}
		mu.Lock()
		synced = nil
		mu.Unlock()
		want := []events.Event{{
			Object: corev1.ObjectReference{
				APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "CloudSigmaMachine", Namespace: "team", Name: "worker", UID: "uid-worker",
			},
			Type: "Warning", Reason: "InstanceNotOwned",
			Message: "Audit: instance " + idOther + ` exists, but is not one of user "tenant@example.com" in region "next", which cluster "pool" acts as; ` +
				"clear the field, so that the provider adopts an instance of the user or creates one",
		}}
		if diff := cmp.Diff(want, after(2*time.Second)); diff != "" {
			t.Errorf("the first pass (-want +got):\n%s", diff)
		}
		if got := after(9 * time.Minute); len(got) > 0 {
			t.Errorf("a pass before the interval is over: %v", got)
		}
		if diff := cmp.Diff(want, after(2*time.Minute)); diff != "" {
			t.Errorf("the second pass has other findings (-want +got):\n%s", diff)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
}

func TestTheRateHoldsOverAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := fakeObjects{accounts: map[string]any{}}
		for i := range 10 {
			objects.accounts[fmt.Sprintf("team/c%d", i)] = ownership.Account{
				Cloud: "cloudsigma", User: fmt.Sprintf("user-%d@example.com", i), Region: "next",
			}
		}
		a := newAudit(objects, &fakeCloud{})
		a.Limiter["cloudsigma"] = rate.NewLimiter(5, 1)
		start := time.Now()
		result, err := a.Run(t.Context())
		if err != nil || result.Requests != 30 {
			t.Fatalf("Run() = %+v, %v", result, err)
		}
		if took := time.Since(start); took < 5*time.Second { // 30 requests at 5 a second, less the burst of one
			t.Errorf("30 requests took %s", took)
		}
	})
}

// A tenant can create any number of clusters with accounts of their own. They delay the findings about others for five minutes only, and the
// tenant has one finding instead of theirs.
func TestManyAccountsOfOneTenantDelayNoOthersForLong(t *testing.T) {
	const requests = 3 // of an account
	for name, tc := range map[string]struct {
		prefix string
		takes  time.Duration
		// most is the number of accounts in five minutes, at 5 requests a second.
		most int
	}{
		"a namespace":                    {prefix: "mallory/", most: 500},
		"a workspace of kcp":             {prefix: "mallory|any/", most: 500},
		"a cloud as fast as the limit":   {prefix: "mallory/", takes: 600 * time.Millisecond, most: 250},
		"a cloud that answers slowly":    {prefix: "mallory/", takes: 3 * time.Second, most: 84},
		"a cloud that times out, on kcp": {prefix: "mallory|any/", takes: 30 * time.Second, most: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := fakeObjects{
					machines: []clusterapi.Machine{machine("worker", idOther)},
					// Another tenant's cluster uses one of the accounts, and the account is checked for that tenant.
					accounts: map[string]any{"team/pool": tenant, "zoe/pool": ownership.Account{Cloud: "cloudsigma", User: "mallory-999@example.com", Region: "next"}},
				}
				for i := range 1000 {
					objects.accounts[fmt.Sprintf("%sc%d", tc.prefix, i)] = ownership.Account{
						Cloud: "cloudsigma", User: fmt.Sprintf("mallory-%d@example.com", i), Region: "next",
					}
				}
				cloud := &fakeCloud{listTakes: tc.takes}
				a := newAudit(objects, cloud)
				a.Limiter["cloudsigma"] = rate.NewLimiter(5, 1)
				start := time.Now()
				result, err := a.Run(t.Context())
				if took := time.Since(start); took > 6*time.Minute+2*tc.takes { // the accounts of others
					t.Errorf("the run took %s", took)
				}
				if err == nil || !strings.Contains(err.Error(), `"mallory"`) {
					t.Errorf("the run is complete: %v", err)
				}
				var got []string
				for _, f := range result.Findings {
					got = append(got, f.Reason+" "+within(f.LogicalCluster, f.Object.Namespace))
				}
				want := []string{"AccountsNotAudited " + strings.TrimSuffix(tc.prefix, "/"), "InstanceNotOwned team"}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("findings %q, want %q", got, want)
				}
				if got := (audit.Result{Accounts: result.Accounts, Requests: result.Requests}); got.Accounts != tc.most+2 || got.Requests != (tc.most+2)*requests+1 {
					t.Errorf("checked %d accounts with %d requests", got.Accounts, got.Requests)
				}
				for _, user := range []string{"mallory-999@example.com", tenant.User} {
					if !slices.Contains(cloud.requested, user) {
						t.Errorf("%s was not checked", user)
					}
				}
			})
		})
	}
}

// A tenant can store any number of machines that name instances which its user does not have, as first claims above its share.
func TestManyMachinesOfOneTenantDelayNoOthersForLong(t *testing.T) {
	const machines = 3000
	for name, tc := range map[string]struct {
		takes time.Duration
		// asked is the number of requests in five minutes, at 5 requests a second, less those for the list.
		asked int
	}{
		"a cloud that answers at once": {asked: 1500 - 3},
		"a cloud that times out":       {takes: 30 * time.Second, asked: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := fakeObjects{machines: []clusterapi.Machine{machine("worker", idOther)}, accounts: map[string]any{
					"team/pool": tenant, "mallory/pool": ownership.Account{Cloud: "cloudsigma", User: "mallory@example.com", Region: "next"},
				}}
				for i := range machines {
					objects.machines = append(objects.machines, machine(fmt.Sprintf("m%d", i), fmt.Sprintf("%036d", i), inNamespace("mallory")))
				}
				a := newAudit(objects, &fakeCloud{askTakes: tc.takes})
				a.Limiter["cloudsigma"] = rate.NewLimiter(5, 1)
				start := time.Now()
				result, err := a.Run(t.Context())
				if err != nil {
					t.Errorf("Run() error = %v", err)
				}
				if took := time.Since(start); took > 6*time.Minute {
					t.Errorf("the run took %s", took)
				}
				got := map[string]int{}
				for _, f := range result.Findings {
					got[f.Object.Namespace+" "+f.Reason]++
				}
				want := map[string]int{"team InstanceNotOwned": 1, "mallory InstanceNotOwned": tc.asked, "mallory OwnershipUnknown": machines - tc.asked}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("findings (-want +got):\n%s", diff)
				}
				if len(result.Unchecked) != machines-tc.asked {
					t.Errorf("%d machines are checked again", len(result.Unchecked))
				}
			})
		})
	}
}

// never does not get the Lease.
type never struct{}

func (never) Run(ctx context.Context, _ func(context.Context)) error {
	<-ctx.Done()
	return nil
}

// arriving contains a machine that is created after a pass has read the machines for the first time.
type arriving struct {
	fakeObjects
	late      clusterapi.Machine
	requested *int
}

func (o arriving) Machines() iter.Seq[clusterapi.Machine] {
	if *o.requested++; *o.requested > 1 {
		return slices.Values(append(slices.Clone(o.machines), o.late))
	}
	return o.fakeObjects.Machines()
}

// The next pass checks a machine that is created during a pass, because its cluster may be new.
func TestAMachineThatIsCreatedDuringAPass(t *testing.T) {
	audited := newAudit(fakeObjects{}, &fakeCloud{})
	audited.Objects = arriving{late: machine("worker", idOther, ofCluster("new")), requested: new(int), fakeObjects: fakeObjects{accounts: map[string]any{"team/pool": tenant}}}
	for i, want := range []int{0, 1} {
		result, err := audited.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Findings) != want {
			t.Errorf("pass %d: findings %v, want %d", i, result.Findings, want)
		}
	}
}
