package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/internal/certificates"
)

const (
	// certificateName is that of the Secret and the Lease of a certificate that warrantgate makes, and of the rights to them.
	certificateName = charttest.Release + "-certificate"
	// kcpOnly are values for no gates of the cluster.
	kcpOnly = "kubernetes: {enabled: false}\nkcp: {enabled: true, kubeconfigSecret: kcp, install: {enabled: true, kubeconfigSecret: admin}}\n"
)

// named returns the object of a kind and a name, and whether there is one.
func named[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) (T, bool) {
	t.Helper()
	return find[T](t, slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return o.GetName() != name }), kind)
}

// TestTheCertificateIsSelfManagedByDefault compares all that there is for it with a list.
func TestTheCertificateIsSelfManagedByDefault(t *testing.T) {
	own := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{certificateName}, Verbs: []string{"get", "update"}}
	create := rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}}
	configurations := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{resource}, ResourceNames: []string{charttest.Release}, Verbs: []string{"get", "patch"}}
	}
	secret := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{certificateName}, Verbs: verbs}
	}
	flags := []string{
		"--certificate-secret=" + charttest.Namespace + "/" + certificateName,
		"--certificate-dns-names=warrantgate.warrantgate-system.svc,warrantgate.warrantgate-system.svc.cluster.local,warrantgate.example.com",
		"--certificate-duration=48h",
	}
	for name, tc := range map[string]struct {
		values          string
		wantRole        []rbacv1.PolicyRule
		wantClusterRole []rbacv1.PolicyRule
		wantFlags       []string
		wantJob         string
	}{
		"on Kubernetes, with an audit": { // which brings the rights to read Secrets and to make a Lease
			values:          cloudSigma,
			wantRole:        []rbacv1.PolicyRule{secret("update"), own},
			wantClusterRole: []rbacv1.PolicyRule{configurations("validatingwebhookconfigurations")},
			wantFlags:       append(slices.Clone(flags), "--certificate-webhooks=warrantgate"),
		},
		"on Kubernetes, without an audit": {
			values:          keystoneOnly,
			wantRole:        []rbacv1.PolicyRule{secret("update"), create, own},
			wantClusterRole: []rbacv1.PolicyRule{configurations("validatingwebhookconfigurations")},
			wantFlags:       append(slices.Clone(flags), "--certificate-webhooks=warrantgate"),
		},
		"on Kubernetes, with policies only": {
			values: "config: {machine: {mode: Off}, audit: {mode: Off}, cluster: {impersonation: {mode: Off}}, " +
				"keystonePolicy: {selector: {matchLabels: {a: b}}}}\n",
			wantRole:        []rbacv1.PolicyRule{secret("get", "update"), create, own},
			wantClusterRole: []rbacv1.PolicyRule{configurations("validatingwebhookconfigurations")},
			wantFlags:       append(slices.Clone(flags), "--certificate-webhooks=warrantgate"),
		},
		"on Kubernetes, with a mutating gate": {
			values:          "config: {machine: {mode: Off}, audit: {mode: Off}, controllerManager: {selector: {matchLabels: {a: b}}}}\n",
			wantRole:        []rbacv1.PolicyRule{secret("update"), create, own},
			wantClusterRole: []rbacv1.PolicyRule{configurations("mutatingwebhookconfigurations"), configurations("validatingwebhookconfigurations")},
			wantFlags:       append(slices.Clone(flags), "--certificate-webhooks=warrantgate"),
		},
		"next to a kcp": {
			values:    kcpOnly,
			wantRole:  []rbacv1.PolicyRule{secret("get", "update"), create, own},
			wantFlags: append(slices.Clone(flags), "--certificate-kubeconfig=/etc/warrantgate/kubernetes/kubeconfig"),
			wantJob:   "--self-managed-certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := template(t, tc.values+"certificates: {extraDNSNames: [warrantgate.example.com], selfManaged: {duration: 48h}}\n")
			kept, exists := named[corev1.Secret](t, rendered.Objects, "Secret", certificateName)
			if !exists || kept.Type != certificates.SecretType || len(kept.Data)+len(kept.StringData) > 0 {
				t.Errorf("the Secret: %t, %s with %d keys, want one of type %s without data", exists, kept.Type, len(kept.Data), certificates.SecretType)
			}
			role, _ := named[rbacv1.Role](t, rendered.Objects, "Role", certificateName)
			clusterRole, _ := named[rbacv1.ClusterRole](t, rendered.Objects, "ClusterRole", certificateName)
			if diff := cmp.Diff([][]rbacv1.PolicyRule{tc.wantRole, tc.wantClusterRole}, [][]rbacv1.PolicyRule{role.Rules, clusterRole.Rules}); diff != "" {
				t.Errorf("rules in the namespace and in the cluster (-want +got):\n%s", diff)
			}
			subjects(t, rendered.Objects, len(tc.wantClusterRole) > 0)
			if _, exists := named[map[string]any](t, rendered.Hooks, "Lease", certificateName); !exists {
				t.Error("the Lease is not taken out")
			}
			servedWith(t, rendered.Objects, tc.wantFlags)
			if job := strings.Join(jobs(t, rendered)["warrantgate-kcp-install"], " "); !strings.Contains(job, tc.wantJob) || strings.Contains(job, "--ca-file") {
				t.Errorf("the Job registers with %s", job)
			}
		})
	}
}

func subjects(t *testing.T, objects []*unstructured.Unstructured, inCluster bool) {
	t.Helper()
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: charttest.Namespace, Name: charttest.Release}}
	binding, _ := named[rbacv1.RoleBinding](t, objects, "RoleBinding", certificateName)
	if diff := cmp.Diff([]any{want, certificateName}, []any{binding.Subjects, binding.RoleRef.Name}); diff != "" {
		t.Errorf("binding in the namespace (-want +got):\n%s", diff)
	}
	clusterBinding, exists := named[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", certificateName)
	if exists != inCluster {
		t.Errorf("binding in the cluster: %t, want %t", exists, inCluster)
	}
	if diff := cmp.Diff([]any{want, certificateName}, []any{clusterBinding.Subjects, clusterBinding.RoleRef.Name}); inCluster && diff != "" {
		t.Errorf("binding in the cluster (-want +got):\n%s", diff)
	}
}

// servedWith holds that the pods have the flags and a token, and mount no certificate.
func servedWith(t *testing.T, objects []*unstructured.Unstructured, want []string) {
	t.Helper()
	deployment, _ := find[appsv1.Deployment](t, objects, "Deployment")
	var got []string
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--certificate-") || strings.HasPrefix(arg, "--tls-") {
			got = append(got, arg)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	token := false
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Name == "tls" {
			t.Error("a certificate is mounted")
		}
		token = token || volume.Name == "kubernetes"
	}
	file, _ := find[corev1.ConfigMap](t, objects, "ConfigMap")
	if !token || file.Data["kubeconfig"] == "" {
		t.Error("the pods have no token, or no kubeconfig")
	}
}

// TestOthersCertificates holds that nothing is there for warrantgate's own where there is another.
func TestOthersCertificates(t *testing.T) {
	for name, tc := range map[string]struct{ values, wantBundle string }{
		"cert-manager's":  {keystoneOnly + "certificates: {certManager: {enabled: true}}\n", ""},
		"the operator's":  {certificate + keystoneOnly, "-----BEGIN CERTIFICATE-----"},
		"of a kcp's only": {certificate + kcpOnly, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := template(t, tc.values)
			for _, object := range append(rendered.Objects, rendered.Hooks...) {
				text, err := object.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				for _, unwanted := range []string{certificateName, "--certificate-", "--self-managed-certificate", string(certificates.SecretType)} {
					if strings.Contains(string(text), unwanted) {
						t.Errorf("%s %s has %s", object.GetKind(), object.GetName(), unwanted)
					}
				}
			}
			var configuration admissionregistrationv1.ValidatingWebhookConfiguration
			for _, object := range rendered.Objects {
				if object.GetKind() == "ValidatingWebhookConfiguration" {
					if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &configuration); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, hook := range configuration.Webhooks {
				if got := string(hook.ClientConfig.CABundle); got != tc.wantBundle {
					t.Errorf("webhook %s trusts %q, want %q", hook.Name, got, tc.wantBundle)
				}
			}
		})
	}
}
