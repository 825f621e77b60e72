package policies

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// admitting is an API server that answers a creation with the status for its resource, and admits a resource for which it has none.
type admitting struct {
	t        *testing.T
	statuses map[string]metav1.Status
	// mutates is whether policies answer canaries, and unrestored is whether that for restored Workspaces does not.
	mutates, unrestored bool
	// registered are the objects in root.
	registered []client.Object
}

func (s admitting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	status, denied := s.statuses[resource]
	answer := map[string]any{}
	switch {
	case r.URL.Path == "/version":
		answer["gitVersion"] = "v1.33.3+kcp-v0.30.0"
	case r.URL.Path == "/api":
		answer["versions"] = []string{"v1"}
	case r.URL.Path == "/apis":
		answer = map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{clitest.Group("infrastructure.cluster.x-k8s.io", "v1beta1")}}
	case r.URL.Path == "/api/v1":
		answer = namespacedResource("v1", "configmaps", "ConfigMap")
	case r.URL.Path == "/apis/infrastructure.cluster.x-k8s.io/v1beta1":
		answer = namespacedResource("infrastructure.cluster.x-k8s.io/v1beta1", "cloudsigmamachines", "CloudSigmaMachine")
	case r.URL.Path == "/clusters/root/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/warrantgate":
		s.getRegistered(w)
		return
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/mutatingadmissionpolicybindings/warrantgate-owner-rewrite"):
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost || r.URL.Query().Get("dryRun") != "All":
		s.t.Errorf("%s %s is no dry run", r.Method, r.URL)
	case denied && (resource != "workspaces" || !s.mutated(readCanary(s.t, r))):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		_ = json.NewEncoder(w).Encode(status)
		return
	case denied:
		answer = map[string]any{"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
	default:
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			s.t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// getRegistered answers with the configuration of the mutating webhooks.
func (s admitting) getRegistered(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	var answer any = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	for _, object := range s.registered {
		if configuration, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
			answer = configuration
		}
	}
	if _, missing := answer.(metav1.Status); missing {
		w.WriteHeader(http.StatusNotFound)
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// mutated reports whether a policy, or the webhook that rewrites owners, removes the annotation of a canary.
func (s admitting) mutated(canary map[string]string) bool {
	switch {
	case canary["warrantgate.dev/created-by"] != "":
		return s.mutates && !s.unrestored
	case canary["warrantgate.dev/canary"] == "rewrite-webhook":
		return strings.Contains(s.statuses["workspaces"].Message, "warrantgate-owner-integrity")
	}
	return s.mutates && canary["warrantgate.dev/canary"] == "rewrite-policy"
}

// readCanary returns the annotations of the object that was sent.
func readCanary(t *testing.T, r *http.Request) map[string]string {
	t.Helper()
	var object metav1.PartialObjectMetadata
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		t.Error(err)
	}
	return object.Annotations
}

func namespacedResource(groupVersion, name, kind string) map[string]any {
	return map[string]any{
		"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion,
		"resources": []any{map[string]any{"name": name, "kind": kind, "namespaced": true}},
	}
}

func TestCheckAdmission(t *testing.T) {
	const (
		header    = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"
		policies  = header + "machine: {mode: Off}\nkeystonePolicy: {selector: {matchLabels: {holds: policy}}}\n"
		both      = header + "keystonePolicy: {selector: {matchLabels: {holds: policy}}}\n"
		byPolicy  = `admission webhook "policies.keystone.warrantgate.dev" denied the request: it allows everybody`
		byMachine = `admission webhook "cloudsigmamachines.machine.warrantgate.dev" denied the request: no UUID`
		byKCP     = "ValidatingAdmissionPolicy 'warrantgate-owner-integrity' with binding 'warrantgate-owner-integrity' denied request: it is guarded"
	)
	for name, tc := range map[string]struct {
		args          []string
		configuration string
		statuses      map[string]metav1.Status
		mutates       bool
		unrestored    bool
		registered    []client.Object
		want          []string
		wantNot       string // if it is not empty
		wantCode      int
		wantMessage   string
	}{
		"all gates deny": {
			args: []string{"kubernetes"}, configuration: both,
			statuses: map[string]metav1.Status{"configmaps": clitest.Forbidden(byPolicy), "cloudsigmamachines": clitest.Forbidden(byMachine)},
			want: []string{
				"policies.keystone.warrantgate.dev: ok\n", ` a ConfigMap in namespace "default", as a dry run, that must be denied as KeystonePolicyBroken`,
				"cloudsigmamachines.machine.warrantgate.dev: ok\n", "warrantgate denied the object: " + byMachine,
			},
		},
		"one gate does not deny": {
			args: []string{"kubernetes", "--namespace=tenants"}, configuration: both, statuses: map[string]metav1.Status{"configmaps": clitest.Forbidden(byPolicy)},
			want: []string{
				"policies.keystone.warrantgate.dev: ok\n", "cloudsigmamachines.machine.warrantgate.dev: NOT DENIED\n",
				`a CloudSigmaMachine in namespace "tenants"`, "Check\n  - whether the webhook configuration is installed",
			},
			wantCode: cli.ExitWrong,
		},
		"one result is unknown, and another gate denies": {
			args: []string{"kubernetes"}, configuration: both,
			statuses: map[string]metav1.Status{"configmaps": clitest.Forbidden(byPolicy), "cloudsigmamachines": clitest.Forbidden("cloudsigmamachines is forbidden")},
			want:     []string{"policies.keystone.warrantgate.dev: ok\n", "cloudsigmamachines.machine.warrantgate.dev: UNKNOWN\n"},
		},
		"no result is known": {
			args: []string{"kubernetes"}, configuration: policies, statuses: map[string]metav1.Status{"configmaps": clitest.Forbidden("configmaps is forbidden")},
			want: []string{"policies.keystone.warrantgate.dev: UNKNOWN\n", "whether the user of the kubeconfig may create such an object"}, wantCode: cli.ExitUnknown,
		},
		"policies by their names": { // an object of another name is not evaluated
			args:          []string{"kubernetes"},
			configuration: header + "machine: {mode: Off}\nkeystonePolicy: {objects: [{namespace: keystone, name: policy}]}\n", wantCode: cli.ExitUnknown,
			wantMessage: "the configuration enables no gate that can be tested with an object that it must deny",
		},
		"policies by their labels and names": {
			args:          []string{"kubernetes"},
			configuration: strings.Replace(policies, "{selector", "{objects: [{namespace: keystone, name: policy}], selector", 1),
			statuses:      map[string]metav1.Status{"configmaps": clitest.Forbidden(byPolicy)},
			want:          []string{"policies.keystone.warrantgate.dev: ok\n"},
		},
		"kcp": {
			args: []string{"kcp"}, configuration: header, statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden(byKCP)},
			want: []string{
				"Warning: this kcp is older than v0.32: ", "warrantgate-owner-integrity: ok\n", "a Workspace, as a dry run, that must be denied as OwnerChangeDenied\n",
				"owner-rewrite.warrantgate.dev: ok\n", "a Workspace, as a dry run, that must be rewritten\n",
			},
		},
		"kcp does not call the gates": {
			args: []string{"kcp"}, configuration: header, wantCode: cli.ExitWrong,
			want: []string{
				"warrantgate: not installed in root: run `warrantgate install kcp`, or apply the admission policies\n",
				"warrantgate-owner-integrity: NOT DENIED\n", "owner-rewrite.warrantgate.dev: NOT REWRITTEN\n",
			},
		},
		"kcp does not call the gates that are registered": {
			args: []string{"kcp"}, configuration: header, wantCode: cli.ExitWrong,
			registered: workspace.Registration(webhooks.Server{}, v1beta1.Default().Workspace), wantNot: "not installed",
			want: []string{"warrantgate-owner-integrity: NOT DENIED\n"},
		},
		"kcp without the policy, with the webhook instead": {
			args: []string{"kcp"}, configuration: header, statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden(byKCP)},
			want: []string{"warrantgate-owner-rewrite: not in use\n  no admission policy rewrites owners: the webhook does, while warrantgate answers. If there was a policy before, run install again\n"},
		},
		"kcp without the policy, with a webhook for all owners": {
			args: []string{"kcp"}, configuration: header, statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden(byKCP)},
			registered: workspace.Registration(webhooks.Server{}, v1beta1.Default().Workspace),
			want:       []string{"warrantgate-owner-rewrite: not in use\n", "warrantgate-owner-integrity: ok\n"},
		},
		"kcp without the policy that the webhook leaves owners to": {
			args: []string{"kcp"}, configuration: header, statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden(byKCP)},
			registered: workspace.RegistrationWithPolicy(webhooks.Server{}, v1beta1.Default().Workspace), wantCode: cli.ExitWrong,
			want: []string{
				"warrantgate-owner-rewrite: NOT ACTIVE\n  nothing rewrites the owners of plain service accounts: no admission policy does, and the webhook leaves them to it. Run install again\n",
				"warrantgate-owner-integrity: ok\n",
			},
		},
		"kcp with the policy that the webhook leaves owners to": {
			args: []string{"kcp"}, configuration: header, statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden(byKCP)}, mutates: true,
			registered: workspace.RegistrationWithPolicy(webhooks.Server{}, v1beta1.Default().Workspace),
			want:       []string{"warrantgate-owner-rewrite: ok\n", "warrantgate-restore: ok\n", "warrantgate-owner-integrity: ok\n"},
		},
		"kcp without the policy for restored Workspaces": {
			args: []string{"kcp"}, configuration: header, mutates: true, unrestored: true, wantCode: cli.ExitWrong,
			statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden(byKCP + ": warrantgate.dev/created-by")},
			want: []string{
				"warrantgate-owner-rewrite: ok\n", "warrantgate-restore: NOT ACTIVE\n  what kcp and warrantgate set in a restored Workspace was not removed. Run install again\n",
				"warrantgate-owner-integrity: ok\n",
			},
		},
		"kcp with policies alone": {
			args: []string{"kcp", "--policies-only"}, configuration: header, mutates: true,
			statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden("ValidatingAdmissionPolicy 'warrantgate-owner-integrity' with binding denied request: no")},
			want: []string{
				"warrantgate-owner-rewrite: ok\n  the admission policy rewrites the owners of plain service accounts",
				"warrantgate-restore: ok\n  the admission policy removes what kcp and warrantgate set from restored Workspaces\n",
				"warrantgate-owner-integrity: ok\n", "  the admission policy denied the object: ",
			},
		},
		"kcp without policies": {
			args: []string{"kcp", "--policies-only"}, configuration: header, wantCode: cli.ExitWrong,
			want: []string{"warrantgate-owner-rewrite: NOT ACTIVE\n", "warrantgate-restore: NOT ACTIVE\n", "warrantgate-owner-integrity: NOT DENIED\n"},
		},
		"kcp without the permission to read policies": {
			args: []string{"kcp", "--policies-only"}, configuration: header, wantCode: cli.ExitUnknown,
			statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden("workspaces is forbidden")},
			want:     []string{"warrantgate-owner-rewrite: UNKNOWN\n", "warrantgate-owner-integrity: UNKNOWN\n", "workspaces is forbidden\n"},
		},
		"no gate is on": {
			args: []string{"kcp"}, configuration: header + "workspace: {ownerIntegrity: {mode: Off}, ownerRewrite: {mode: Off}}\n", wantCode: cli.ExitUnknown,
			wantMessage: "the configuration enables no gate that can be tested with an object that it must deny",
		},
		"a selector that no labels were found for": {
			args: []string{"kubernetes"}, wantCode: cli.ExitUnknown,
			configuration: header + "keystonePolicy: {selector: {matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: DoesNotExist}]}}\n",
			wantMessage:   `keystonePolicy.selector: found no labels that "a in (b),!a" selects`,
		},
		"an unknown flag": {args: []string{"kcp", "--name=a"}, configuration: header, wantCode: cli.ExitUnknown, wantMessage: "unknown flag: --name"},
		"an argument":     {args: []string{"kcp", "a"}, configuration: header, wantCode: cli.ExitUnknown, wantMessage: `unknown command "a" for "warrantgate check admission kcp"`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(admitting{t: t, statuses: tc.statuses, mutates: tc.mutates, unrestored: tc.unrestored, registered: tc.registered})
			defer server.Close()
			kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": server.URL})
			args := append([]string{"check", "admission"}, tc.args...)
			out, _, err := clitest.Run(t, []*cobra.Command{NewCheckCommand()}, append(args, "--kubeconfig="+kubeconfig, "--config="+clitest.WriteFile(t, "config.yaml", tc.configuration))...)
			code, message := 0, ""
			if err != nil {
				exit, cause := cli.ExitCode(err)
				if code = exit; cause != nil {
					message = cause.Error()
				}
			}
			if code != tc.wantCode || message != tc.wantMessage {
				t.Errorf("exit %d, %q, want %d, %q", code, message, tc.wantCode, tc.wantMessage)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if tc.wantNot != "" && strings.Contains(out, tc.wantNot) {
				t.Errorf("%q in\n%s", tc.wantNot, out)
			}
		})
	}
}

// An API server calls a new webhook only after some seconds.
func TestCheckAdmissionWaits(t *testing.T) {
	const denied = "ValidatingAdmissionPolicy 'warrantgate-owner-integrity' with binding 'warrantgate-owner-integrity' denied request: it is guarded"
	before := admitting{t: t}
	after := admitting{t: t, statuses: map[string]metav1.Status{"workspaces": clitest.Forbidden(denied)}}
	for name, tc := range map[string]struct {
		wait    string
		current admitting // after the first canary
		want    string
		code    int
	}{
		"until it is called": {wait: "1m", current: after, want: "warrantgate-owner-integrity: ok\n"},
		"not at all":         {wait: "0s", current: after, want: "warrantgate-owner-integrity: NOT DENIED\n", code: cli.ExitWrong},
		"in vain":            {wait: "1500ms", current: before, want: "warrantgate-owner-integrity: NOT DENIED\n", code: cli.ExitWrong},
	} {
		t.Run(name, func(t *testing.T) {
			var canaries atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				// The first check sends one canary to the policy and one to each webhook.
				if r.Method == http.MethodPost && canaries.Add(1) > 3 {
					tc.current.ServeHTTP(w, r)
					return
				}
				before.ServeHTTP(w, r)
			}))
			defer server.Close()
			kubeconfig := clitest.WriteKubeconfig(t, map[string]string{"home": server.URL})
			out, _, err := clitest.Run(t, []*cobra.Command{NewCheckCommand()}, "check", "admission", "kcp", "--wait="+tc.wait, "--kubeconfig="+kubeconfig)
			code := 0
			if err != nil {
				code, _ = cli.ExitCode(err)
			}
			if code != tc.code || strings.Count(out, "warrantgate-owner-integrity: ") != 1 || !strings.Contains(out, tc.want) {
				t.Errorf("exit %d, want %d, and %q once in\n%s", code, tc.code, tc.want, out)
			}
		})
	}
}
