//go:build e2e

package machine_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
})
