package charts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/charts/charttest"
)

// TestTheIssuerOfTheCertificate checks the source of the certificate and its CA in pods and API servers, if the chart does not generate them.
// The suite e2e/suites/chart tests a generated one, for which Helm needs an API server.
func TestTheIssuerOfTheCertificate(t *testing.T) {
	const (
		both   = "config: {machine: {mode: Off}, audit: {mode: Off}, controllerManager: {selector: {matchLabels: {a: b}}}}\n"
		beside = "kcp: {enabled: true, kubeconfigSecret: kcp, install: {enabled: true, kubeconfigSecret: admin}}\n"
		inject = "warrantgate-system/warrantgate-tls"
	)
	for name, tc := range map[string]struct {
		values string
		// wantSecret is the Secret that the pods mount, wantCA the CA that the Job for kcp mounts.
		wantSecret, wantCA string
		// wantBundle is the caBundle, and wantInject the Certificate whose CA cert-manager writes into it.
		wantBundle, wantInject string
	}{
		"cert-manager": {
			values:     "certificates: {certManager: {enabled: true}}\n",
			wantSecret: "warrantgate-tls", wantCA: "Secret warrantgate-tls", wantInject: inject,
		},
		"cert-manager, by an issuer of its own": {
			values:     "certificates: {certManager: {enabled: true, issuerRef: {kind: ClusterIssuer, name: internal}}}\n",
			wantSecret: "warrantgate-tls", wantCA: "Secret warrantgate-tls", wantInject: inject,
		},
		"the operator": {
			values: certificate, wantSecret: "tls", wantCA: "ConfigMap warrantgate", wantBundle: "-----BEGIN CERTIFICATE-----",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := template(t, tc.values+both+beside)
			deployment, _ := find[appsv1.Deployment](t, rendered.Objects, "Deployment")
			if diff := cmp.Diff("Secret "+tc.wantSecret, source(t, deployment.Spec.Template.Spec, "tls")); diff != "" {
				t.Errorf("Secret of the pods (-want +got):\n%s", diff)
			}
			for _, object := range rendered.Hooks {
				if object.GetName() != "warrantgate-kcp-install" {
					continue
				}
				var job batchv1.Job
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &job); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.wantCA, source(t, job.Spec.Template.Spec, "serving")); diff != "" {
					t.Errorf("CA of the Job (-want +got):\n%s", diff)
				}
			}
			if args := jobs(t, rendered)["warrantgate-kcp-install"]; !slices.Contains(args, "--ca-file=/etc/warrantgate/serving/ca.crt") {
				t.Errorf("the Job registers with %q", args)
			}
			mutating, _ := find[admissionregistrationv1.MutatingWebhookConfiguration](t, rendered.Objects, "MutatingWebhookConfiguration")
			validating, _ := find[admissionregistrationv1.ValidatingWebhookConfiguration](t, rendered.Objects, "ValidatingWebhookConfiguration")
			for _, annotations := range []map[string]string{mutating.Annotations, validating.Annotations} {
				if diff := cmp.Diff(tc.wantInject, annotations["cert-manager.io/inject-ca-from"]); diff != "" {
					t.Errorf("CA that cert-manager injects (-want +got):\n%s", diff)
				}
			}
			bundles := map[string]string{}
			for _, hook := range mutating.Webhooks {
				bundles[hook.Name] = string(hook.ClientConfig.CABundle)
			}
			for _, hook := range validating.Webhooks {
				bundles[hook.Name] = string(hook.ClientConfig.CABundle)
			}
			if len(bundles) < 2 {
				t.Errorf("webhooks: %v", bundles)
			}
			for hook, got := range bundles {
				if diff := cmp.Diff(tc.wantBundle, got); diff != "" {
					t.Errorf("caBundle of webhook %s (-want +got):\n%s", hook, diff)
				}
			}
			for _, object := range rendered.Objects {
				if object.GetKind() == "Secret" && object.GetName() != "warrantgate-webhook-path" {
					t.Errorf("the chart makes Secret %s", object.GetName())
				}
			}
		})
	}
}

// source returns the kind and name of the source of a volume.
func source(t *testing.T, pod corev1.PodSpec, name string) string {
	t.Helper()
	for _, volume := range pod.Volumes {
		switch {
		case volume.Name != name:
		case volume.Secret != nil:
			return "Secret " + volume.Secret.SecretName
		case volume.ConfigMap != nil:
			return "ConfigMap " + volume.ConfigMap.Name
		}
	}
	t.Errorf("there is no volume %s of a Secret or ConfigMap", name)
	return ""
}

// TestNoRoleWritesWebhookConfigurations checks that a client with a token of warrantgate cannot make API servers call another server: the
// roles give no access to webhook configurations, and no write access to Secrets.
func TestNoRoleWritesWebhookConfigurations(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rendered := template(t, readFile(t, file))
			for _, object := range append(append(rendered.Objects, rendered.Hooks...), rendered.Tests...) {
				if !strings.HasSuffix(object.GetKind(), "Role") {
					continue
				}
				var role rbacv1.ClusterRole // whose rules are those of a Role
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
					t.Fatal(err)
				}
				for _, rule := range role.Rules {
					all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
					if slices.Contains(all, "*") || slices.Contains(all, admissionregistrationv1.GroupName) || slices.Contains(all, "cert-manager.io") {
						t.Errorf("%s %s has the rule %+v", object.GetKind(), role.Name, rule)
					}
					if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"get"}) {
						t.Errorf("%s %s lets warrantgate %s Secrets", object.GetKind(), role.Name, rule.Verbs)
					}
				}
			}
		})
	}
}

// TestTheCertificateHasTheDNSNamesOfTheWebhooks checks the DNS names of the Certificate for cert-manager.
func TestTheCertificateHasTheDNSNamesOfTheWebhooks(t *testing.T) {
	rendered := template(t, keystoneOnly+"certificates: {certManager: {enabled: true}, extraDNSNames: [warrantgate.example.com]}\n")
	var names []any
	for _, object := range rendered.Objects {
		if spec, ok := object.Object["spec"].(map[string]any); ok && object.GetKind() == "Certificate" && object.GetName() == "warrantgate-tls" {
			names, _ = spec["dnsNames"].([]any)
		}
	}
	service := charttest.Release + "." + charttest.Namespace + ".svc"
	if diff := cmp.Diff([]any{service, service + ".cluster.local", "warrantgate.example.com"}, names); diff != "" {
		t.Errorf("DNS names (-want +got):\n%s", diff)
	}
}
