package charts_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/internal/config"
)

const header = "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"

// configurations are configuration files of serve, without their header: one for each way in which a gate is registered or not.
var configurations = map[string]string{
	"the defaults": "",
	"every gate":   "controllerManager: {selector: {matchLabels: {app: ccm}}}\nkeystonePolicy: {selector: {matchLabels: {holds: policy}}}\nopenStack: {authURLs: [\"https://keystone.example.com/v3\"]}\n",
	"every gate, to warn": `machine: {mode: Warn}
cluster: {impersonation: {mode: Warn}, delegation: {mode: Warn}}
controllerManager: {mode: Warn, selector: {matchLabels: {app: ccm}}}
keystonePolicy: {mode: Warn, selector: {matchLabels: {holds: policy}}}
openStack: {authURLs: ["https://keystone.example.com/v3"]}
`,
	"every gate off, by values that YAML reads as false": `machine: {mode: Off}
cluster: {impersonation: {mode: Off}, delegation: {mode: Off}}
controllerManager: {mode: Off, selector: {matchLabels: {app: ccm}}}
keystonePolicy: {mode: "Off", selector: {matchLabels: {holds: policy}}}
openStack: {authURLs: ["https://keystone.example.com/v3"]}
audit: {mode: Off}
`,
	"roles on OpenStack only": `machine: {mode: "Off"}
cluster: {impersonation: {mode: "Off"}}
openStack: {authURLs: ["https://keystone.example.com/v3"]}
`,
	"first claims, denied":            "machine: {unknown: Deny}\n",
	"first claims, admitted":          "machine: {unknown: AdmitFirstClaims}\n",
	"all claims, admitted":            "machine: {unknown: Admit}\n",
	"first claims, to warn":           "machine: {mode: Warn, unknown: Deny}\n",
	"first claims, without the audit": "audit: {mode: Off}\n",
	"controller managers by their names": `controllerManager: {objects: [{namespace: tenant-a, name: ccm}, {namespace: tenant-b, name: ccm.1}]}
`,
	"controller managers by labels and names, to warn": `controllerManager: {mode: Warn, selector: {matchLabels: {app: ccm}}, commands: [/manager], objects: [{namespace: tenant-a, name: ccm}]}
`,
	"policies by their names": `keystonePolicy: {objects: [{namespace: keystone, name: policy}, {namespace: other, name: policy.d}]}
`,
	"policies by labels and names, to warn": `keystonePolicy: {mode: Warn, selector: {matchLabels: {holds: policy}}, objects: [{namespace: keystone, name: policy}]}
`,
	"an OpenStack without a Keystone": "openStack: {authURLs: [], concurrency: 4}\n",
	"selectors of every kind": `controllerManager:
  selector:
    matchExpressions:
    - {key: app, operator: In, values: [a, b]}
    - {key: paused, operator: DoesNotExist}
keystonePolicy:
  selector:
    matchLabels: {z: "1", a: "2"}
    matchExpressions:
    - {key: m, operator: Exists}
    - {key: a, operator: NotIn, values: ["3"]}
`,
	"policies over a base": `keystonePolicy:
  objects: [{namespace: keystone, name: policy}]
  base: [{namespace: keystone, name: live, keys: [policy.json]}, {namespace: keystone, name: before}, {namespace: other, name: live}]
`,
	"policies over a base, off": "keystonePolicy: {base: [{namespace: keystone, name: live}]}\n",
	"further kinds of clusters": `cluster:
  impersonation:
    kinds:
    - {group: example.com, version: v1, kind: Farm, resource: farms, emailPath: spec.owner.email, annotations: [example.com/a, example.com/b]}
    - {group: example.com, version: v1, kind: Barn, resource: barns, annotations: [example.com/a]}
  delegation:
    kinds:
    - {group: example.com, version: v1, kind: Farm, resource: farms}
    - {group: example.com, version: v1, kind: Barn, resource: barns, identityRefPath: spec.keys}
  exemptNamespaces: [operators, storage]
openStack: {authURLs: ["https://keystone.example.com/v3"]}
`,
	"further kinds of clusters without machines": `machine: {mode: Off}
audit: {mode: Off}
cluster: {delegation: {kinds: [{group: example.com, version: v1, kind: Farm, resource: farms}]}}
openStack: {authURLs: ["https://keystone.example.com/v3"]}
`,
	"further kinds": `machine:
  kinds:
  - {group: infrastructure.example.com, version: v1, kind: ExampleMachine, resource: examplemachines, provider: cloudsigma}
  - group: other.example.com
    version: v1beta2
    kind: OtherMachine
    resource: othermachines
    instanceIDPath: status.vm.id
    providerIDPath: spec.vm.providerID
    identityRefPath: spec.identityRef
    provider: openstack
openStack: {authURLs: ["https://keystone.example.com/v3"]}
`,
	"kinds of external providers": `machine:
  unknown: Admit
  kinds:
  - {group: aws.example.com, version: v1, kind: Server, resource: servers, provider: external-aws, idPattern: "aws:///[^/]+/(i-[0-9a-f]+)"}
  - {group: other.example.com, version: v1, kind: Host, resource: hosts, providerIDPath: status.hostID, provider: external}
`,
}

// regions are the regions that a configuration needs for CloudSigma.
const regions = "cloudSigma: {regions: [zrh]}\n"

// cloudSigma are the required values for CloudSigma. Further lines of config may follow.
const cloudSigma = "cloudSigma: {enabled: true, secret: {name: cloud}}\nconfig:\n  " + regions

// TestTheChartCreatesTheObjectsOfInstall compares each object of the chart with that of "warrantgate install kubernetes".
func TestTheChartCreatesTheObjectsOfInstall(t *testing.T) {
	for name, configuration := range configurations {
		t.Run(name, func(t *testing.T) {
			configuration := regions + configuration
			printed := installed(t, configuration)
			rendered := template(t, certificate+"cloudSigma: {enabled: true, secret: {name: cloud}}\nconfig:\n"+indent(configuration)).Objects
			compareWebhooks(t, printed, rendered)
			comparePolicies(t, printed, rendered)
			compareRBAC(t, printed, rendered)
			compareConfiguration(t, configuration, rendered)
		})
	}
}

// TestEveryExampleCreatesTheObjectsOfInstall compares the objects of each example for this cluster with those that install prints for the same
// configuration file.
func TestEveryExampleCreatesTheObjectsOfInstall(t *testing.T) {
	compared := 0
	for _, file := range examples(t) {
		// With a CA, because cert-manager writes it only later.
		rendered := template(t, readFile(t, file), "--set=certificates.certManager.enabled=false", "--set=certificates.secret.name=tls",
			"--set=certificates.secret.caBundle=-----BEGIN CERTIFICATE-----").Objects
		if _, gated := find[rbacv1.ClusterRole](t, rendered, "ClusterRole"); !gated { // of kcp, where a Job runs install
			continue
		}
		compared++
		t.Run(filepath.Base(file), func(t *testing.T) {
			var configuration string
			for _, object := range rendered {
				if content, found, _ := unstructured.NestedString(object.Object, "data", "config.yaml"); found {
					configuration = strings.NewReplacer("apiVersion: config.warrantgate.dev/v1beta1\n", "", "kind: GateConfiguration\n", "").Replace(content)
				}
			}
			printed := installed(t, configuration)
			compareWebhooks(t, printed, rendered)
			comparePolicies(t, printed, rendered)
			compareRBAC(t, printed, rendered)
		})
	}
	if compared < 4 {
		t.Errorf("only %d examples were compared", compared)
	}
}

// TestTheFailurePolicyIsThatOfInstall compares the chart with --failure-policy, and checks that its Job uses the same for kcp.
func TestTheFailurePolicyIsThatOfInstall(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"none":   {"", "Fail"},
		"Fail":   {"failurePolicy: Fail\n", "Fail"},
		"Ignore": {"failurePolicy: Ignore\n", "Ignore"},
	} {
		t.Run(name, func(t *testing.T) {
			configuration := regions + configurations["every gate"]
			rendered := template(t, certificate+tc.values+"cloudSigma: {enabled: true, secret: {name: cloud}}\n"+
				"kcp: {enabled: true, install: {enabled: true, kubeconfigSecret: admin}}\nconfig:\n"+indent(configuration))
			compareWebhooks(t, installed(t, configuration, "--failure-policy="+tc.want), rendered.Objects)
			if args := jobs(t, rendered)["warrantgate-kcp-install"]; !slices.Contains(args, "--failure-policy="+tc.want) {
				t.Errorf("the Job registers in kcp by %q, want --failure-policy=%s", args, tc.want)
			}
		})
	}
}

// compareWebhooks checks that the webhooks differ only in how the API server reaches warrantgate, and in the namespaces that the chart
// never gates.
func compareWebhooks(t *testing.T, printed, rendered []*unstructured.Unstructured) {
	t.Helper()
	wantMutating, wanted := find[admissionregistrationv1.MutatingWebhookConfiguration](t, printed, "MutatingWebhookConfiguration")
	gotMutating, got := find[admissionregistrationv1.MutatingWebhookConfiguration](t, rendered, "MutatingWebhookConfiguration")
	if wanted != got {
		t.Errorf("the chart has mutating webhooks: %t, install: %t", got, wanted)
	}
	for i := range gotMutating.Webhooks {
		hook := &gotMutating.Webhooks[i]
		compareNamespaces(t, hook.NamespaceSelector)
		hook.ClientConfig, hook.NamespaceSelector = reached(t, hook.ClientConfig), nil
	}
	if diff := cmp.Diff(wantMutating.Webhooks, gotMutating.Webhooks); diff != "" {
		t.Errorf("mutating webhooks (-install +chart):\n%s", diff)
	}

	wantValidating, wanted := find[admissionregistrationv1.ValidatingWebhookConfiguration](t, printed, "ValidatingWebhookConfiguration")
	gotValidating, got := find[admissionregistrationv1.ValidatingWebhookConfiguration](t, rendered, "ValidatingWebhookConfiguration")
	if wanted != got {
		t.Errorf("the chart has validating webhooks: %t, install: %t", got, wanted)
	}
	for i := range gotValidating.Webhooks {
		hook := &gotValidating.Webhooks[i]
		compareNamespaces(t, hook.NamespaceSelector)
		hook.ClientConfig, hook.NamespaceSelector = reached(t, hook.ClientConfig), nil
	}
	if diff := cmp.Diff(wantValidating.Webhooks, gotValidating.Webhooks); diff != "" {
		t.Errorf("validating webhooks (-install +chart):\n%s", diff)
	}
}

// comparePolicies checks that the admission policies differ only in the namespaces that the chart never gates.
func comparePolicies(t *testing.T, printed, rendered []*unstructured.Unstructured) {
	t.Helper()
	specs := func(objects []*unstructured.Unstructured, ofChart bool) map[string]any {
		found := map[string]any{}
		for _, object := range objects {
			if !strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
				continue
			}
			spec, _, _ := unstructured.NestedMap(object.Object, "spec")
			if ofChart && object.GetKind() == "ValidatingAdmissionPolicyBinding" {
				var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
					t.Fatal(err)
				}
				compareNamespaces(t, binding.Spec.MatchResources.NamespaceSelector)
				delete(spec, "matchResources")
			}
			found[object.GetKind()+" "+object.GetName()] = spec
		}
		return found
	}
	if diff := cmp.Diff(specs(printed, false), specs(rendered, true)); diff != "" {
		t.Errorf("admission policies (-install +chart):\n%s", diff)
	}
}

// compareRBAC compares the RBAC rules one by one, and their subjects.
func compareRBAC(t *testing.T, printed, rendered []*unstructured.Unstructured) {
	t.Helper()
	wantCluster, _ := find[rbacv1.ClusterRole](t, printed, "ClusterRole")
	gotCluster, _ := find[rbacv1.ClusterRole](t, rendered, "ClusterRole")
	wantRole, _ := find[rbacv1.Role](t, printed, "Role")
	gotRole, hasRole := find[rbacv1.Role](t, rendered, "Role")
	if diff := cmp.Diff([][]rbacv1.PolicyRule{wantCluster.Rules, wantRole.Rules}, [][]rbacv1.PolicyRule{gotCluster.Rules, gotRole.Rules}); diff != "" {
		t.Errorf("rules in the cluster and in the namespace of the Lease (-install +chart):\n%s", diff)
	}
	if diff := cmp.Diff(wantRole.Namespace, gotRole.Namespace); diff != "" {
		t.Errorf("namespace of the Lease (-install +chart):\n%s", diff)
	}

	account, _ := find[corev1.ServiceAccount](t, rendered, "ServiceAccount")
	ofCluster, _ := find[rbacv1.ClusterRoleBinding](t, rendered, "ClusterRoleBinding")
	ofRole, boundRole := find[rbacv1.RoleBinding](t, rendered, "RoleBinding")
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}
	want := []any{rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: gotCluster.Name}, []rbacv1.Subject{subject}}
	got := []any{ofCluster.RoleRef, ofCluster.Subjects}
	if hasRole || boundRole {
		want = append(want, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: gotRole.Name}, []rbacv1.Subject{subject})
		got = append(got, ofRole.RoleRef, ofRole.Subjects)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}

// compareConfiguration checks that a configuration means the same in values as in a file.
func compareConfiguration(t *testing.T, configuration string, rendered []*unstructured.Unstructured) {
	t.Helper()
	want, err := config.Parse([]byte(header + configuration))
	if err != nil {
		t.Fatal(err)
	}
	file, _ := find[corev1.ConfigMap](t, rendered, "ConfigMap")
	got, err := config.Parse([]byte(file.Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestWithKCPOnlyThereAreNoPermissionsInTheCluster(t *testing.T) {
	rendered := template(t, certificate+"kubernetes: {enabled: false}\nkcp: {enabled: true, kubeconfigSecret: kcp}\n")
	for _, object := range append(rendered.Objects, rendered.Hooks...) {
		switch object.GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "Lease":
			t.Errorf("there is a %s", object.GetKind())
		case "Deployment":
			if text, _ := object.MarshalJSON(); strings.Contains(string(text), "serviceAccountToken") {
				t.Error("the pods have a token of the cluster")
			}
		}
	}
}

// TestAChangeOfTheConfigurationReplacesThePods checks that a change replaces the pods, because serve reads the configuration only at its
// start.
func TestAChangeOfTheConfigurationReplacesThePods(t *testing.T) {
	checksums := map[string]bool{}
	for _, values := range []string{"", "  audit: {interval: 1h}\n", "  audit: {interval: 2h}\n"} {
		deployment, _ := find[appsv1.Deployment](t, template(t, certificate+cloudSigma+values).Objects, "Deployment")
		checksums[deployment.Spec.Template.Annotations["checksum/config"]] = true
	}
	if len(checksums) != 3 || checksums[""] {
		t.Errorf("checksums = %v, want 3 different ones", checksums)
	}
}

// installed is the output of "warrantgate install kubernetes --dry-run" for the chart's service account.
func installed(t *testing.T, configuration string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	file, tokens := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "tokens")
	for path, content := range map[string]string{file: header + configuration, tokens: charttest.Token} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), warrantgate, append([]string{
		"install", "kubernetes", "--dry-run", "--config=" + file, "--webhook-path-file=" + tokens, "--ca-file=" + caFile(t),
		"--url=https://" + charttest.Release + "." + charttest.Namespace + ".svc:443", "--lease-namespace=" + charttest.Namespace,
	}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	objects, err := charttest.Decode(string(out))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects { // install creates no Service
		hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, hook := range hooks {
			if hook, ok := hook.(map[string]any); ok {
				unstructured.RemoveNestedField(hook, "clientConfig", "caBundle")
			}
		}
		if hooks != nil {
			object.Object["webhooks"] = hooks
		}
	}
	return objects
}

// caFile returns the path of a file with a CA certificate.
func caFile(t *testing.T) string {
	t.Helper()
	bundle, _, err := cert.GenerateSelfSignedCertKey("example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reached returns the URL of a reference to a Service.
func reached(t *testing.T, client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	service := client.Service
	if service == nil || service.Path == nil || service.Port == nil || len(client.CABundle) == 0 {
		t.Fatalf("the webhook is not reached by a Service: %+v", client)
	}
	at := &url.URL{Scheme: "https", Host: service.Name + "." + service.Namespace + ".svc:443", Path: *service.Path}
	text := at.String()
	return admissionregistrationv1.WebhookClientConfig{URL: &text}
}

// compareNamespaces checks that a webhook excludes the namespaces that everything else depends on.
func compareNamespaces(t *testing.T, selector *metav1.LabelSelector) {
	t.Helper()
	want := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{metav1.NamespaceSystem, charttest.Namespace},
	}}}
	if diff := cmp.Diff(want, selector); diff != "" {
		t.Errorf("namespaces that are gated (-want +got):\n%s", diff)
	}
}

func indent(text string) string {
	if text == "" {
		return "  {}\n"
	}
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
