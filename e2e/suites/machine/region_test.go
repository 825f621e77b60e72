//go:build e2e

package machine_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// regionField is the field with the region of a cluster. It is a place, because all writes of it are evaluated like those of a user.
var regionField = place{
	kind: clusterKind, path: []string{"spec", "region"}, field: "spec.region", webhook: "cloudsigmaclusters.region.warrantgate.dev", byPolicy: true,
}

// oddRegions are regions that would be another host, another path, or no label of a host name.
var oddRegions = []string{
	"@127.0.0.1:8443/#", "next.example.com/", "next.example.com", "..", "next/../zrh", "next@example.com", "next:443", "Next", " next", "next\n", "nëxt",
	strings.Repeat("a", 64),
}

// The provider puts the region of a cluster unchecked into the name of the host that gets the token of its service account.
var _ = Describe("a cluster's region", sharing, func() {
	It("cannot be another host or path, by any kind of write, by an author with every permission, also without machines", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		s.grant(ctx, who, permission{rule: rule("*", "*", "*")})
		for i, odd := range oddRegions {
			for j, way := range requests {
				name := fmt.Sprintf("cluster-%d-%d", i, j)
				if !way.creates {
					Expect(who.client.Create(ctx, regionField.naming(s.namespace, name, region))).To(Succeed())
				}
				expectRegionDenied(way.send(ctx, who.client, regionField, regionField.naming(s.namespace, name, odd)), name, s.namespace, odd)
			}
		}
		Expect(who.client.Create(ctx, regionField.naming(s.namespace, "numbered", "0-next"))).To(Succeed())
	}, SpecTimeout(timeout))

	It("is the provider's default if the cluster names none", func(ctx SpecContext) {
		const byDefault = "zrh"
		s := begin(ctx)
		Expect(s.client.Create(ctx, newObject(clusterKind, s.namespace, "somewhere", with("spec.userEmail", s.user.Email)))).To(Succeed())
		machine := newMachine(s.namespace, "node", "somewhere")
		Expect(s.client.Create(ctx, machine)).To(Succeed())
		err := s.setInstanceID(ctx, machine, s.cloud.AddServer(region, s.user, "node").UUID)
		Expect(apierrors.HasStatusCause(err, "InstanceNotFound")).To(BeTrue(), "%v", err)
		Expect(s.setInstanceID(ctx, machine, s.cloud.AddServer(byDefault, s.user, "node").UUID)).To(Succeed())

		By("also if it is named, which is no change")
		cluster := newObject(clusterKind, s.namespace, "somewhere")
		Expect(s.client.Patch(ctx, cluster.DeepCopy(), regionField.mergePatch(`"`+byDefault+`"`))).To(Succeed())
		Expect(s.client.Patch(ctx, cluster.DeepCopy(), regionField.mergePatch("null"))).To(Succeed())
		expectClusterDenial(s.client.Patch(ctx, cluster, regionField.mergePatch(`"`+region+`"`)), clusterWebhook, "MachinesHoldInstances", "spec.region")
	}, SpecTimeout(timeout))

	Describe("of a gate with a list of regions", Ordered, func() {
		var w *world
		BeforeAll(func(ctx SpecContext) {
			w = newWorld(ctx, setup{cloud: "  regions: [" + region + "]"})
		}, NodeTimeout(setupTimeout))

		It("is denied if the list does not contain it", func(ctx SpecContext) {
			s := w.begin(ctx)
			who := s.editor(ctx)
			err := who.client.Patch(ctx, newCluster(s.namespace, clusterName, ""), regionField.mergePatch(`"zrh"`))
			expectPolicyDenial(err, regionField.webhook, metav1.StatusReasonForbidden)
			Expect(messageOf(err)).To(Equal(fmt.Sprintf("spec.region of CloudSigmaCluster %q of namespace %q: region \"zrh\" is none of those configured (%s)",
				clusterName, s.namespace, region)))
		}, SpecTimeout(timeout))

		It("lets no machine name a server if the default is not in the list, without a request to the cloud", func(ctx SpecContext) {
			s := w.begin(ctx)
			Expect(s.client.Patch(ctx, newCluster(s.namespace, clusterName, ""), regionField.mergePatch("null"))).To(Succeed())
			machine := s.createMachine(ctx, "node")
			own := s.cloud.AddServer(region, s.user, "node").UUID
			err := s.setInstanceID(ctx, machine, own)
			Expect(apierrors.HasStatusCause(err, "RegionNotAllowed")).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring(`spec.region is empty, and the default (cloudSigma.defaultRegion): region "zrh" is none of those configured (next)`)))
			Expect(s.cloud.Count(cloudsigmatest.GetServer, s.user.Email)).To(BeZero())

			By("until the region is one of the list")
			s.setCluster(ctx, clusterName, "spec.region", region)
			Expect(s.setInstanceID(ctx, machine, own)).To(Succeed())
		}, SpecTimeout(timeout))
	})
})

// expectRegionDenied checks the denial of a region that is not valid.
func expectRegionDenied(err error, name, namespace, odd string) {
	GinkgoHelper()
	expectPolicyDenial(err, regionField.webhook, metav1.StatusReasonForbidden)
	Expect(messageOf(err)).To(HavePrefix("spec.region of CloudSigmaCluster %q of namespace %q: ", name, namespace))
	Expect(messageOf(err)).To(HaveSuffix(" is not a valid region: it must consist of 1 to 63 lower-case letters, digits and dashes, such as \"zrh\""), odd)
}
