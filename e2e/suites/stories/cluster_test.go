//go:build e2e

package stories_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A cluster cannot act as a user that its author may not impersonate. The suite openstack tells the stories of delegated roles.
var _ = Describe("Impersonation and delegation", func() {
	It("admits a user that the author may impersonate", func(ctx SpecContext) {
		t := begin(ctx)
		Expect(t.client.Create(ctx, newCluster(t.namespace, "second", t.user.Email))).To(Succeed())
		Expect(t.client.Create(ctx, newKdcCluster(t.namespace, t.user.Email))).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("denies another user at the creation, with the permission that the author needs", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		err := t.client.Create(ctx, newCluster(t.namespace, "second", other.user.Email))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring(t.name), ContainSubstring("impersonate"), ContainSubstring(other.user.Email), ContainSubstring("spec.userEmail"))))
	}, SpecTimeout(specTimeout))

	It("denies a change to another user, also while warrantgate is down", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		cluster := newCluster(t.namespace, clusterName, "")
		change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"userEmail":"`+other.user.Email+`"}}`))
		Expect(apierrors.IsForbidden(t.client.Patch(ctx, cluster, change))).To(BeTrue())
		Expect(kube.gate.Stop()).To(Succeed())
		DeferCleanup(kube.gate.Start, NodeTimeout(startTimeout))
		Expect(t.client.Patch(ctx, cluster, change)).NotTo(Succeed())
	}, SpecTimeout(specTimeout))

	It("denies another host as the region, also while warrantgate is down", func(ctx SpecContext) {
		t := begin(ctx)
		cluster := newCluster(t.namespace, clusterName, "")
		change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"region":"@127.0.0.1:8443/#"}}`))
		Expect(t.client.Patch(ctx, cluster, change)).To(MatchError(ContainSubstring("spec.region")))
		Expect(kube.gate.Stop()).To(Succeed())
		DeferCleanup(kube.gate.Start, NodeTimeout(startTimeout))
		Expect(t.client.Patch(ctx, cluster, change)).To(MatchError(ContainSubstring("spec.region")))
	}, SpecTimeout(specTimeout))

	It("denies the owner of a KdcCluster, and kubectl describe shows it", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		cluster := newKdcCluster(t.namespace, t.user.Email)
		Expect(t.client.Create(ctx, cluster)).To(Succeed())
		err := t.client.Patch(ctx, cluster.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"cloudsigma.com/owner-email":"`+other.user.Email+`"}}}`)))
		Expect(apierrors.HasStatusCause(err, "ImpersonationNotAllowed")).To(BeTrue(), "%v", err)
		Eventually(describeObject).WithArguments(cluster).Should(MatchRegexp(`(?m)^ +Warning +ImpersonationNotAllowed .*` + other.user.Email))
	}, SpecTimeout(specTimeout))

	It("denies another user in the Secret of a cluster", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "owner"}, StringData: map[string]string{"userEmail": other.user.Email}}
		Expect(kube.admin.Create(ctx, secret)).To(Succeed())
		cluster := newCluster(t.namespace, "second", "")
		cluster.Object["spec"] = map[string]any{"region": region, "userRef": map[string]any{"name": "owner"}}
		err := t.client.Create(ctx, cluster)
		Expect(apierrors.HasStatusCause(err, "ImpersonationNotAllowed")).To(BeTrue(), "%v", err)
	}, SpecTimeout(specTimeout))

	It("denies another user as long as machines hold servers of the first one, with the list", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		id := t.server("worker")
		Expect(claim(ctx, t.client, t.machine(ctx), id)).To(Succeed())
		// An administrator may impersonate both.
		err := kube.admin.Patch(ctx, newCluster(t.namespace, clusterName, ""), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"userEmail":"`+other.user.Email+`"}}`)))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring("worker"), ContainSubstring(id))))
		Eventually(describeObject).WithArguments(newCluster(t.namespace, clusterName, "")).Should(ContainSubstring(id))
	}, SpecTimeout(specTimeout))

	It("never denies a deletion", func(ctx SpecContext) {
		t := begin(ctx)
		Expect(claim(ctx, t.client, t.machine(ctx), t.server("worker"))).To(Succeed())
		Expect(t.client.Delete(ctx, newCluster(t.namespace, clusterName, ""))).To(Succeed())
	}, SpecTimeout(specTimeout))
})
