package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/canary"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/workspace"
)

// admitting is an API server that answers what is created in it with the statuses by resource, and lets pass what it has none for.
type admitting struct {
	t        *testing.T
	statuses map[string]metav1.Status
	// mutates is whether a policy answers canaries.
	mutates bool
}

func (s admitting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	status, refused := s.statuses[resource]
	answer := map[string]any{}
	switch {
	case r.URL.Path == "/version":
		answer["gitVersion"] = "v1.33.3+kcp-v0.30.0"
	case r.URL.Path == "/api":
		answer["versions"] = []string{"v1"}
	case r.URL.Path == "/apis":
		answer = map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{group("infrastructure.cluster.x-k8s.io", "v1beta1")}}
	case r.URL.Path == "/api/v1":
		answer = namespacedResource("v1", "configmaps", "ConfigMap")
	case r.URL.Path == "/apis/infrastructure.cluster.x-k8s.io/v1beta1":
		answer = namespacedResource("infrastructure.cluster.x-k8s.io/v1beta1", "cloudsigmamachines", "CloudSigmaMachine")
	case r.Method != http.MethodPost || r.URL.Query().Get("dryRun") != "All":
		s.t.Errorf("%s %s is no dry run", r.Method, r.URL)
	case refused && (!s.mutates || readCanary(s.t, r)["warrantgate.dev/canary"] != "rewrite-policy"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(status.Code))
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		_ = json.NewEncoder(w).Encode(status)
		return
	case s.mutates:
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

// readCanary returns the annotations of what is sent.
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

func forbidden(message string) metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}
}

func TestCheckAdmission(t *testing.T) {
	const (
		header    = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"
		policies  = header + "machine: {mode: Off}\nkeystonePolicy: {selector: {matchLabels: {holds: policy}}}\n"
		both      = header + "keystonePolicy: {selector: {matchLabels: {holds: policy}}}\n"
		byPolicy  = `admission webhook "policies.keystone.warrantgate.dev" denied the request: it allows everybody`
		byMachine = `admission webhook "cloudsigmamachines.machine.warrantgate.dev" denied the request: no UUID`
		byKCP     = `admission webhook "owner-integrity.warrantgate.dev" denied the request: it is guarded`
	)
	for name, tc := range map[string]struct {
		args          []string
		configuration string
		statuses      map[string]metav1.Status
		mutates       bool
		want          []string
		wantCode      int
		wantMessage   string
	}{
		"all gates refuse": {
			args: []string{"kubernetes"}, configuration: both,
			statuses: map[string]metav1.Status{"configmaps": forbidden(byPolicy), "cloudsigmamachines": forbidden(byMachine)},
			want: []string{
				"policies.keystone.warrantgate.dev: ok\n", ` a ConfigMap in namespace "default", as a dry run, that has to be refused as KeystonePolicyBroken`,
				"cloudsigmamachines.machine.warrantgate.dev: ok\n", "warrantgate refused it: " + byMachine,
			},
		},
		"one does not": {
			args: []string{"kubernetes", "--namespace=tenants"}, configuration: both, statuses: map[string]metav1.Status{"configmaps": forbidden(byPolicy)},
			want: []string{
				"policies.keystone.warrantgate.dev: ok\n", "cloudsigmamachines.machine.warrantgate.dev: NOT REFUSED\n",
				`a CloudSigmaMachine in namespace "tenants"`, "Look at\n  - whether it is registered",
			},
			wantCode: exitWrong,
		},
		"one is not known, which another proof outweighs": {
			args: []string{"kubernetes"}, configuration: both,
			statuses: map[string]metav1.Status{"configmaps": forbidden(byPolicy), "cloudsigmamachines": forbidden("cloudsigmamachines is forbidden")},
			want:     []string{"policies.keystone.warrantgate.dev: ok\n", "cloudsigmamachines.machine.warrantgate.dev: NOT KNOWN\n"},
		},
		"none is known": {
			args: []string{"kubernetes"}, configuration: policies, statuses: map[string]metav1.Status{"configmaps": forbidden("configmaps is forbidden")},
			want: []string{"policies.keystone.warrantgate.dev: NOT KNOWN\n", "whether the user of the kubeconfig may create such an object"}, wantCode: exitUnknown,
		},
		"kcp": {
			args: []string{"kcp"}, configuration: header, statuses: map[string]metav1.Status{"workspaces": forbidden(byKCP)},
			want: []string{"Warning: this kcp is older than v0.32: ", "owner-integrity.warrantgate.dev: ok\n", "a Workspace, as a dry run, that has to be refused as OwnerChangeRefused"},
		},
		"kcp does not ask": {
			args: []string{"kcp"}, configuration: header, want: []string{"owner-integrity.warrantgate.dev: NOT REFUSED\n"}, wantCode: exitWrong,
		},
		"kcp without the policy, which the webhook stands in for": {
			args: []string{"kcp"}, configuration: header, statuses: map[string]metav1.Status{"workspaces": forbidden(byKCP)},
			want: []string{"warrantgate-owner-rewrite: not in use\n  no admission policy rewrites owners: the webhook does, while warrantgate answers. If there was a policy before, run install again\n"},
		},
		"kcp with policies alone": {
			args: []string{"kcp", "--policies-only"}, configuration: header, mutates: true,
			statuses: map[string]metav1.Status{"workspaces": forbidden("ValidatingAdmissionPolicy 'warrantgate-owner-integrity' with binding denied request: no")},
			want: []string{
				"warrantgate-owner-rewrite: ok\n  the admission policy rewrites the owners of plain service accounts",
				"warrantgate-owner-integrity: ok\n  the admission policy refuses forged owners\n",
			},
		},
		"kcp without policies": {
			args: []string{"kcp", "--policies-only"}, configuration: header, wantCode: exitWrong,
			want: []string{"warrantgate-owner-rewrite: NOT ACTING\n", "warrantgate-owner-integrity: NOT REFUSED\n"},
		},
		"kcp where one may not ask for policies": {
			args: []string{"kcp", "--policies-only"}, configuration: header, wantCode: exitUnknown,
			statuses: map[string]metav1.Status{"workspaces": forbidden("workspaces is forbidden")},
			want:     []string{"warrantgate-owner-rewrite: NOT KNOWN\n", "warrantgate-owner-integrity: NOT KNOWN\n  workspaces is forbidden\n"},
		},
		"no gate is on": {
			args: []string{"kcp"}, configuration: header + "workspace: {ownerIntegrity: {mode: Off}}\n", wantCode: exitUnknown,
			wantMessage: "the configuration has no gate on that could be tried with an object that it has to refuse",
		},
		"a selector that no labels were found for": {
			args: []string{"kubernetes"}, wantCode: exitUnknown,
			configuration: header + "keystonePolicy: {selector: {matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: DoesNotExist}]}}\n",
			wantMessage:   `keystonePolicy.selector: no labels were found that "a in (b),!a" picks`,
		},
		"a flag that there is not": {args: []string{"kcp", "--name=a"}, configuration: header, wantCode: exitUnknown, wantMessage: "unknown flag: --name"},
		"an argument":              {args: []string{"kcp", "a"}, configuration: header, wantCode: exitUnknown, wantMessage: `unknown command "a" for "warrantgate check admission kcp"`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(admitting{t: t, statuses: tc.statuses, mutates: tc.mutates})
			defer server.Close()
			kubeconfig := writeKubeconfig(t, map[string]string{"home": server.URL})
			args := append([]string{"check", "admission"}, tc.args...)
			out, _, err := run(t, append(args, "--kubeconfig="+kubeconfig, "--config="+writeFile(t, "config.yaml", tc.configuration))...)
			code, message := 0, ""
			if err != nil {
				exit, cause := exitCode(err)
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
		})
	}
}

// TestCanariesNameHooksThatThereAre holds that a gate that was given another name is not looked for under its old one.
func TestCanariesNameHooksThatThereAre(t *testing.T) {
	config := v1beta1.Default()
	config.OpenStack.AuthURLs = []string{"https://keystone.example.com/v3"}
	config.KeystonePolicy.Mode = v1beta1.Enforce
	canaries, err := canary.ForKubernetes(config, "default")
	if err != nil {
		t.Fatal(err)
	}
	if len(canaries) != 3 {
		t.Errorf("%d canaries, want those on policies and on machines of both clouds", len(canaries))
	}
	registered := registeredHooks(t, config)
	for _, sent := range append(canaries, canary.ForKCP(config.Workspace)...) {
		if !registered[sent.Webhook] {
			t.Errorf("no webhook %q is registered", sent.Webhook)
		}
	}
}

// registeredHooks are the names of all validating webhooks, in Kubernetes and in kcp.
func registeredHooks(t *testing.T, config v1beta1.GateConfiguration) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, object := range append(kubernetesRegistration(webhooks.Server{}, config), workspace.Registration(webhooks.Server{}, config.Workspace)...) {
		if configuration, is := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); is {
			for i := range configuration.Webhooks {
				names[configuration.Webhooks[i].Name] = true
			}
		}
	}
	return names
}
