package install

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/internal/kcp"
	"warrantgate.dev/webhooks/workspace"
)

// fakeKCP holds the objects of logical clusters, by their paths in the API. It knows the resources that are installed.
type fakeKCP struct {
	t       *testing.T
	mu      sync.Mutex
	version int
	held    map[string]*unstructured.Unstructured
	// gitVersion is the version that it reports.
	gitVersion string
	// policies is whether it has MutatingAdmissionPolicies. disabled is whether it ignores them.
	policies, disabled bool
	// unserved is whether the webhooks answer 404.
	unserved bool
	// groups are those of the user, and impersonated those of the user that the last canary impersonated.
	groups, impersonated []string
	// dryRuns is the number of dry runs.
	dryRuns int
	// waiting are the LogicalClusters that wait for the initializer, by URL path. A virtual workspace that is not in it denies access.
	waiting map[string]corev1alpha1.LogicalClusterList
	// changed is when an object was last created or changed.
	changed map[string]time.Time
}

// settled is how long install waits at least between the changes that replace the webhook by the policy or the policy by the webhook. Tests
// that do so use at least this for --wait.
const settled = time.Second

var discovered = map[string]any{
	"/api": metav1.APIVersions{Versions: []string{"v1"}},
	"/apis": metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups:   []metav1.APIGroup{clitest.Group(rbacv1.GroupName, "v1"), clitest.Group(admissionregistrationv1.GroupName, "v1"), clitest.Group("tenancy.kcp.io", "v1alpha1"), clitest.Group(coordinationv1.GroupName, "v1")},
	},
	"/apis/coordination.k8s.io/v1": clitest.Resources("coordination.k8s.io/v1", "leases", "Lease"),
	"/apis/rbac.authorization.k8s.io/v1": clitest.Resources("rbac.authorization.k8s.io/v1",
		"clusterroles", "ClusterRole", "clusterrolebindings", "ClusterRoleBinding"),
	"/apis/tenancy.kcp.io/v1alpha1":         clitest.Resources("tenancy.kcp.io/v1alpha1", "workspacetypes", "WorkspaceType"),
	"/apis/admissionregistration.k8s.io/v1": clitest.Resources("admissionregistration.k8s.io/v1", admissionKinds...),
}

var admissionKinds = []string{
	"mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
	"validatingwebhookconfigurations", "ValidatingWebhookConfiguration",
	"validatingadmissionpolicies", "ValidatingAdmissionPolicy",
	"validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
}

// startFakeKCP starts a fakeKCP. It returns it and the path of a kubeconfig for one of its workspaces.
func startFakeKCP(t *testing.T) (api *fakeKCP, kubeconfig string) {
	t.Helper()
	api = &fakeKCP{t: t, held: map[string]*unstructured.Unstructured{}, changed: map[string]time.Time{}, gitVersion: "v1.36.0+kcp-v0.32.3"}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return api, clitest.WriteKubeconfig(t, map[string]string{"home": server.URL + "/clusters/root:home"})
}

func (f *fakeKCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/services/initializingworkspaces/") {
		if list, served := f.waiting[r.URL.Path]; served {
			f.answer(w, http.StatusOK, list)
			return
		}
		status := clitest.Forbidden("access denied")
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		f.answer(w, http.StatusForbidden, status)
		return
	}
	within, found := strings.CutPrefix(r.URL.Path, "/clusters/")
	_, path, rooted := strings.Cut(within, "/")
	if !found || !rooted {
		f.t.Errorf("%s %s was not expected", r.Method, r.URL)
		f.answer(w, http.StatusTeapot, nil)
		return
	}
	if path == "apis/admissionregistration.k8s.io/v1" && f.policies {
		f.answer(w, http.StatusOK, clitest.Resources("admissionregistration.k8s.io/v1", slices.Concat(admissionKinds,
			[]string{"mutatingadmissionpolicies", "MutatingAdmissionPolicy", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"})...))
		return
	}
	if answer, ok := discovered["/"+path]; ok && r.Method == http.MethodGet {
		f.answer(w, http.StatusOK, answer)
		return
	}
	switch held := f.held[within]; {
	case r.Method == http.MethodPost && path == "apis/authentication.k8s.io/v1/selfsubjectreviews":
		f.answer(w, http.StatusCreated, authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectReview", APIVersion: "authentication.k8s.io/v1"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "admin", Groups: f.groups}},
		})
	case path == "version":
		f.answer(w, http.StatusOK, apimachineryversion.Info{GitVersion: f.gitVersion})
	case r.Method == http.MethodPost && path == "apis/tenancy.kcp.io/v1alpha1/workspaces" && r.URL.Query().Get("dryRun") == "All":
		f.review(w, r)
	case r.Method == http.MethodGet && held != nil:
		f.answer(w, http.StatusOK, held.Object)
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/apply-patch+yaml" &&
		r.URL.RawQuery == "fieldManager=warrantgate&force=true":
		f.apply(w, r, within)
	case r.Method == http.MethodDelete && held != nil:
		if within == rewritePolicy && f.held[mutating] != nil && time.Since(f.changed[mutating]) < settled {
			f.t.Error("the policy is deleted before all evaluators have the webhook for all owners")
		}
		var options metav1.DeleteOptions
		if err := json.NewDecoder(r.Body).Decode(&options); err != nil || len(options.DryRun) == 0 {
			delete(f.held, within)
		}
		f.answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	case r.Method == http.MethodGet || r.Method == http.MethodDelete:
		f.answer(w, http.StatusNotFound, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "not found",
		})
	default:
		f.t.Errorf("%s %s was not expected", r.Method, r.URL)
		f.answer(w, http.StatusTeapot, nil)
	}
}

// review answers a canary as kcp does: not before the second canary, because kcp loads a new object with a delay.
func (f *fakeKCP) review(w http.ResponseWriter, r *http.Request) {
	canary := &unstructured.Unstructured{}
	if err := json.NewDecoder(r.Body).Decode(&canary.Object); err != nil {
		f.t.Errorf("decode the canary: %v", err)
	}
	annotations := canary.GetAnnotations()
	f.dryRuns++
	f.impersonated = r.Header.Values("Impersonate-Group")
	if f.dryRuns > 1 && !f.disabled && f.held[rewritePolicy] != nil && annotations[kcp.CanaryAnnotation] == kcp.PolicyCanary {
		delete(annotations, kcp.CanaryAnnotation)
		canary.SetAnnotations(annotations)
	}
	if f.dryRuns > 1 && !f.unserved && f.held[mutating] != nil && annotations[kcp.CanaryAnnotation] == kcp.WebhookCanary {
		delete(annotations, kcp.CanaryAnnotation)
		canary.SetAnnotations(annotations)
	}
	if f.unserved && f.held[mutating] != nil && annotations[kcp.CanaryAnnotation] == kcp.WebhookCanary {
		f.answer(w, http.StatusInternalServerError, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: `failed calling webhook "owner-rewrite.warrantgate.dev": failed to call webhook: the server could not find the requested resource`,
		})
		return
	}
	if f.dryRuns > 1 && f.held[policy] != nil && annotations[kcp.CanaryAnnotation] != "" {
		status := clitest.Forbidden("ValidatingAdmissionPolicy 'warrantgate-owner-integrity' with binding 'warrantgate-owner-integrity' denied request: it is guarded")
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		f.answer(w, http.StatusForbidden, status)
		return
	}
	f.answer(w, http.StatusCreated, canary.Object)
}

// apply replaces the object, as server-side apply by one manager does. It keeps the resource version of an object that did not change.
func (f *fakeKCP) apply(w http.ResponseWriter, r *http.Request, key string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Errorf("read the body: %v", err)
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &object.Object); err != nil {
		f.t.Errorf("decode %s: %v", body, err)
	}
	if key == mutating && f.divides(object) && !f.divides(f.held[mutating]) && time.Since(f.changed[rewritePolicy]) < settled {
		f.t.Error("owners are left to the policy before all evaluators have it")
	}
	f.version++
	object.SetResourceVersion(fmt.Sprint(f.version))
	now := time.Now()
	if held := f.held[key]; held != nil {
		version := object.GetResourceVersion()
		object.SetResourceVersion(held.GetResourceVersion())
		if cmp.Equal(held.Object, object.Object) {
			now = f.changed[key]
		} else {
			object.SetResourceVersion(version)
		}
	}
	f.held[key], f.changed[key] = object, now
	f.answer(w, http.StatusOK, object.Object)
}

// divides reports whether the webhook leaves owners to the policy.
func (f *fakeKCP) divides(object *unstructured.Unstructured) bool {
	if object == nil {
		return false
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration); err != nil {
		f.t.Error(err)
	}
	return workspace.LeavesOwnersToPolicy(configuration)
}

func (f *fakeKCP) answer(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		f.t.Errorf("answer: %v", err)
	}
}

// holds checks which objects exist.
func (f *fakeKCP) holds(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	got := map[string]bool{}
	for key := range f.held {
		got[key] = true
	}
	wanted := map[string]bool{}
	for _, key := range want {
		wanted[key] = true
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("objects in kcp (-want +got):\n%s", diff)
	}
}

// hold adds an object that warrantgate did not install.
func (f *fakeKCP) hold(key, apiVersion, kind, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[key] = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "resourceVersion": "1"},
	}}
}

// bind adds a ClusterRoleBinding of a user.
func (f *fakeKCP) bind(key, user string) {
	f.hold(key, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", path.Base(key))
	f.held[key].Object["subjects"] = []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}
}

const (
	mutating   = "root/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/warrantgate"
	validating = "root/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/warrantgate"
	policy     = "root/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/warrantgate-owner-integrity"
	binding    = "root/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/warrantgate-owner-integrity"

	warrantedType    = "root/apis/tenancy.kcp.io/v1alpha1/workspacetypes/warranted"
	warrantedRole    = "root/apis/rbac.authorization.k8s.io/v1/clusterroles/warrantgate-warranted"
	warrantedBinding = "root/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/warrantgate-warranted"

	repairRole    = "root/apis/rbac.authorization.k8s.io/v1/clusterroles/warrantgate-repair"
	repairBinding = "root/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/warrantgate-repair"

	shardRole    = "system:admin/apis/rbac.authorization.k8s.io/v1/clusterroles/warrantgate-events"
	shardBinding = "system:admin/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/warrantgate-events"

	shardRepairRole    = "system:admin/apis/rbac.authorization.k8s.io/v1/clusterroles/warrantgate-explain"
	shardRepairBinding = "system:admin/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/warrantgate-explain"

	rewritePolicy  = "root/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/warrantgate-owner-rewrite"
	rewriteBinding = "root/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/warrantgate-owner-rewrite"

	restorePolicy  = "root/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/warrantgate-restore"
	restoreBinding = "root/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/warrantgate-restore"

	withoutEvents = "Without --shard-kubeconfig, user \"warrantgate\" was not granted permissions on the shards. Unless it already has them, no " +
		"Events are written (`kubectl describe workspace` does not show what was done) and no workspace is repaired. The gates work.\n"
)

// inRoot returns the lines that install prints for the objects in root.
func inRoot(outcomes ...string) string {
	kinds := []string{
		`ValidatingAdmissionPolicy "warrantgate-owner-integrity"`, `ValidatingAdmissionPolicyBinding "warrantgate-owner-integrity"`,
		`MutatingWebhookConfiguration "warrantgate"`,
		`ValidatingWebhookConfiguration "warrantgate"`,
		`WorkspaceType "warranted"`, `ClusterRole "warrantgate-warranted"`, `ClusterRoleBinding "warrantgate-warranted"`,
		`ClusterRole "warrantgate-repair"`, `ClusterRoleBinding "warrantgate-repair"`,
	}
	var text strings.Builder
	for i, outcome := range outcomes {
		fmt.Fprintf(&text, "root: %s %s\n", kinds[i], outcome)
	}
	return text.String()
}

const offConfiguration = `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
workspace: {ownerIntegrity: {mode: "Off"}}
repair: {mode: "Off"}
`

func TestInstallAndUninstall(t *testing.T) {
	api, kubeconfig := startFakeKCP(t)
	caFile := clitest.NewCertificate(t).Write(t, t.TempDir()).CertFile
	installArgs := []string{"install", "kcp", "--kubeconfig", kubeconfig, "--url", "https://warrantgate.example.com:9443", "--ca-file", caFile}
	shard := []string{"--shard-kubeconfig", kubeconfig}
	inShard := func(lines ...string) string {
		text := ""
		for _, line := range lines {
			text += fmt.Sprintf("%s: %s\n", kubeconfig, line)
		}
		return text
	}
	uninstallArgs := []string{"uninstall", "kcp", "--kubeconfig", kubeconfig}

	// Each step continues with the state in which the previous one left kcp.
	for _, step := range []struct {
		name       string
		args       []string
		want       string
		wantErrOut string
		wantHeld   []string
	}{
		{
			name: "the gates are registered in root, and the right to write Events is not given", args: installArgs,
			want: inRoot(slices.Repeat([]string{"created"}, 9)...), wantErrOut: noSuchPolicies + withoutEvents,
			wantHeld: []string{mutating, validating, policy, binding, warrantedType, warrantedRole, warrantedBinding, repairRole, repairBinding},
		},
		{
			name: "with the kubeconfig of a shard it is given there, once for each shard", args: append(append(installArgs, shard...), shard...),
			want: inShard(`ClusterRole "warrantgate-events" created`, `ClusterRoleBinding "warrantgate-events" created`,
				`ClusterRole "warrantgate-explain" created`, `ClusterRoleBinding "warrantgate-explain" created`) +
				inShard(`ClusterRole "warrantgate-events" unchanged`, `ClusterRoleBinding "warrantgate-events" unchanged`,
					`ClusterRole "warrantgate-explain" unchanged`, `ClusterRoleBinding "warrantgate-explain" unchanged`) +
				inRoot(slices.Repeat([]string{"unchanged"}, 9)...),
			wantErrOut: noSuchPolicies,
			wantHeld:   []string{mutating, validating, policy, binding, warrantedType, warrantedRole, warrantedBinding, repairRole, repairBinding, shardRole, shardBinding, shardRepairRole, shardRepairBinding},
		},
		{
			name: "for another user it is changed", args: append(append(installArgs, shard...), "--user", "gate"),
			want: inShard(`ClusterRole "warrantgate-events" unchanged`, `ClusterRoleBinding "warrantgate-events" configured`,
				`ClusterRole "warrantgate-explain" unchanged`, `ClusterRoleBinding "warrantgate-explain" configured`) +
				inRoot(append(slices.Repeat([]string{"unchanged"}, 8), "configured")...),
			wantErrOut: noSuchPolicies,
			wantHeld:   []string{mutating, validating, policy, binding, warrantedType, warrantedRole, warrantedBinding, repairRole, repairBinding, shardRole, shardBinding, shardRepairRole, shardRepairBinding},
		},
		{
			name: "without --user it keeps that user", args: append(installArgs, shard...),
			want: inShard(`ClusterRole "warrantgate-events" unchanged`, `ClusterRoleBinding "warrantgate-events" unchanged`,
				`ClusterRole "warrantgate-explain" unchanged`, `ClusterRoleBinding "warrantgate-explain" unchanged`) +
				inRoot(slices.Repeat([]string{"unchanged"}, 9)...),
			wantErrOut: noSuchPolicies,
			wantHeld:   []string{mutating, validating, policy, binding, warrantedType, warrantedRole, warrantedBinding, repairRole, repairBinding, shardRole, shardBinding, shardRepairRole, shardRepairBinding},
		},
		{
			name: "a gate that is off is taken out", args: append(installArgs, "--config", clitest.WriteFile(t, "off.yaml", offConfiguration)),
			want: "root: MutatingWebhookConfiguration \"warrantgate\" configured\n" +
				"root: ValidatingWebhookConfiguration \"warrantgate\" unchanged\n" +
				"root: ClusterRoleBinding \"warrantgate-repair\" deleted\n" +
				"root: ClusterRole \"warrantgate-repair\" deleted\n" +
				"root: ClusterRoleBinding \"warrantgate-warranted\" deleted\n" +
				"root: ClusterRole \"warrantgate-warranted\" deleted\n" +
				"root: WorkspaceType \"warranted\" deleted\n" +
				"root: ValidatingAdmissionPolicyBinding \"warrantgate-owner-integrity\" deleted\n" +
				"root: ValidatingAdmissionPolicy \"warrantgate-owner-integrity\" deleted\n",
			wantErrOut: noSuchPolicies + strings.Replace(withoutEvents, "warrantgate", "gate", 1),
			wantHeld:   []string{mutating, validating, shardRole, shardBinding, shardRepairRole, shardRepairBinding},
		},
		{
			name: "uninstall removes the installed objects, and does not mention others that it could remove", args: append(uninstallArgs, shard...),
			want: "root: ValidatingWebhookConfiguration \"warrantgate\" deleted\n" +
				"root: MutatingWebhookConfiguration \"warrantgate\" deleted\n" +
				inShard(`ClusterRoleBinding "warrantgate-explain" deleted`, `ClusterRole "warrantgate-explain" deleted`,
					`ClusterRoleBinding "warrantgate-events" deleted`, `ClusterRole "warrantgate-events" deleted`),
		},
		{
			name: "a second time there is nothing to do", args: uninstallArgs,
			want: "root: nothing to remove\n",
			wantErrOut: "Without --shard-kubeconfig, ClusterRoles and ClusterRoleBindings that install has created on the shards stay there: warrantgate-events, " +
				"warrantgate-explain, in the logical cluster system:admin. Remove them with `warrantgate uninstall kcp --kubeconfig=" + kubeconfig +
				" --shard-kubeconfig=SHARD.kubeconfig`, with --shard-kubeconfig once for each shard.\n",
		},
	} {
		out, errOut, err := run(t, step.args...)
		if err != nil {
			t.Fatalf("%s: error = %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, out); diff != "" {
			t.Errorf("%s: output (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.wantErrOut, errOut); diff != "" {
			t.Errorf("%s: notes (-want +got):\n%s", step.name, diff)
		}
		api.holds(t, step.wantHeld...)
	}
}

// TestInstallChecksTheGates checks that install fails if the webhooks do not answer what they must.
func TestInstallChecksTheGates(t *testing.T) {
	caFile := clitest.NewCertificate(t).Write(t, t.TempDir()).CertFile
	const answers404 = "the API server got the answer 404: warrantgate does not take it for an API server"
	for name, tc := range map[string]struct {
		unserved bool
		groups   []string
		config   string
		// want are in the error. Without any, there is none.
		want             []string
		wantImpersonated []string
	}{
		"they answer": {},
		"they answer an administrator that the gates exempt": {
			groups: []string{"system:masters"}, wantImpersonated: []string{"system:authenticated", "system:kcp:admin"},
		},
		"they do not know the path": {unserved: true, want: []string{
			"the gates are installed, but did not work within 1s. Until they do, new workspaces whose owners only the webhook can rewrite are not scheduled",
			"\nowner-rewrite.warrantgate.dev: " + answers404, "with --webhook-path-file and the same file",
		}},
		"the one that is on does not": {unserved: true, config: "workspace: {ownerIntegrity: {mode: Off}}\n", want: []string{"\nowner-rewrite.warrantgate.dev: " + answers404}},
		"all are off":                 {unserved: true, config: "workspace: {ownerIntegrity: {mode: Off}, ownerRewrite: {mode: Off}}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			api, kubeconfig := startFakeKCP(t)
			api.unserved, api.groups = tc.unserved, tc.groups
			config := clitest.WriteFile(t, "config.yaml", "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+tc.config)
			_, errOut, err := run(t, "install", "kcp", "--wait=1s", "--kubeconfig", kubeconfig, "--url", "https://warrantgate.example.com:9443", "--ca-file", caFile,
				"--config", config)
			if (err != nil) != (len(tc.want) > 0) || strings.Contains(errOut, "The gates work.") != (err == nil) {
				t.Fatalf("error %v, notes %q", err, errOut)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
			if diff := cmp.Diff(tc.wantImpersonated, api.impersonated, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("impersonated groups (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPolicyFilesAgreeWithInstall compares the files of the chart with the objects of the code. "make generate" writes the files.
func TestPolicyFilesAgreeWithInstall(t *testing.T) {
	withOpenStack := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(withOpenStack, []byte("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
		"openStack: {authURLs: [\"https://keystone.example.com/v3\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for where, flags := range map[string][]string{"kcp": nil, "kubernetes": {"--config=" + withOpenStack}} {
		file := where + "-policies.yaml"
		want, err := os.ReadFile("../../../charts/warrantgate/files/" + file)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := run(t, append([]string{"install", where, "--policies-only", "--dry-run"}, flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), out); diff != "" {
			t.Errorf("%s is stale, run `make generate` (-file +install):\n%s", file, diff)
		}
	}
}

func TestInstallWarnsAboutKCPBefore032(t *testing.T) {
	caFile := clitest.NewCertificate(t).Write(t, t.TempDir()).CertFile
	for version, want := range map[string]string{
		"v1.36.0+kcp-v0.32.3": "",
		"v1.33.3+kcp-v0.30.0": "Warning: this kcp is older than v0.32: a user who creates a WorkspaceType and a workspace of it can change the owner " +
			"annotation of its LogicalCluster while it is Initializing, and kcp then acts as any user in that workspace. warrantgate cannot prevent that. " +
			"Upgrade kcp to v0.32, or permit only administrators to create WorkspaceTypes.\n",
		"v0.0.0-master+$Format:%H$": "Warning: this kcp is older than v0.32: ", // as it has no MutatingAdmissionPolicies
	} {
		t.Run(version, func(t *testing.T) {
			api, kubeconfig := startFakeKCP(t)
			api.gitVersion = version
			_, errOut, err := run(t, "install", "kcp", "--kubeconfig", kubeconfig, "--url", "https://warrantgate.example.com:9443", "--ca-file", caFile)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.TrimSuffix(strings.TrimPrefix(errOut, noSuchPolicies), withoutEvents)
			if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
				t.Errorf("notes %q, want %q", got, want)
			}
		})
	}
}

// TestInstallByPolicyOrWebhook checks that install uses the policy or the webhook. Each step continues with the state in which the previous
// one left kcp.
func TestInstallByPolicyOrWebhook(t *testing.T) {
	caFile := clitest.NewCertificate(t).Write(t, t.TempDir()).CertFile
	const (
		inEffect = "root: MutatingAdmissionPolicy \"warrantgate-owner-rewrite\" rewrites the owners of plain service accounts\n"
		gone     = "root: MutatingAdmissionPolicyBinding \"warrantgate-restore\" deleted\nroot: MutatingAdmissionPolicy \"warrantgate-restore\" deleted\n" +
			"root: MutatingAdmissionPolicyBinding \"warrantgate-owner-rewrite\" deleted\nroot: MutatingAdmissionPolicy \"warrantgate-owner-rewrite\" deleted\n"
	)
	// The lines for the policies, and for what is registered after kcp evaluates them.
	policies := func(mutating, integrity string) string {
		return fmt.Sprintf("root: MutatingAdmissionPolicy \"warrantgate-owner-rewrite\" %[1]s\n"+
			"root: MutatingAdmissionPolicyBinding \"warrantgate-owner-rewrite\" %[1]s\n"+
			"root: MutatingAdmissionPolicy \"warrantgate-restore\" %[1]s\n"+
			"root: MutatingAdmissionPolicyBinding \"warrantgate-restore\" %[1]s\n", mutating) + inRoot(integrity, integrity)
	}
	others := func(mutating, validating, rest string) string {
		all := inRoot(append([]string{"", "", mutating, validating}, slices.Repeat([]string{rest}, 5)...)...)
		return strings.TrimPrefix(all, inRoot("", ""))
	}
	without := []string{mutating, validating, policy, binding, warrantedType, warrantedRole, warrantedBinding, repairRole, repairBinding}
	with := append([]string{rewritePolicy, rewriteBinding, restorePolicy, restoreBinding}, without...)
	api, kubeconfig := startFakeKCP(t)
	api.policies = true
	for _, step := range []struct {
		name       string
		args       []string
		disabled   bool
		want       string
		wantErr    string
		wantErrOut string
		wantHeld   []string
	}{
		{
			name: "the policies alone", args: []string{"--policies-only"}, wantHeld: []string{rewritePolicy, rewriteBinding, restorePolicy, restoreBinding, policy, binding},
			want: policies("created", "created") + inEffect,
		},
		{
			name: "the webhooks besides", wantHeld: with, wantErrOut: withoutEvents,
			want: policies("unchanged", "unchanged") + inEffect + others("created", "created", "created"),
		},
		{name: "again", wantHeld: with, wantErrOut: withoutEvents, want: policies("unchanged", "unchanged") + inEffect + others("unchanged", "unchanged", "unchanged")},
		{
			name: "the webhook in its place", args: []string{"--rewrite=Webhook"}, wantHeld: without, wantErrOut: withoutEvents,
			want: inRoot("unchanged", "unchanged") + others("configured", "unchanged", "unchanged") + gone,
		},
		{
			name: "the policy in its place", args: []string{"--rewrite=Policy"}, wantHeld: with, wantErrOut: withoutEvents,
			want: policies("created", "unchanged") + inEffect + others("configured", "unchanged", "unchanged"),
		},
		{
			name: "the webhook in its place, which admits requests while no serve answers", args: []string{"--rewrite=Webhook", "--failure-policy=Ignore"},
			wantHeld: without, wantErrOut: withoutEvents,
			want: inRoot("unchanged", "unchanged") + others("configured", "unchanged", "unchanged") + gone,
		},
		{
			name: "kcp does not evaluate policies", disabled: true, wantHeld: with, wantErr: noEffect + " (context deadline exceeded)",
			want: policies("created", "unchanged"),
		},
		{
			name: "then the webhook in its place", args: []string{"--rewrite=Webhook"}, disabled: true, wantHeld: without, wantErrOut: withoutEvents,
			want: inRoot("unchanged", "unchanged") + others("configured", "unchanged", "unchanged") + gone,
		},
		{
			name: "or nothing else is there to do it", args: []string{"--policies-only"}, disabled: true, wantHeld: with,
			want: policies("created", "unchanged"), wantErr: noEffect + " (context deadline exceeded)",
		},
	} {
		t.Run(step.name, func(t *testing.T) {
			api.disabled = step.disabled
			args := append([]string{"install", "kcp", "--wait=1s", "--kubeconfig", kubeconfig}, step.args...)
			if !slices.Contains(step.args, "--policies-only") {
				args = append(args, "--url", "https://warrantgate.example.com:9443", "--ca-file", caFile)
			}
			out, errOut, err := run(t, args...)
			if got := fmt.Sprint(err); (step.wantErr != "" || err != nil) && got != step.wantErr {
				t.Errorf("error %q, want %q", got, step.wantErr)
			}
			if diff := cmp.Diff(step.want, out); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(step.wantErrOut, errOut); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			api.holds(t, step.wantHeld...)
		})
	}
}

func TestInstallUsesTheKubeconfigsOfTheEnvironment(t *testing.T) {
	api, kubeconfig := startFakeKCP(t)
	t.Setenv("KUBECONFIG", clitest.WriteKubeconfig(t, nil)+string(filepath.ListSeparator)+kubeconfig)
	caFile := clitest.NewCertificate(t).Write(t, t.TempDir()).CertFile
	if _, _, err := run(t, "install", "kcp", "--url", "https://warrantgate.example.com:9443", "--ca-file", caFile); err != nil {
		t.Fatalf("error = %v", err)
	}
	api.holds(t, mutating, validating, policy, binding, warrantedType, warrantedRole, warrantedBinding, repairRole, repairBinding)
}

func TestInstallDoesNotChangeOtherObjects(t *testing.T) {
	caFile := clitest.NewCertificate(t).Write(t, t.TempDir()).CertFile
	const why = "exists and was not installed by warrantgate (no label app.kubernetes.io/managed-by=warrantgate); rename or delete it first"

	t.Run("in root", func(t *testing.T) {
		api, kubeconfig := startFakeKCP(t)
		api.hold(validating, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "warrantgate")
		out, _, err := run(t, "install", "kcp", "--kubeconfig", kubeconfig, "--url", "https://warrantgate.example.com", "--ca-file", caFile)
		if want := `root: ValidatingWebhookConfiguration "warrantgate" ` + why; err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
		if diff := cmp.Diff(inRoot("created", "created", "created"), out); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
		api.holds(t, mutating, policy, binding, validating)

		out, _, err = run(t, "uninstall", "kcp", "--kubeconfig", kubeconfig)
		if err != nil {
			t.Errorf("uninstall: error = %v", err)
		}
		if want := `root: ValidatingWebhookConfiguration "warrantgate" not changed, because warrantgate did not install it` + "\n"; !strings.Contains(out, want) {
			t.Errorf("uninstall prints %s, want %s in it", out, want)
		}
		api.holds(t, validating)
	})
	t.Run("on a shard, before root is touched", func(t *testing.T) {
		api, kubeconfig := startFakeKCP(t)
		api.hold(shardRole, "rbac.authorization.k8s.io/v1", "ClusterRole", "warrantgate-events")
		_, _, err := run(t, "install", "kcp", "--kubeconfig", kubeconfig, "--shard-kubeconfig", kubeconfig,
			"--url", "https://warrantgate.example.com", "--ca-file", caFile)
		if want := kubeconfig + `: ClusterRole "warrantgate-events" ` + why; err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
		api.holds(t, shardRole)
	})
}

func TestInstallMistakes(t *testing.T) {
	certificate := clitest.NewCertificate(t).Write(t, t.TempDir())
	noPEM := clitest.WriteFile(t, "ca.crt", "no PEM")
	missing := filepath.Join(t.TempDir(), "missing")
	noPath := clitest.WriteFile(t, "webhook-path", "\n")
	badConfig := clitest.WriteFile(t, "config.yaml", "apiVersion: config.warrantgate.dev/v1beta1\nkind: Gate\n")
	kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": "https://kcp.example.com"})
	badAddress := clitest.WriteKubeconfig(t, map[string]string{"home": "https://kcp example"})
	inRoot := clitest.WriteKubeconfig(t, map[string]string{"home": "https://kcp.example.com/clusters/root"})

	kcp := func(args ...string) []string {
		return append([]string{"install", "kcp", "--url=https://warrantgate.example.com", "--ca-file=" + certificate.CertFile}, args...)
	}
	const (
		isRoot = "https://kcp.example.com/clusters/root is the workspace root, where other gates have the same names: set --context or --kubeconfig to the " +
			"workspace with the APIExport"
		isWorkspace = "https://kcp.example.com/clusters/root is a workspace of kcp, and this command is for Kubernetes API servers: set another --context or " +
			"--kubeconfig, or use the command kcp or provider instead of kubernetes"
	)
	const mustBe = " must be an https URL, such as https://warrantgate.example.com:9443"
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"required flags": {args: []string{"install", "kcp"}, want: "at least one of the flags in the group [url ca-file policies-only] is required"},
		"no CA": {
			args: []string{"install", "kcp", "--url=https://warrantgate.example.com"},
			want: "if any flags in the group [url ca-file] are set they must all be set; missing [ca-file]",
		},
		"a CA without webhooks": {
			args: kcp("--policies-only"),
			want: "if any flags in the group [ca-file policies-only] are set none of the others can be; [ca-file policies-only] were all set",
		},
		"an empty CA file": {args: kcp("--ca-file="), want: "read --ca-file: open : no such file or directory"},
		"an unknown flag":  {args: kcp("--force"), want: "unknown flag: --force"},
		"no webhook path": {
			args: kcp("--webhook-path-file=" + noPath), want: "--webhook-path-file: " + noPath + `: it contains no token; create one with "openssl rand -hex 32"`,
		},
		"an invalid URL":           {args: kcp("--url=https://[::1"), want: `--url: parse "https://[::1": missing ']' in host`},
		"a URL without TLS":        {args: kcp("--url=http://warrantgate.example.com"), want: `--url: "http://warrantgate.example.com"` + mustBe},
		"a host only":              {args: kcp("--url=warrantgate.example.com"), want: `--url: "warrantgate.example.com"` + mustBe},
		"an empty URL":             {args: kcp("--url="), want: `--url: ""` + mustBe},
		"a URL without a host":     {args: kcp("--url=https://:9443"), want: `--url: "https://:9443"` + mustBe},
		"a URL with a path":        {args: kcp("--url=https://example.com/gate"), want: `--url: "https://example.com/gate" must contain a host and a port only`},
		"a URL with a query":       {args: kcp("--url=https://example.com?a=b"), want: `--url: "https://example.com?a=b" must contain a host and a port only`},
		"a URL with a fragment":    {args: kcp("--url=https://example.com#a"), want: `--url: "https://example.com#a" must contain a host and a port only`},
		"a URL with a user":        {args: kcp("--url=https://alice@example.com"), want: `--url: "https://alice@example.com" must contain a host and a port only`},
		"no CA file":               {args: kcp("--ca-file=" + missing), want: "read --ca-file: open " + missing + ": no such file or directory"},
		"a CA file without PEM":    {args: kcp("--ca-file=" + noPEM), want: "--ca-file: " + noPEM + " contains no certificate in PEM"},
		"a CA file with a key":     {args: kcp("--ca-file=" + certificate.KeyFile), want: "--ca-file: " + certificate.KeyFile + " contains no certificate in PEM"},
		"no configuration":         {args: kcp("--config=" + missing), want: "read the configuration: open " + missing + ": no such file or directory"},
		"a mistaken configuration": {args: kcp("--config=" + badConfig), want: "configuration " + badConfig + `: line 2: kind: Unsupported value: "Gate": supported values: "GateConfiguration"`},
		"a failure policy in another case": {
			args: kcp("--failure-policy=ignore"), want: `--failure-policy: "ignore" is neither Fail nor Ignore`,
		},
		"no kubeconfig": {
			args: kcp("--kubeconfig=" + missing),
			want: fmt.Sprintf("read kubeconfig %q: stat %s: no such file or directory", missing, missing),
		},
		"no such context": {
			args: kcp("--kubeconfig="+kubeconfig, "--context=work"),
			want: fmt.Sprintf("read kubeconfig %q: context \"work\" does not exist", kubeconfig),
		},
		"no kubeconfig of a shard": {
			args: kcp("--kubeconfig="+kubeconfig, "--shard-kubeconfig="+missing),
			want: fmt.Sprintf("read kubeconfig %q: stat %s: no such file or directory", missing, missing),
		},
		"no kubeconfig of a later shard": {
			args: kcp("--kubeconfig="+kubeconfig, "--shard-kubeconfig="+kubeconfig, "--shard-kubeconfig="+missing),
			want: fmt.Sprintf("read kubeconfig %q: stat %s: no such file or directory", missing, missing),
		},
		"uninstall of a provider without the kubeconfig of a later shard": {
			args: []string{"uninstall", "provider", "--kubeconfig=" + kubeconfig, "--shard-kubeconfig=" + kubeconfig, "--shard-kubeconfig=" + missing},
			want: fmt.Sprintf("read kubeconfig %q: stat %s: no such file or directory", missing, missing),
		},
		"no such context of a shard": {
			args: kcp("--kubeconfig="+kubeconfig, "--shard-kubeconfig="+kubeconfig, "--shard-context=system:admin"),
			want: fmt.Sprintf("read kubeconfig %q: context \"system:admin\" does not exist", kubeconfig),
		},
		"an address that cannot be read": {
			args: kcp("--kubeconfig=" + badAddress),
			want: `address of kcp "https://kcp example": parse "https://kcp example": invalid character " " in host name`,
		},
		"uninstall without a kubeconfig": {
			args: []string{"uninstall", "kcp", "--kubeconfig=" + missing},
			want: fmt.Sprintf("read kubeconfig %q: stat %s: no such file or directory", missing, missing),
		},
		"a provider in root":              {args: append([]string{"install", "provider", "--kubeconfig=" + inRoot}, kcp()[2:]...), want: isRoot},
		"uninstall of a provider in root": {args: []string{"uninstall", "provider", "--kubeconfig=" + inRoot}, want: isRoot},
		"Kubernetes in a workspace of kcp": {
			args: append([]string{"install", "kubernetes", "--kubeconfig=" + inRoot}, kcp()[2:]...), want: isWorkspace,
		},
		"policies of Kubernetes in a workspace of kcp": {
			args: []string{"install", "kubernetes", "--policies-only", "--kubeconfig=" + inRoot}, want: isWorkspace,
		},
		"uninstall of Kubernetes in a workspace of kcp": {args: []string{"uninstall", "kubernetes", "--kubeconfig=" + inRoot}, want: isWorkspace},
		"an argument": {args: kcp("root"), want: `unknown command "root" for "warrantgate install kcp"`},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := run(t, tc.args...)
			if err == nil {
				t.Fatal("there is no error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if out != "" || errOut != "" {
				t.Errorf("output = %q, %q, want none beside the error", out, errOut)
			}
		})
	}
}

// firstToken is the first token of a file.
const firstToken = "0123456789abcdef0123456789abcdef"

func TestDryRunPrintsTheObjects(t *testing.T) {
	certificate := clitest.NewCertificate(t).Write(t, t.TempDir())
	caBundle, err := os.ReadFile(certificate.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	// There is no kubeconfig and no kcp: nothing is read or written.
	out, errOut, err := run(t, "install", "kcp", "--dry-run", "--rewrite=Webhook", "--url=https://warrantgate.example.com:9443/",
		"--ca-file="+certificate.CertFile, "--user=gate", "--webhook-path-file="+clitest.WriteFile(t, "webhook-path", firstToken+"\n"+strings.Repeat("f", 32)))
	if err != nil || errOut != "" {
		t.Fatalf("error = %v, standard error = %q", err, errOut)
	}

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{admissionregistrationv1.AddToScheme, rbacv1.AddToScheme, tenancyv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var got []string
	for document := range strings.SplitSeq(strings.TrimPrefix(out, "---\n"), "---\n") {
		object, kind, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("decode strictly: %v\n%s", err, document)
		}
		meta, ok := object.(metav1.Object)
		if !ok {
			t.Fatalf("%T has no metadata", object)
		}
		comment, _, _ := strings.Cut(document, "\n")
		got = append(got, fmt.Sprintf("%s %s %s", comment, kind.Kind, meta.GetName()))
		if diff := cmp.Diff(map[string]string{"app.kubernetes.io/managed-by": "warrantgate"}, meta.GetLabels()); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", kind.Kind, diff)
		}
		checkDryRun(t, object, caBundle)
	}
	want := []string{
		"# in workspace root ValidatingAdmissionPolicy warrantgate-owner-integrity",
		"# in workspace root ValidatingAdmissionPolicyBinding warrantgate-owner-integrity",
		"# in workspace root MutatingWebhookConfiguration warrantgate",
		"# in workspace root ValidatingWebhookConfiguration warrantgate",
		"# in workspace root WorkspaceType warranted",
		"# in workspace root ClusterRole warrantgate-warranted",
		"# in workspace root ClusterRoleBinding warrantgate-warranted",
		"# in workspace root ClusterRole warrantgate-repair",
		"# in workspace root ClusterRoleBinding warrantgate-repair",
		"# in logical cluster system:admin of each shard ClusterRole warrantgate-events",
		"# in logical cluster system:admin of each shard ClusterRoleBinding warrantgate-events",
		"# in logical cluster system:admin of each shard ClusterRole warrantgate-explain",
		"# in logical cluster system:admin of each shard ClusterRoleBinding warrantgate-explain",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

// TestFailurePolicyAppliesToWebhooksOnly also checks that the admission policy, which needs no serve, still denies requests.
func TestFailurePolicyAppliesToWebhooksOnly(t *testing.T) {
	certificate := clitest.NewCertificate(t).Write(t, t.TempDir())
	api, kubeconfig := startFakeKCP(t)
	api.holdProvider("1dz6n4ubraua7pul")
	for server, want := range map[string]map[string][]string{
		"kcp": {
			"Mutating":         {"owner-rewrite.warrantgate.dev Ignore", "denial-notice.warrantgate.dev Ignore"},
			"Validating":       {"owner-notice.warrantgate.dev Ignore"},
			"admission policy": {"warrantgate-owner-integrity Fail"},
		},
		"kubernetes": {"Validating": {
			"cloudsigmamachines.machine.warrantgate.dev Ignore", "first.cloudsigmamachines.machine.warrantgate.dev Ignore", "owner.machine.warrantgate.dev Ignore", "cloudsigmaclusters.cluster.warrantgate.dev Ignore",
			"kdcclusters.cluster.warrantgate.dev Ignore", "secrets.cluster.warrantgate.dev Ignore",
		}, "admission policy": {"cloudsigmaclusters.cluster.warrantgate.dev Fail", "cloudsigmaclusters.region.warrantgate.dev Fail"}},
		"provider": {"Validating": {
			"cloudsigmamachines.machine.warrantgate.dev Ignore", "first.cloudsigmamachines.machine.warrantgate.dev Ignore", "owner.machine.warrantgate.dev Ignore", "cloudsigmaclusters.cluster.warrantgate.dev Ignore",
			"kdcclusters.cluster.warrantgate.dev Ignore",
		}},
	} {
		out, _, err := run(t, "install", server, "--dry-run", "--failure-policy=Ignore", "--url=https://warrantgate.example.com",
			"--ca-file="+certificate.CertFile, "--kubeconfig="+kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, failurePolicies(t, out)); diff != "" {
			t.Errorf("install %s (-want +got):\n%s", server, diff)
		}
	}
}

// holdProvider adds root:home as the workspace of a provider, with an APIExport of gated kinds, and one of others.
func (f *fakeKCP) holdProvider(cluster string) {
	export := func(name, group, resource string) any {
		return map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"resources": []any{
			map[string]any{"group": group, "name": resource, "schema": "v1." + name},
		}}}
	}
	f.held["root:home/apis/apis.kcp.io/v1alpha2/apiexports"] = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExportList", "items": []any{
			export("capcs", "infrastructure.cluster.x-k8s.io", "cloudsigmamachines"), export("widgets", "example.com", "cloudsigmamachines"),
		},
	}}
	f.held["root:home/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"] = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster",
		"metadata": map[string]any{"name": "cluster", "annotations": map[string]any{"kcp.io/cluster": cluster}},
	}}
}

// TestInstallProviderNamesTheLogicalCluster checks that the webhook configuration names the logical cluster of the workspace. The user that
// serve runs as may create SubjectAccessReviews there, and read the objects of the APIExports of gated kinds.
func TestInstallProviderNamesTheLogicalCluster(t *testing.T) {
	certificate := clitest.NewCertificate(t).Write(t, t.TempDir())
	kcp, kubeconfig := startFakeKCP(t)
	args := []string{
		"install", "provider", "--dry-run", "--url=https://warrantgate.example.com:9443", "--ca-file=" + certificate.CertFile, "--kubeconfig=" + kubeconfig,
	}
	if _, _, err := run(t, args...); err == nil || !strings.HasPrefix(err.Error(), "determine the workspace of --kubeconfig and --context: ") {
		t.Errorf("of an object that is not a workspace: error = %v", err)
	}
	kcp.holdProvider("../services/x")
	if _, _, err := run(t, args...); err == nil || err.Error() != `"../services/x" is not the name of a logical cluster` {
		t.Errorf("of an invalid name: error = %v", err)
	}
	kcp.holdProvider("1dz6n4ubraua7pul")
	out, _, err := run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for document := range strings.SplitSeq(strings.TrimPrefix(out, "---\n"), "---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Rules    []struct{ ResourceNames []string }
			Webhooks []struct{ ClientConfig struct{ URL string } }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		comment, _, _ := strings.Cut(document, "\n")
		got = append(got, fmt.Sprintf("%s %s %s", comment, object.Kind, object.Metadata.Name))
		if object.Metadata.Name == "warrantgate-exports" {
			for _, rule := range object.Rules {
				got = append(got, rule.ResourceNames...)
			}
		}
		var urls []string
		for _, hook := range object.Webhooks {
			urls = append(urls, hook.ClientConfig.URL)
		}
		got = append(got, slices.Compact(urls)...) // several kinds have the same URL
	}
	want := []string{
		"# in the workspace of the APIExport ClusterRole warrantgate-reviews",
		"# in the workspace of the APIExport ClusterRoleBinding warrantgate-reviews",
		"# in the workspace of the APIExport ClusterRole warrantgate-exports",
		"capcs", "capcs",
		"# in the workspace of the APIExport ClusterRoleBinding warrantgate-exports",
		"# in the workspace of the APIExport ValidatingWebhookConfiguration warrantgate",
		"https://warrantgate.example.com:9443/kcp/1dz6n4ubraua7pul/machine/ownership",
		"https://warrantgate.example.com:9443/kcp/1dz6n4ubraua7pul/cluster/impersonation",
		"# in logical cluster system:admin of each shard ClusterRole warrantgate-machines",
		"# in logical cluster system:admin of each shard ClusterRoleBinding warrantgate-machines",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}

	// Without --user, it is the user on the shards. The owner of the provider's workspace can bind any user there.
	kcp.bind("root:home/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/warrantgate-reviews", "mallory")
	kcp.bind(shardBinding, "gate")
	out, _, err = run(t, append(args, "--shard-kubeconfig="+kubeconfig)...)
	if err != nil || strings.Contains(out, "mallory") || strings.Count(out, "  name: gate\n") != 3 {
		t.Errorf("error = %v, want 3 bindings of the user gate: %s", err, out)
	}
}

// TestFirstClaims checks the failure policy of the webhook for first claims: Ignore only if the audit checks the machines of the provider.
func TestFirstClaims(t *testing.T) {
	certificate := clitest.NewCertificate(t).Write(t, t.TempDir())
	api, kubeconfig := startFakeKCP(t)
	api.holdProvider("1dz6n4ubraua7pul")
	const (
		audited   = "audit: {providers: [{workspace: 1dz6n4ubraua7pul, apiExport: capcs}]}\n"
		elsewhere = "audit: {providers: [{workspace: 2x9ia1l7yyfqzxuw, apiExport: capcs}]}\n"
		invalid   = `machine.unknown: Invalid value: "AdmitFirstClaims": needs audit.providers with an APIExport of workspace 1dz6n4ubraua7pul, because nothing else ` +
			`checks the admitted claims later`
	)
	for name, tc := range map[string]struct {
		server, config, want, wantErr string
	}{
		"Kubernetes":                                    {server: "kubernetes", want: "Ignore"},
		"Kubernetes, AdmitFirstClaims":                  {server: "kubernetes", config: "machine: {unknown: AdmitFirstClaims}\n", want: "Ignore"},
		"Kubernetes, Deny":                              {server: "kubernetes", config: "machine: {unknown: Deny}\n", want: "Fail"},
		"Kubernetes without the audit":                  {server: "kubernetes", config: "audit: {mode: \"Off\"}\n", want: "Fail"},
		"a provider that is audited":                    {server: "provider", config: audited, want: "Ignore"},
		"a provider that is not audited":                {server: "provider", config: elsewhere, want: "Fail"},
		"a provider by default":                         {server: "provider", want: "Fail"},
		"a provider that is audited, Deny":              {server: "provider", config: audited + "machine: {unknown: Deny}\n", want: "Fail"},
		"a provider that is audited, AdmitFirstClaims":  {server: "provider", config: audited + "machine: {unknown: AdmitFirstClaims}\n", want: "Ignore"},
		"another provider is audited, AdmitFirstClaims": {server: "provider", config: elsewhere + "machine: {unknown: AdmitFirstClaims}\n", wantErr: invalid},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+tc.config), 0o600); err != nil {
				t.Fatal(err)
			}
			out, _, err := run(t, "install", tc.server, "--dry-run", "--url=https://warrantgate.example.com", "--ca-file="+certificate.CertFile, "--kubeconfig="+kubeconfig,
				"--config="+file)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Errorf("install = %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			hooks := failurePolicies(t, out)["Validating"]
			for _, want := range []string{"first.cloudsigmamachines.machine.warrantgate.dev " + tc.want, "cloudsigmamachines.machine.warrantgate.dev Fail"} {
				if !slices.Contains(hooks, want) {
					t.Errorf("registered: %q, want %q", hooks, want)
				}
			}
		})
	}
}

// failurePolicies returns the failure policies that a dry run prints, with the names of their webhooks.
func failurePolicies(t *testing.T, printed string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for document := range strings.SplitSeq(strings.TrimPrefix(printed, "---\n"), "---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ FailurePolicy string }
			Webhooks []struct{ Name, FailurePolicy string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		kind, _ := strings.CutSuffix(object.Kind, "WebhookConfiguration")
		for _, hook := range object.Webhooks {
			found[kind] = append(found[kind], hook.Name+" "+hook.FailurePolicy)
		}
		if object.Kind == "ValidatingAdmissionPolicy" {
			found["admission policy"] = append(found["admission policy"], object.Metadata.Name+" "+object.Spec.FailurePolicy)
		}
	}
	return found
}

// checkDryRun checks the fields that come from the flags.
func checkDryRun(t *testing.T, object runtime.Object, caBundle []byte) {
	t.Helper()
	var got, want []string
	var bundles [][]byte
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, hook := range o.Webhooks {
			got, bundles = append(got, *hook.ClientConfig.URL), append(bundles, hook.ClientConfig.CABundle)
		}
		want = []string{
			"https://warrantgate.example.com:9443/" + firstToken + "/workspace/owner-rewrite", "https://warrantgate.example.com:9443/" + firstToken + "/workspace/denial-notice",
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, hook := range o.Webhooks {
			got, bundles = append(got, *hook.ClientConfig.URL), append(bundles, hook.ClientConfig.CABundle)
		}
		want = []string{"https://warrantgate.example.com:9443/" + firstToken + "/workspace/owner-notice"}
	case *rbacv1.ClusterRoleBinding:
		for _, subject := range o.Subjects {
			got = append(got, subject.Name)
		}
		want = []string{"gate"}
		if o.Name == "warrantgate-warranted" { // for users who create workspaces of a type that extends warranted
			want = []string{"system:authenticated"}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%T (-want +got):\n%s", object, diff)
	}
	for _, bundle := range bundles {
		if diff := cmp.Diff(caBundle, bundle); diff != "" {
			t.Errorf("caBundle of %T (-want +got):\n%s", object, diff)
		}
	}
}

// run runs install or uninstall within this process and returns its output.
func run(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	return clitest.Run(t, []*cobra.Command{NewInstallCommand(), NewUninstallCommand()}, args...)
}
