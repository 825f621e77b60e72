//go:build e2e

package chartkcp_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

const (
	// providerPath is the workspace with the APIExport exportName, consumerPath one that binds it.
	providerPath, consumerPath = "root:capcs", "root:consumer"
	exportName                 = "capcs"
)

var infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// provide creates a provider and a workspace that binds its kinds, and adds the provider to the values of the chart.
func (w *world) provide(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{"capcs", "consumer"} {
		suite.ReadyWorkspace(ctx, w.kcp.Admin("root"), name)
	}
	crds, err := kubetest.CRDs("CloudSigmaMachine", "CloudSigmaCluster")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Export(ctx, w.kcp.Admin(providerPath), exportName, crds...)).To(Succeed())
	Expect(kcptest.Bind(ctx, w.kcp.Admin(consumerPath), providerPath, exportName, infrastructure.WithKind("CloudSigmaMachine"))).To(Succeed())
	Expect(kcptest.Grant(ctx, w.kcp.Admin(providerPath), kcptest.User("capcs"), kcptest.AccessRule(),
		kcptest.Rule("apis.kcp.io", []string{"apiexports/content"}, []string{"*"}))).To(Succeed())
	for name, data := range map[string]map[string][]byte{
		"capcs-admin": {"kubeconfig": w.kubeconfigOf("capcs-admin", w.kcp.Admin(providerPath))},
		// The writes of this suite cause no requests to a cloud.
		"cloudsigma": {"oauth-url": []byte("https://localhost:1"), "client-id": []byte("capcs"), "client-secret": []byte("secret")},
	} {
		Expect(w.host.Create(ctx, &corev1.Secret{ObjectMeta: w.named(name), Data: data})).To(Succeed())
	}
	values := map[string]any{}
	Expect(json.Unmarshal([]byte(w.values), &values)).To(Succeed())
	values["cloudSigma"] = map[string]any{"enabled": true, "secret": map[string]any{"name": "cloudsigma"}}
	maps.Copy(below(values, "config"), map[string]any{
		"audit": map[string]any{"interval": "1s"}, "cluster": map[string]any{}, "machine": map[string]any{}, "cloudSigma": map[string]any{"regions": []string{"next"}},
	})
	below(values, "kcp", "install")["providers"] = []map[string]any{
		{"kubeconfigSecret": "capcs-admin", "context": "capcs-admin", "workspace": providerPath, "apiExport": exportName},
	}
	changed, err := json.Marshal(values)
	Expect(err).NotTo(HaveOccurred())
	w.values = string(changed)
}

func below(values map[string]any, path ...string) map[string]any {
	GinkgoHelper()
	for _, name := range path {
		next, ok := values[name].(map[string]any)
		Expect(ok).To(BeTrue(), name)
		values = next
	}
	return values
}

// providerGate expects that the Job of the chart registered the gates of the provider: they deny writes of the provider's controller
// through the virtual workspace of its APIExport, and writes of a user in a consumer's workspace.
func (w *world) providerGate(ctx context.Context) {
	GinkgoHelper()
	Expect(w.kubelet.Output("warrantgate-kcp-install-provider-0")).To(And(
		ContainSubstring(`provider: ValidatingWebhookConfiguration "warrantgate" created`),
		ContainSubstring(`provider: ClusterRole "warrantgate-exports" created`)))
	c := suite.KCPClient(w.kcp.Admin(providerPath))
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	Expect(c.Get(ctx, client.ObjectKey{Name: exportName}, slice)).To(Succeed())
	Expect(slice.Status.APIExportEndpoints).To(HaveLen(1))
	consumer, err := kcptest.GetLogicalCluster(ctx, w.kcp.Admin(consumerPath))
	Expect(err).NotTo(HaveOccurred())
	controller := w.kcp.User(providerPath, "capcs")
	controller.Host = slice.Status.APIExportEndpoints[0].URL + "/clusters/" + consumer.Annotations["kcp.io/cluster"]
	for _, config := range []*rest.Config{controller, w.kcp.Admin(consumerPath)} {
		c := suite.UnstructuredClient(config)
		machine := suite.NewObject(infrastructure.WithKind("CloudSigmaMachine"), "default", "worker", suite.With("spec.providerID", "cloudsigma://no-uuid"))
		machine.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "pool"})
		Eventually(func() error { return c.Create(ctx, machine.DeepCopy(), client.DryRunAll) }).WithContext(ctx).
			Should(MatchError(ContainSubstring(`cloudsigmamachines.machine.warrantgate.dev`)), config.Host)
		err = c.Create(ctx, machine.DeepCopy())
		Expect(apierrors.HasStatusCause(err, "ProviderIDInvalid")).To(BeTrue(), "%v", err)
	}
}

// providerAudit expects that the audit reads the objects in the workspace of a consumer, and reports a cluster there that names no user. That
// needs no request to a cloud.
func (w *world) providerAudit(ctx context.Context) {
	GinkgoHelper()
	c := suite.UnstructuredClient(w.kcp.Admin(consumerPath))
	cluster := suite.NewObject(infrastructure.WithKind("CloudSigmaCluster"), "default", "without-user", suite.With("spec.region", "next"))
	Expect(c.Create(ctx, cluster)).To(Succeed())
	Eventually(process.Metric).WithContext(ctx).WithArguments(http.DefaultClient, "http://"+w.addresses[":8080"], "warrantgate_audit_findings",
		map[string]string{"platform": "kcp", "reason": "UserMissing"}).Should(BeNumerically("==", 1))
	Eventually(func() ([]corev1.Event, error) {
		found := &corev1.EventList{}
		err := c.List(ctx, found, client.InNamespace("default"))
		return found.Items, err
	}).WithContext(ctx).Should(ContainElement(And(
		HaveField("Reason", "UserMissing"), HaveField("InvolvedObject.Name", cluster.GetName()), HaveField("Message", HavePrefix("Audit: ")))))
}
