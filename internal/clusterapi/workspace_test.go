package clusterapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
)

// TestWorkspace checks that each request goes to the logical cluster of the object, and that a Secret specifies no user there.
func TestWorkspace(t *testing.T) {
	const (
		clusters = "/clusters/1dz6n4ubraua7pul/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/team-a/cloudsigmaclusters/"
		machines = "/clusters/1dz6n4ubraua7pul/apis/infrastructure.cluster.x-k8s.io/v1beta1/cloudsigmamachines"
		object   = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaCluster","metadata":{"namespace":"team-a","name":"metal"},"spec":`
	)
	answers := map[string]string{
		"/clusters/1dz6n4ubraua7pul/apis/cluster.x-k8s.io": `{"kind":"APIGroup","apiVersion":"v1","name":"cluster.x-k8s.io",` +
			`"versions":[{"groupVersion":"cluster.x-k8s.io/v1beta1","version":"v1beta1"},{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"},` +
			`{"groupVersion":"cluster.x-k8s.io/v1alpha4","version":"v1alpha4"}],"preferredVersion":{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"}}`,
		"/clusters/1dz6n4ubraua7pul/apis/cluster.x-k8s.io/v1beta1":                              `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cluster.x-k8s.io/v1beta1","resources":[{"name":"machines"}]}`,
		"/clusters/1dz6n4ubraua7pul/apis/cluster.x-k8s.io/v1beta2":                              `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cluster.x-k8s.io/v1beta2","resources":[{"name":"clusters"},{"name":"machines"}]}`,
		"/clusters/1dz6n4ubraua7pul/apis/cluster.x-k8s.io/v1beta2/namespaces/team-a/machines/a": `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"namespace":"team-a","name":"a","labels":{"cluster.x-k8s.io/cluster-name":"metal"}}}`,
		clusters + "metal":     object + `{"region":"next","userEmail":"bob@example.com"}}`,
		clusters + "by-secret": object + `{"region":"next","userRef":{"name":"bob"}}}`,
		machines: `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachineList","items":[` +
			`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachine","metadata":{"namespace":"team-a","name":"odd"},"status":{"instanceID":1}},` +
			`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachine","metadata":{"namespace":"team-a","name":"asking"},"status":{"instanceID":"` + otherID + `"}},` +
			`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"CloudSigmaMachine","metadata":{"namespace":"team-b","name":"holder"},"status":{"instanceID":"` + ownID + `"}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer)) // the client fails if the response is incomplete
	}))
	defer server.Close()
	workspaces, err := clusterapi.NewWorkspaces(&rest.Config{Host: server.URL + "/clusters/root"},
		clusterapi.Options{Kinds: []clusterapi.Kind{metalMachines, cloudSigmaMachines}})
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := workspaces.In("1dz6n4ubraua7pul")
	if err != nil {
		t.Fatal(err)
	}
	got, err := workspace.Account(t.Context(), clusterNamed("metal"))
	if diff := cmp.Diff(account("bob@example.com"), got); err != nil || diff != "" {
		t.Errorf("Account() error %v (-want +got):\n%s", err, diff)
	}
	var rejected *clusterapi.AccountError
	if _, err := workspace.Account(t.Context(), clusterNamed("by-secret")); !errors.As(err, &rejected) || rejected.Reason != clusterapi.UserRefUnguarded {
		t.Errorf("Account() of a cluster whose user is in a Secret: error = %v", err)
	}
	if _, err := workspace.AccountNow(t.Context(), clusterNamed("missing")); !errors.As(err, &rejected) || rejected.Reason != clusterapi.ClusterMissing {
		t.Errorf("AccountNow() of no cluster: error = %v", err)
	}
	for id, want := range map[string]string{ownID: `CloudSigmaMachine "holder" of namespace "team-b"`, otherID: ""} {
		holder, err := workspace.Holder(t.Context(), id, claimant(t), nil, anyMachine)
		name := ""
		if holder != nil {
			name = holder.String()
		}
		if err != nil || name != want {
			t.Errorf("Holder(%s) = %q, %v, want %q", id, name, err, want)
		}
	}
	nobody := func(clusterapi.Machine) bool { return false }
	if holder, err := workspace.Holder(t.Context(), ownID, claimant(t), nil, nobody); holder != nil || err != nil {
		t.Errorf("Holder() = %v, %v, although that machine does not count", holder, err)
	}
	owned := clusterapi.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", OwnerReferences: []metav1.OwnerReference{machineRef("a")}}}
	for range 2 { // the first call runs discovery
		if owner, err := workspace.Owner(t.Context(), owned); err != nil || *owner != (clusterapi.Owner{Name: "a", ClusterName: "metal"}) {
			t.Errorf("Owner() = %v, %v", owner, err)
		}
	}
	if err := workspace.Synced(); err != nil {
		t.Errorf("Synced() = %v, although nothing is watched", err)
	}
	if _, err := workspace.UserDependents(t.Context(), secret("team-a", "bob", ""), "", nil); err == nil {
		t.Error("UserDependents() has no error, although no gate checks Secrets")
	}

	elsewhere, err := workspaces.In("m82w61j76ws21znq")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.Holder(t.Context(), ownID, claimant(t), nil, anyMachine); err == nil {
		t.Error("a logical cluster whose machines cannot be listed has no holder")
	}
}

// TestBinds checks that a binding is remembered, and a missing one is not.
func TestBinds(t *testing.T) {
	const provider, other = logicalcluster.Name("m82w61j76ws21znq"), logicalcluster.Name("2x9ia1l7yyfqzxuw")
	const status = `,"status":{"apiExportClusterName":"m82w61j76ws21znq","boundResources":[{"group":"infrastructure.cluster.x-k8s.io","resource":%q}]}`
	bound, requests, fails := "", 0, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.URL.Path != "/clusters/1dz6n4ubraua7pul/apis/apis.kcp.io/v1alpha1/apibindings" || fails {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIBindingList","items":[{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIBinding",`+
			`"metadata":{"name":"a"},"status":{"apiExportClusterName":"root"}},{"apiVersion":"apis.kcp.io/v1alpha1","kind":"APIBinding","metadata":{"name":"b"}%s}]}`, bound)
	}))
	defer server.Close()
	workspaces, err := clusterapi.NewWorkspaces(&rest.Config{Host: server.URL}, clusterapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name         string
		bound        string
		fails        bool
		provider     logicalcluster.Name
		want         bool
		wantErr      bool
		wantRequests int
	}{
		{name: "the APIBinding is not bound yet", provider: provider, wantRequests: 1},
		{name: "another resource is bound", bound: fmt.Sprintf(status, "metalmachines"), provider: provider, wantRequests: 2},
		{name: "bound now", bound: fmt.Sprintf(status, "cloudsigmamachines"), provider: provider, want: true, wantRequests: 3},
		{name: "remembered", provider: provider, want: true, wantRequests: 3},
		{name: "another provider", bound: fmt.Sprintf(status, "cloudsigmamachines"), provider: other, wantRequests: 4},
		{name: "not permitted", fails: true, provider: other, wantErr: true, wantRequests: 5},
	} {
		bound, fails = step.bound, step.fails
		workspace, err := workspaces.In("1dz6n4ubraua7pul") // new for each request
		if err != nil {
			t.Fatal(err)
		}
		got, err := workspace.Binds(t.Context(), step.provider, cloudSigmaMachines.Resource().GroupResource())
		if got != step.want || (err != nil) != step.wantErr || requests != step.wantRequests {
			t.Errorf("%s: Binds() = %t, %v after %d requests, want %t, error %t, %d", step.name, got, err, requests, step.want, step.wantErr, step.wantRequests)
		}
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
	if _, err := workspaces.In("1dz6n4ubraua7pul"); err == nil {
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
		if workspace, err := workspaces.In(name); err == nil {
			t.Errorf("In(%q) = %v, nil", name, workspace)
		}
	}
}

// The test compares the whole list, so that every added permission fails it.
func TestWorkspaceRoles(t *testing.T) {
	const group, version, name = "infrastructure.cluster.x-k8s.io", "rbac.authorization.k8s.io/v1", "warrantgate-machines"
	want := []client.Object{
		&rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{
				{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}},
				{NonResourceURLs: []string{"/apis/*"}, Verbs: []string{"get"}},
				{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"machines"}, Verbs: []string{"get"}},
				{APIGroups: []string{group}, Resources: []string{"cloudsigmaclusters"}, Verbs: []string{"get"}},
				{APIGroups: []string{"k8s.kube-dc.com"}, Resources: []string{"kdcclusters"}, Verbs: []string{"get"}},
				{APIGroups: []string{"apis.kcp.io"}, Resources: []string{"apibindings"}, Verbs: []string{"list"}},
				{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
				{APIGroups: []string{group}, Resources: []string{"cloudsigmamachines"}, Verbs: []string{"get", "list"}},
			},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "gate"}},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		},
	}
	got := clusterapi.WorkspaceRoles([]v1beta1.MachineKind{cloudSigmaMachines.MachineKind}, "gate")
	if diff := cmp.Diff(want, got); diff != "" {
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
			},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "gate"}},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		},
	}
	if diff := cmp.Diff(want, clusterapi.ProviderRoles("gate")); diff != "" {
		t.Errorf("ProviderRoles() (-want +got):\n%s", diff)
	}
}
