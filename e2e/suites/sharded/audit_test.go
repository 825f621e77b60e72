//go:build e2e

package sharded_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

var _ = Describe("On several shards, the audit of a provider", func() {
	It("reads the machines of all shards, also while one has no workspace that binds the APIExport", func(ctx SpecContext) {
		const path, export = "root:capcs", "capcs"
		machineKind := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "CloudSigmaMachine"}
		create(ctx, kcp.Admin("root"), "capcs", kcptest.RootShard)
		waitReady(ctx, kcp.Admin("root"), "capcs")
		crds, err := kubetest.CRDs("CloudSigmaMachine", "CloudSigmaCluster")
		Expect(err).NotTo(HaveOccurred())
		Expect(kcptest.Export(ctx, kcp.Admin(path), export, crds...)).To(Succeed())

		cloud, err := cloudsigmatest.Start(ctx, cloudsigmatest.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cloud.Stop)
		secretFile := filepath.Join(kcp.Dir(), "client-secret")
		Expect(os.WriteFile(secretFile, []byte("secret"), 0o600)).To(Succeed())
		caFile, err := cloud.CAFile(kcp.Dir())
		Expect(err).NotTo(HaveOccurred())
		auditor, err := kcptest.NewWarrantgate(ctx, kcp.Server, kcptest.WarrantgateOptions{
			Configuration: fmt.Sprintf("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
				"cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}\nmachine: {mode: \"Off\"}\ncluster: {impersonation: {mode: \"Off\"}}\n"+
				"audit: {interval: 1s, providers: [{workspace: %q, apiExport: %s}]}\n", cloud.APITemplate(), cloud.ServiceProviderTemplate(), caFile, path, export),
			Args: []string{"--impersonation-enabled", "--oauth-url=" + cloud.OAuthURL(), "--client-id=auditor", "--client-secret-file=" + secretFile},
		})
		Expect(err).NotTo(HaveOccurred())
		_, err = gate.InstallOnly(ctx, "--config="+auditor.ConfigFile())
		Expect(err).NotTo(HaveOccurred())
		kubeconfig, err := kcp.KubeconfigFile("capcs-admin", kcp.Admin(path))
		Expect(err).NotTo(HaveOccurred())
		args := slices.Concat([]string{"install", "provider", "--kubeconfig=" + kubeconfig, "--config=" + auditor.ConfigFile(), "--shard-context=system:admin"}, gate.InstallArgs())
		for _, shard := range kcp.ShardKubeconfigs() {
			args = append(args, "--shard-kubeconfig="+shard)
		}
		output, err := gate.Run(ctx, args...)
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(auditor.Start(ctx)).To(Succeed())
		DeferCleanup(auditor.Stop)

		for _, shard := range []string{kcptest.SecondShard, kcptest.RootShard} {
			name := "capcs-on-" + shard
			create(ctx, kcp.Admin("root"), name, shard)
			waitReady(ctx, kcp.Admin("root"), name)
			consumer := kcp.Admin("root:" + name)
			Expect(kcptest.Bind(ctx, consumer, path, export, machineKind)).To(Succeed())
			c, err := client.New(consumer, client.Options{})
			Expect(err).NotTo(HaveOccurred())
			machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"providerID": "cloudsigma://11111111-2222-4333-8444-555555555555"}}}
			machine.SetGroupVersionKind(machineKind)
			machine.SetNamespace("default")
			machine.SetName("worker")
			Expect(c.Create(ctx, machine)).To(Succeed())
			Eventually(ctx, func() ([]string, error) {
				events := &corev1.EventList{}
				err := c.List(ctx, events)
				var reasons []string
				for i := range events.Items {
					if events.Items[i].InvolvedObject.UID == machine.GetUID() {
						reasons = append(reasons, events.Items[i].Reason)
					}
				}
				return reasons, err
			}).Should(ConsistOf("MachineWithoutCluster"))
		}
	}, SpecTimeout(specTimeout))
})
