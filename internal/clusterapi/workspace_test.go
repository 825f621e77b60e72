package clusterapi_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/clusterapi"
)

const (
	consumer, exporter  = "1dz6n4ubraua7pul", "m82w61j76ws21znq"
	infrastructureGroup = "infrastructure.cluster.x-k8s.io"
)

// consumedKCP is a kcp of two shards. Logical cluster exporter has the APIExports capcs, of CloudSigma's kinds, and another one. The second shard has
// logical cluster consumer, which binds the resources in bound.
type consumedKCP struct {
	*httptest.Server
	// exported and bound are resources of group infrastructureGroup, version is the one in which they are served.
	exported, bound []string
	version         string
	// exportsCore is true if the Machines of Cluster API are exported, too. No logical cluster binds them.
	exportsCore bool
	// virtual and own are answers by the path behind the logical cluster: those of the virtual workspace, and those of the workspace itself.
	virtual, own map[string]string
	// denied is the beginning of paths that are denied.
	denied   string
	mu       sync.Mutex
	requests []string
}

func startConsumedKCP(t *testing.T) *consumedKCP {
	t.Helper()
	k := &consumedKCP{version: "v1beta1", virtual: map[string]string{}, own: map[string]string{}}
	k.exported = []string{"cloudsigmamachines", "cloudsigmaclusters"}
	k.bound = k.exported
	k.Server = httptest.NewServer(k)
	t.Cleanup(k.Close)
	return k
}

func (k *consumedKCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests = append(k.requests, r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	shard, virtual, isVirtual := strings.Cut(r.URL.Path, "/services/apiexport/"+exporter+"/capcs/clusters/"+consumer)
	own, isOwn := strings.CutPrefix(r.URL.Path, "/clusters/"+consumer)
	const api = "/apis/" + infrastructureGroup
	object, isObject := strings.CutPrefix(virtual, api+"/"+k.version+"/")
	resource, _, _ := strings.Cut(strings.TrimPrefix(object, "namespaces/team-a/"), "/")
	answer := ""
	switch {
	case k.denied != "" && strings.HasPrefix(r.URL.Path, k.denied):
		w.WriteHeader(http.StatusForbidden)
		return
	case r.URL.Path == "/clusters/"+exporter+"/apis/apis.kcp.io/v1alpha2/apiexports":
		var resources []string
		for _, name := range k.exported {
			resources = append(resources, fmt.Sprintf(`{"group":%q,"name":%q,"schema":"v1.x"}`, infrastructureGroup, name))
		}
		if k.exportsCore {
			resources = append(resources, `{"group":"cluster.x-k8s.io","name":"machines","schema":"v1.z"}`)
		}
		answer = fmt.Sprintf(`{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIExportList","items":[{"metadata":{"name":"another"},"spec":{"resources":[`+
			`{"group":"example.com","name":"cloudsigmamachines","schema":"v1.y"}]}},{"metadata":{"name":"capcs"},"spec":{"resources":[%s]}}]}`, strings.Join(resources, ","))
	case r.URL.Path == "/clusters/root/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/tenancy.kcp.io":
		answer = fmt.Sprintf(`{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIExportEndpointSlice","metadata":{"name":"tenancy.kcp.io"},"status":{"endpoints":[`+
			`{"url":"%[1]s/one/services/apiexport/root/tenancy.kcp.io"},{"url":"%[1]s/two/services/apiexport/root/tenancy.kcp.io"}]}}`, k.URL)
	case isVirtual && virtual == api:
		answer = fmt.Sprintf(`{"kind":"APIGroup","apiVersion":"v1","name":%[1]q,"versions":[{"groupVersion":"%[1]s/%[2]s","version":%[2]q}]}`, infrastructureGroup, k.version)
	case isVirtual && virtual == api+"/"+k.version:
		var resources []string
		for _, name := range k.exported {
			resources = append(resources, fmt.Sprintf(`{"name":%q}`, name))
		}
		answer = fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/%s","resources":[%s]}`, infrastructureGroup, k.version, strings.Join(resources, ","))
	case isVirtual && virtual == "/apis/cluster.x-k8s.io", isVirtual && virtual == "/apis/cluster.x-k8s.io/v1beta2":
		answer = machinesOfCAPI[virtual]
	case isVirtual && strings.HasPrefix(virtual, "/apis/cluster.x-k8s.io/v1beta2/"):
		w.WriteHeader(http.StatusForbidden)
		return
	case isVirtual && !isObject:
	case isVirtual && (shard != "/two" || !slices.Contains(k.bound, resource)):
		w.WriteHeader(http.StatusForbidden) // there is no APIBinding
		return
	case isVirtual:
		if answer = k.virtual[virtual]; answer == "" && resource == object {
			answer = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"List","items":[]}`
		}
	case isOwn:
		answer = k.own[own]
	}
	if answer == "" {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write([]byte(answer)) // the client fails if the response is incomplete
}

// in returns the objects of consumer.
func (k *consumedKCP) in(t *testing.T) *clusterapi.Workspace {
	t.Helper()
	workspace, err := k.workspaces(t).In(consumer, exporter)
	if err != nil {
		t.Fatal(err)
	}
	return workspace
}

func (k *consumedKCP) workspaces(t *testing.T) *clusterapi.Workspaces {
	t.Helper()
	workspaces, err := clusterapi.NewWorkspaces(&rest.Config{Host: k.URL + "/clusters/root"},
		clusterapi.Options{Kinds: []clusterapi.Kind{metalMachines, cloudSigmaMachines}})
	if err != nil {
		t.Fatal(err)
	}
	return workspaces
}

// machinesOfCAPI are the answers of a workspace with Machine "a" of Cluster API.
var machinesOfCAPI = map[string]string{
	"/apis/cluster.x-k8s.io": `{"kind":"APIGroup","apiVersion":"v1","name":"cluster.x-k8s.io",` +
		`"versions":[{"groupVersion":"cluster.x-k8s.io/v1beta1","version":"v1beta1"},{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"},` +
		`{"groupVersion":"cluster.x-k8s.io/v1alpha4","version":"v1alpha4"}],"preferredVersion":{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"}}`,
	"/apis/cluster.x-k8s.io/v1beta1":                              `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cluster.x-k8s.io/v1beta1","resources":[{"name":"machines"}]}`,
	"/apis/cluster.x-k8s.io/v1beta2":                              `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cluster.x-k8s.io/v1beta2","resources":[{"name":"clusters"},{"name":"machines"}]}`,
	"/apis/cluster.x-k8s.io/v1beta2/namespaces/team-a/machines/a": `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"namespace":"team-a","name":"a","labels":{"cluster.x-k8s.io/cluster-name":"metal"}}}`,
}

const (
	consumedClusters = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/team-a/cloudsigmaclusters/"
	consumedMachines = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/cloudsigmamachines"
	consumedCluster  = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaCluster","metadata":{"namespace":"team-a","name":"metal"},"spec":`
)

// TestWorkspace checks that the objects of the provider's kinds are read through its APIExport, and that a Secret specifies no user there.
func TestWorkspace(t *testing.T) {
	kcp := startConsumedKCP(t)
	kcp.virtual = map[string]string{
		consumedClusters + "metal":     consumedCluster + `{"region":"next","userEmail":"bob@example.com"}}`,
		consumedClusters + "by-secret": consumedCluster + `{"region":"next","userRef":{"name":"bob"}}}`,
		consumedMachines: `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachineList","items":[` +
			`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachine","metadata":{"namespace":"team-a","name":"odd"},"status":{"instanceID":1}},` +
			`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachine","metadata":{"namespace":"team-a","name":"asking"},"status":{"instanceID":"` + otherID + `"}},` +
			`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachine","metadata":{"namespace":"team-b","name":"holder"},"status":{"instanceID":"` + ownID + `"}}]}`,
	}
	kcp.own = machinesOfCAPI
	workspace := kcp.in(t)
	got, err := workspace.Account(t.Context(), clusterNamed("metal"))
	if diff := gocmp.Diff(account("bob@example.com"), got); err != nil || diff != "" {
		t.Errorf("Account() error %v (-want +got):\n%s", err, diff)
	}
	var rejected *clusterapi.AccountError
	if _, err := workspace.Account(t.Context(), clusterNamed("by-secret")); !errors.As(err, &rejected) || rejected.Reason != clusterapi.UserRefUnguarded {
		t.Errorf("Account() of a cluster whose user is in a Secret: error = %v", err)
	}
	if _, err := workspace.Account(t.Context(), clusterNamed("missing")); !errors.As(err, &rejected) || rejected.Reason != clusterapi.ClusterMissing {
		t.Errorf("Account() of no cluster: error = %v", err)
	}
	for id, want := range map[string]string{ownID: `CloudSigmaMachine "holder" of namespace "team-b"`, otherID: ""} {
		holder, err := workspace.Holder(t.Context(), id, claimant(t), anyMachine)
		name := ""
		if holder != nil {
			name = holder.String()
		}
		if err != nil || name != want {
			t.Errorf("Holder(%s) = %q, %v, want %q", id, name, err, want)
		}
	}
	nobody := func(clusterapi.Machine) bool { return false }
	if holder, err := workspace.Holder(t.Context(), ownID, claimant(t), nobody); holder != nil || err != nil {
		t.Errorf("Holder() = %v, %v, although that machine does not count", holder, err)
	}
	owned := clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", OwnerReferences: []metav1.OwnerReference{machineRef("a")}}}
	for range 2 { // the first call runs discovery
		if owner, err := workspace.Owner(t.Context(), owned); err != nil || *owner != (clusterapi.Owner{Name: "a", ClusterName: "metal"}) {
			t.Errorf("Owner() = %v, %v", owner, err)
		}
	}
	if _, err := workspace.UserDependents(t.Context(), "team-a", "bob", ""); err == nil {
		t.Error("UserDependents() has no error, although no gate checks Secrets")
	}

	kcp.mu.Lock()
	kcp.denied = "/two"
	kcp.mu.Unlock()
	if _, err := kcp.in(t).Holder(t.Context(), ownID, claimant(t), anyMachine); err == nil {
		t.Error("a logical cluster whose machines cannot be listed has no holder")
	}
}

// TestKindsOfTheTenant checks that nothing in the workspace is believed about a kind that the provider exports.
func TestKindsOfTheTenant(t *testing.T) {
	kcp := startConsumedKCP(t)
	kcp.own = maps.Clone(machinesOfCAPI)
	kcp.own[consumedClusters+"metal"] = consumedCluster + `{"region":"next","userEmail":"stranger@example.com"}}`
	kcp.own[consumedMachines] = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachineList","items":[{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1",` +
		`"kind":"CloudSigmaMachine","metadata":{"namespace":"team-a","name":"fake","labels":{"cluster.x-k8s.io/cluster-name":"metal"}},"status":{"instanceID":"` + ownID + `"}}]}`
	kcp.own["/apis/infrastructure.cluster.x-k8s.io"] = `{"kind":"APIGroup","apiVersion":"v1","name":"infrastructure.cluster.x-k8s.io"}`
	kcp.bound = nil
	workspace := kcp.in(t)
	const text = `cloudsigmaclusters.infrastructure.cluster.x-k8s.io of this workspace do not come from an APIExport of the provider, logical cluster "m82w61j76ws21znq"; ` +
		"remove the APIBinding or CustomResourceDefinition that they come from, and bind the provider's"
	var rejected *clusterapi.AccountError
	if _, err := workspace.Account(t.Context(), clusterNamed("metal")); !errors.As(err, &rejected) || rejected.Reason != clusterapi.KindNotBound || rejected.Message != text {
		t.Errorf("Account() = %v, want %s", err, text)
	}
	if machines, err := workspace.Holders(t.Context(), clusterNamed("metal")); err != nil || len(machines) != 0 {
		t.Errorf("Holders() = %v, %v, want none", machines, err)
	}
	if machines, err := workspace.Owned(t.Context(), "team-a", "a"); err != nil || len(machines) != 0 {
		t.Errorf("Owned() = %v, %v, want none", machines, err)
	}
	if _, err := workspace.Holder(t.Context(), ownID, claimant(t), anyMachine); !errors.As(err, &rejected) || rejected.Reason != clusterapi.KindNotBound {
		t.Errorf("Holder() = %v, want an error", err)
	}
	if object, err := workspace.Object(t.Context(), clusterapi.CloudSigmaClusters, "team-a", "metal"); err == nil {
		t.Errorf("Object() = %v, want an error", object)
	}
	kcp.mu.Lock()
	defer kcp.mu.Unlock()
	for _, path := range kcp.requests {
		if own, found := strings.CutPrefix(path, "/clusters/"+consumer+"/apis/"+infrastructureGroup+"/"); found {
			t.Errorf("the tenant's own objects were read: %s", own)
		}
	}
}

// TestAnOwnerOfTheTenant checks that a Machine is read in the workspace only if the provider exports none.
func TestAnOwnerOfTheTenant(t *testing.T) {
	kcp := startConsumedKCP(t)
	kcp.own = machinesOfCAPI
	kcp.exportsCore = true
	owned := clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", OwnerReferences: []metav1.OwnerReference{machineRef("a")}}}
	var rejected *clusterapi.AccountError
	if owner, err := kcp.in(t).Owner(t.Context(), owned); !errors.As(err, &rejected) || rejected.Reason != clusterapi.KindNotBound {
		t.Errorf("Owner() = %v, %v, want KindNotBound", owner, err)
	}
}

// TestBinds checks when a kind is the provider's, that this is remembered, and that the contrary is not.
func TestBinds(t *testing.T) {
	kcp := startConsumedKCP(t)
	workspaces := kcp.workspaces(t)
	capcs := kcp.exported
	kcp.own["/apis/infrastructure.cluster.x-k8s.io"] = `{"kind":"APIGroup","apiVersion":"v1","name":"infrastructure.cluster.x-k8s.io"}`
	for _, step := range []struct {
		name            string
		exported, bound []string
		version, denied string
		provider        logicalcluster.Name
		want, wantErr   bool
	}{
		{name: "nothing is exported"},
		{name: "nothing is bound", exported: capcs},
		{name: "another kind is bound", exported: capcs, bound: capcs[1:]},
		{name: "another version is served", exported: capcs, bound: capcs, version: "v2", wantErr: true},
		{name: "another provider", exported: capcs, bound: capcs, provider: "2x9ia1l7yyfqzxuw", wantErr: true},
		{name: "an invalid provider", exported: capcs, bound: capcs, provider: "../services", wantErr: true},
		{name: "objects of the APIExport cannot be read", exported: capcs, bound: capcs, denied: "/two", wantErr: true},
		{name: "the workspace requires groups", exported: capcs, denied: "/clusters/" + consumer, wantErr: true},
		{name: "shards cannot be found", exported: capcs, bound: capcs, denied: "/clusters/root", wantErr: true},
		{name: "APIExports cannot be listed", exported: capcs, bound: capcs, denied: "/clusters/" + exporter, wantErr: true},
		{name: "bound now", exported: capcs, bound: capcs, want: true},
		{name: "remembered", denied: "/", want: true},
	} {
		kcp.mu.Lock() // a request to the other shard may not have ended
		kcp.exported, kcp.bound, kcp.version, kcp.denied = step.exported, step.bound, cmp.Or(step.version, "v1beta1"), step.denied
		kcp.mu.Unlock()
		workspace, err := workspaces.In(consumer, cmp.Or(step.provider, exporter)) // new for each request
		if err != nil {
			t.Fatal(err)
		}
		got, err := workspace.Binds(t.Context(), cloudSigmaMachines.Resource())
		if got != step.want || (err != nil) != step.wantErr {
			t.Errorf("%s: Binds() = %t, %v, want %t, error %t", step.name, got, err, step.want, step.wantErr)
		}
	}
	// What is remembered is only where objects are read.
	kcp.mu.Lock()
	kcp.exported, kcp.bound, kcp.denied = capcs, nil, ""
	kcp.mu.Unlock()
	workspace, err := workspaces.In(consumer, exporter)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workspace.Holder(t.Context(), ownID, claimant(t), anyMachine); err == nil {
		t.Error("Holder() has no error after the kind is no longer bound")
	}
	if binds, err := workspace.Binds(t.Context(), cloudSigmaMachines.Resource()); err != nil || binds {
		t.Errorf("Binds() = %t, %v after the kind is no longer bound", binds, err)
	}
}

func TestNewWorkspacesWithInvalidConfiguration(t *testing.T) {
	if _, err := clusterapi.NewWorkspaces(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no PEM")}}, clusterapi.Options{}); err == nil {
		t.Error("NewWorkspaces() has no error")
	}
	workspaces, err := clusterapi.NewWorkspaces(&rest.Config{Host: "http://[::1"}, clusterapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workspaces.In(consumer, exporter); err == nil {
		t.Error("In() has no error")
	}
}

// The name comes from a request. An invalid name is an error.
func TestWorkspaceWithInvalidName(t *testing.T) {
	workspaces, err := clusterapi.NewWorkspaces(&rest.Config{Host: "https://kcp.example.com"}, clusterapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []logicalcluster.Name{"", "*", "..", "../services/x", "root:org", "system:admin", "a/b"} {
		if workspace, err := workspaces.In(name, exporter); err == nil {
			t.Errorf("In(%q) = %v, nil", name, workspace)
		}
	}
}

// The test compares the whole list, so that every added permission fails it.
func TestWorkspaceRoles(t *testing.T) {
	const version, name = "rbac.authorization.k8s.io/v1", "warrantgate-machines"
	want := []client.Object{
		&rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{
				{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}},
				{NonResourceURLs: []string{"/apis/*"}, Verbs: []string{"get"}},
				{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, Verbs: []string{"get"}},
				{APIGroups: []string{"k8s.kube-dc.com"}, Resources: []string{"kdcclusters"}, Verbs: []string{"get"}},
				{APIGroups: []string{"apis.kcp.io"}, Resources: []string{"apiexportendpointslices"}, ResourceNames: []string{"tenancy.kcp.io"}, Verbs: []string{"get"}},
				{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
			},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "gate"}},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		},
	}
	got := clusterapi.WorkspaceRoles("gate")
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("WorkspaceRoles() (-want +got):\n%s", diff)
	}
}

func TestProviderRoles(t *testing.T) {
	const version, name = "rbac.authorization.k8s.io/v1", "warrantgate-reviews"
	want := []client.Object{
		&rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
				{APIGroups: []string{"apis.kcp.io"}, Resources: []string{"apiexports"}, Verbs: []string{"get", "list"}},
			},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "gate"}},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		},
	}
	if diff := gocmp.Diff(want, clusterapi.ProviderRoles("gate")); diff != "" {
		t.Errorf("ProviderRoles() (-want +got):\n%s", diff)
	}
}
