//go:build e2e

package sharded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// The provider's workspace is on the root shard. Each shard has a virtual workspace of its APIExport, with the objects of that shard only.
var _ = Describe("On several shards, a provider", func() {
	It("has each machine evaluated with the cluster of its own workspace, and the audit reads all shards, also while one has no workspace that binds the APIExport", func(ctx SpecContext) {
		cloud, err := cloudsigmatest.Start(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cloud.Stop)
		incident, err := cloud.Incident()
		Expect(err).NotTo(HaveOccurred())
		startProvider(ctx, cloud, incident.Client)

		for _, of := range []struct { // their clusters and machines have the same names
			shard        string
			user, other  cloudsigmatest.User
			own, foreign cloudsigmatest.Server
		}{
			{kcptest.SecondShard, incident.User, incident.Other, incident.Created, incident.Stale},
			{kcptest.RootShard, incident.Other, incident.User, incident.Stale, incident.Sibling},
		} {
			name := "capcs-on-" + of.shard
			create(ctx, kcp.Admin("root"), name, of.shard)
			suite.WaitReady(ctx, kcp.Admin("root"), name)
			consumer := kcp.Admin("root:" + name)
			Expect(kcptest.Bind(ctx, consumer, providerPath, export, infrastructure.WithKind("CloudSigmaMachine"))).To(Succeed())
			c := suite.UnstructuredClient(consumer)
			machine := object("CloudSigmaMachine", map[string]any{})
			canary := machine.DeepCopy()
			Expect(unstructured.SetNestedField(canary.Object, "cloudsigma://no-uuid", "spec", "providerID")).To(Succeed())
			Eventually(ctx, func() error { return c.Create(ctx, canary.DeepCopy(), client.DryRunAll) }).Should(MatchError(ContainSubstring("machine.warrantgate.dev")))
			Eventually(ctx, func() error { // until it can check the permission
				return c.Create(ctx, object("CloudSigmaCluster", map[string]any{"region": incident.Region, "userEmail": of.user.Email}))
			}).Should(Succeed())
			Expect(c.Create(ctx, machine)).To(Succeed())

			claim := func(server cloudsigmatest.Server) error {
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"instanceID":%q}}`, server.UUID))
				return c.Status().Patch(ctx, machine.DeepCopy(), patch)
			}
			err = claim(of.foreign)
			Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue(), "%s: %v", of.shard, err)
			Expect(err).To(MatchError(And(ContainSubstring(of.user.Email), Not(ContainSubstring(of.other.Email)))))
			Expect(claim(of.own)).To(Succeed())

			cloud.RemoveServer(of.own.UUID)
			Eventually(ctx, func() ([]string, error) {
				events := &corev1.EventList{}
				err := c.List(ctx, events)
				var messages []string
				for i := range events.Items {
					if events.Items[i].InvolvedObject.UID == machine.GetUID() {
						messages = append(messages, events.Items[i].Message)
					}
				}
				return messages, err
			}).Should(ContainElement(HavePrefix("Audit: there is no instance " + of.own.UUID)))
		}
	}, SpecTimeout(specTimeout))
})

const providerPath, export = "root:capcs", "capcs"

var infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// startProvider makes the provider's workspace, and starts a warrantgate whose gates it calls and whose audit runs every second.
func startProvider(ctx context.Context, cloud *cloudsigmatest.Cloud, as cloudsigmatest.Client) {
	GinkgoHelper()
	create(ctx, kcp.Admin("root"), "capcs", kcptest.RootShard)
	suite.WaitReady(ctx, kcp.Admin("root"), "capcs")
	crds, err := kubetest.CRDs("CloudSigmaMachine", "CloudSigmaCluster")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Export(ctx, kcp.Admin(providerPath), export, crds...)).To(Succeed())

	secretFile := filepath.Join(kcp.Dir(), "client-secret")
	Expect(os.WriteFile(secretFile, []byte(as.Secret), 0o600)).To(Succeed())
	caFile, err := cloud.CAFile(kcp.Dir())
	Expect(err).NotTo(HaveOccurred())
	guard, err := kcptest.NewWarrantgate(ctx, kcp.Server, kcptest.WarrantgateOptions{
		Configuration: fmt.Sprintf("apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\n"+
			"cloudSigma: {api: %q, serviceProviderAPI: %q, caFile: %q}\n"+
			"audit: {interval: 1s, requestsPerSecond: 1000, providers: [{workspace: %q, apiExport: %s}]}\n",
			cloud.APITemplate(), cloud.ServiceProviderTemplate(), caFile, providerPath, export),
		Args: []string{"--impersonation-enabled", "--oauth-url=" + cloud.OAuthURL(), "--client-id=" + as.ID, "--client-secret-file=" + secretFile},
	})
	Expect(err).NotTo(HaveOccurred())
	_, err = gate.InstallOnly(ctx, "--config="+guard.ConfigFile()) // the permissions that the audit needs
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := kcp.KubeconfigFile("capcs-admin", kcp.Admin(providerPath))
	Expect(err).NotTo(HaveOccurred())
	args := slices.Concat([]string{"install", "provider", "--kubeconfig=" + kubeconfig, "--config=" + guard.ConfigFile(), "--shard-context=system:admin"}, guard.InstallArgs())
	for _, shard := range kcp.ShardKubeconfigs() {
		args = append(args, "--shard-kubeconfig="+shard)
	}
	output, err := gate.Run(ctx, args...)
	Expect(err).NotTo(HaveOccurred(), output)
	Expect(guard.Start(ctx)).To(Succeed())
	DeferCleanup(guard.Stop)
}

// object is an object of the cluster pool.
func object(kind string, spec map[string]any) *unstructured.Unstructured {
	o := suite.NewObject(infrastructure.WithKind(kind), "default", "pool")
	o.Object["spec"] = spec
	o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "pool"})
	return o
}
