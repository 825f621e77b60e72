//go:build e2e

package machine_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A KdcCluster sets the user of its cloud controller manager, and its CloudSigmaCluster that of the provider. If they differ, the
// controller manager does not see the servers that the provider creates.
var _ = Describe("the owner of a KdcCluster who is not the user of its CloudSigmaCluster", sharing, func() {
	const actsAs = " of the same name: the cloud controller manager acts as the user of the KdcCluster and does not see the servers of the user " +
		"of the CloudSigmaCluster; set annotation cloudsigma.com/owner-email and spec.userEmail to the same user"

	It("causes a warning and an Event on the object that is written last", func(ctx SpecContext) {
		s := begin(ctx)
		c, recorder := s.warned()
		kdc := ownerAnnotation.naming(s.namespace, clusterName, "somebody-else@example.com")
		Expect(c.Create(ctx, kdc)).To(Succeed())
		field := `metadata.annotations[cloudsigma.com/owner-email] of KdcCluster "pool" of namespace "` + s.namespace + `": `
		text := field + "it names another user than spec.userEmail of CloudSigmaCluster" + actsAs
		Expect(recorder.TakeWarnings()).To(ConsistOf("OwnerEmailDiffers: " + text))
		Eventually(s.describe).WithArguments(kdc).Should(MatchRegexp(`Warning +OwnerEmailDiffers .*Admitted with a warning: metadata.annotations`))

		By("not after both name the same user")
		Expect(c.Patch(ctx, kdc, ownerAnnotation.mergePatch(`"`+s.user.Email+`"`))).To(Succeed())
		Expect(recorder.TakeWarnings()).To(BeEmpty())

		By("again after the cluster names another user")
		cluster := newCluster(s.namespace, clusterName, "")
		Expect(c.Patch(ctx, cluster, userEmailField.mergePatch(`"third@example.com"`))).To(Succeed())
		text = `spec.userEmail of CloudSigmaCluster "pool" of namespace "` + s.namespace +
			`": it names another user than metadata.annotations[cloudsigma.com/owner-email] of KdcCluster` + actsAs
		Expect(recorder.TakeWarnings()).To(ConsistOf("OwnerEmailDiffers: " + text))
		Eventually(s.describe).WithArguments(cluster).Should(MatchRegexp(`Warning +OwnerEmailDiffers .*Admitted with a warning: spec.userEmail`))
		Expect(s.named(ctx, userEmailField, cluster)).To(Equal("third@example.com"))
	}, SpecTimeout(timeout))

	It("is named by the older annotation only while the current one is not set", func(ctx SpecContext) {
		s := begin(ctx)
		c, recorder := s.warned()
		kdc := olderOwnerAnnotation.naming(s.namespace, clusterName, "somebody-else@example.com")
		Expect(c.Create(ctx, kdc)).To(Succeed())
		Expect(recorder.TakeWarnings()).To(ConsistOf(HavePrefix("OwnerEmailDiffers: metadata.annotations[kube-dc.com/owner-email] of KdcCluster ")))

		By("which takes precedence")
		Expect(c.Patch(ctx, kdc, ownerAnnotation.mergePatch(`"`+s.user.Email+`"`))).To(Succeed())
		Expect(recorder.TakeWarnings()).To(BeEmpty())
		Expect(c.Patch(ctx, kdc, olderOwnerAnnotation.mergePatch(`"third@example.com"`))).To(Succeed())
		Expect(recorder.TakeWarnings()).To(BeEmpty())

		By("until it is removed")
		Expect(c.Patch(ctx, kdc, ownerAnnotation.mergePatch("null"))).To(Succeed())
		Expect(recorder.TakeWarnings()).To(ConsistOf(HavePrefix("OwnerEmailDiffers: metadata.annotations[kube-dc.com/owner-email] of KdcCluster ")))
	}, SpecTimeout(timeout))

	It("causes only a warning in a dry run, without an Event", func(ctx SpecContext) {
		s := begin(ctx)
		c, recorder := s.warned()
		Expect(c.Create(ctx, ownerAnnotation.naming(s.namespace, clusterName, "somebody-else@example.com"), client.DryRunAll)).To(Succeed())
		Expect(recorder.TakeWarnings()).To(ConsistOf(HavePrefix("OwnerEmailDiffers: ")))
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kdcClusterKind)
		Expect(c.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
		Expect(list.Items).To(BeEmpty())
	}, SpecTimeout(timeout))
})
