//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// Guarantee 3, the part of clusters: the identity of the provider is part of the claims of its machines. The attacker may
// impersonate two users, and has every permission in its namespace.
var _ = Describe("the identity of a cluster", func() {
	const holds = "MachinesHoldInstances"
	type story struct {
		tenant
		world           *kubeWorld
		first, second   cloudsigmatest.User
		cluster, member *unstructured.Unstructured
		server          cloudsigmatest.Server
	}
	// begin creates the cluster "pool" of the first user, with a machine that names a server of this user.
	begin := func(ctx SpecContext, byRef bool) story {
		GinkgoHelper()
		w := kube(ctx)
		s := story{world: w, tenant: w.editor(ctx, w.namespace(ctx))}
		s.first, s.second = w.user("first-"+s.namespace+"@example.com"), w.user("second-"+s.namespace+"@example.com")
		w.permit(ctx, s.name, s.first.Email, s.second.Email)
		s.server = w.server(s.first, "worker")
		s.cluster = newCluster(s.namespace, "pool", s.first.Email)
		if byRef {
			Expect(s.client.Create(ctx, userSecret(s.namespace, s.first.Email))).To(Succeed())
			s.cluster = newObject(clusterKind, s.namespace, "pool", map[string]any{"region": region, "userRef": map[string]any{"name": "user"}})
		}
		Expect(s.client.Create(ctx, s.cluster.DeepCopy())).To(Succeed())
		s.member = newMachine(s.namespace, "worker", "pool", map[string]any{"providerID": "cloudsigma://" + s.server.UUID})
		Expect(s.client.Create(ctx, s.member)).To(Succeed())
		return s
	}
	denied := func(s story, err error, whom string) {
		GinkgoHelper()
		Expect(apierrors.HasStatusCause(err, holds)).To(BeTrue(), "%v", err)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("machines of cluster %q name instances that do not belong to %s in region %q: CloudSigmaMachine %q (%s)",
			"pool", whom, region, "worker", s.server.UUID))))
	}

	It("cannot change while its machines name instances of the current user", func(ctx SpecContext) {
		s := begin(ctx, false)
		second := fmt.Sprintf("user %q", s.second.Email)
		denied(s, patchSpec(ctx, s.client, s.cluster, fmt.Sprintf(`{"userEmail":%q}`, s.second.Email)), second)

		By("with a Secret")
		Expect(s.client.Create(ctx, userSecret(s.namespace, s.second.Email))).To(Succeed())
		denied(s, patchSpec(ctx, s.client, s.cluster, `{"userEmail":null,"userRef":{"name":"user"}}`), second)

		By("with deletion and creation of a cluster with the same name")
		Expect(s.client.Delete(ctx, s.cluster.DeepCopy())).To(Succeed())
		denied(s, s.client.Create(ctx, newCluster(s.namespace, "pool", s.second.Email)), second)
		Expect(s.client.Create(ctx, newCluster(s.namespace, "pool", s.first.Email))).To(Succeed())

		By("with a cluster that names no user in between")
		Expect(patchSpec(ctx, s.client, s.cluster, `{"userEmail":null}`)).To(Succeed())
		denied(s, patchSpec(ctx, s.client, s.cluster, fmt.Sprintf(`{"userEmail":%q}`, s.second.Email)), second)

		By("after the machine is deleted, the change is admitted")
		Expect(s.client.Delete(ctx, s.member)).To(Succeed())
		Expect(patchSpec(ctx, s.client, s.cluster, fmt.Sprintf(`{"userEmail":%q}`, s.second.Email))).To(Succeed())
	}, SpecTimeout(startTimeout))

	It("cannot move to a region without the instances of its machines", func(ctx SpecContext) {
		s := begin(ctx, false)
		err := patchSpec(ctx, s.client, s.cluster, `{"region":"zrh"}`)
		Expect(apierrors.HasStatusCause(err, holds)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("do not belong to user %q in region %q", s.first.Email, "zrh"))))
	}, SpecTimeout(startTimeout))

	It("cannot change with the Secret that names its user", func(ctx SpecContext) {
		s := begin(ctx, true)
		denied(s, s.client.Patch(ctx, userSecret(s.namespace, ""), emailIs(s.second.Email)), fmt.Sprintf("user %q", s.second.Email))
		By("with deletion and creation of the Secret")
		Expect(s.client.Delete(ctx, userSecret(s.namespace, ""))).To(Succeed())
		denied(s, s.client.Create(ctx, userSecret(s.namespace, s.second.Email)), fmt.Sprintf("user %q", s.second.Email))
	}, SpecTimeout(startTimeout))

	It("cannot change with a Secret of another namespace, and the denial does not name the owner of the machines", func(ctx SpecContext) {
		w := kube(ctx)
		victim, attacker := begin(ctx, false), w.editor(ctx, w.namespace(ctx))
		w.permit(ctx, attacker.name, victim.first.Email, victim.second.Email)
		Expect(attacker.client.Create(ctx, userSecret(attacker.namespace, victim.first.Email))).To(Succeed())
		err := patchSpec(ctx, w.admin, victim.cluster, fmt.Sprintf(`{"userEmail":null,"userRef":{"name":"user","namespace":%q}}`, attacker.namespace))
		Expect(err).NotTo(HaveOccurred())
		err = attacker.client.Patch(ctx, userSecret(attacker.namespace, ""), emailIs(victim.second.Email))
		Expect(apierrors.HasStatusCause(err, holds)).To(BeTrue(), "%v", err)
		for _, secret := range []string{victim.namespace + "/", `"` + victim.namespace + `"`, "worker", victim.server.UUID, region + `"`} {
			Expect(err.Error()).NotTo(ContainSubstring(secret))
		}
	}, SpecTimeout(startTimeout))

	It("can change to a user who owns the instances of its machines", func(ctx SpecContext) {
		s := begin(ctx, false)
		Expect(s.client.Delete(ctx, s.member)).To(Succeed())
		toSecond := fmt.Sprintf(`{"userEmail":%q}`, s.second.Email)
		Expect(patchSpec(ctx, s.client, s.cluster, toSecond)).To(Succeed())
		theirs := s.world.server(s.second, "worker")
		machine := newMachine(s.namespace, "worker", "pool", map[string]any{"providerID": "cloudsigma://" + theirs.UUID})
		Expect(s.client.Create(ctx, machine)).To(Succeed())
		Expect(patchSpec(ctx, s.client, s.cluster, `{"userEmail":null}`)).To(Succeed())
		Expect(patchSpec(ctx, s.client, s.cluster, toSecond)).To(Succeed())
	}, SpecTimeout(startTimeout))

	It("is reported if it changes at the same time as a machine names an instance of the current user", func(ctx SpecContext) {
		w := kube(ctx)
		attacker := w.editor(ctx, w.namespace(ctx))
		first, second := w.user("first-"+attacker.namespace+"@example.com"), w.user("second-"+attacker.namespace+"@example.com")
		w.permit(ctx, attacker.name, first.Email, second.Email)
		var both []string
		for i := range volume.Of(6, 20) {
			name := fmt.Sprintf("pool-%d", i)
			cluster, server := newCluster(attacker.namespace, name, first.Email), w.server(first, name)
			Expect(attacker.client.Create(ctx, cluster.DeepCopy())).To(Succeed())
			machine := newMachine(attacker.namespace, name, name, nil)
			Expect(attacker.client.Create(ctx, machine)).To(Succeed())
			var claimed, changed error
			var group sync.WaitGroup
			group.Go(func() {
				claimed = attacker.client.Patch(ctx, machine, client.RawPatch(types.MergePatchType,
					fmt.Appendf(nil, `{"spec":{"providerID":"cloudsigma://%s"}}`, server.UUID)))
			})
			group.Go(func() {
				changed = patchSpec(ctx, attacker.client, cluster, fmt.Sprintf(`{"userEmail":%q}`, second.Email))
			})
			group.Wait()
			if claimed == nil && changed == nil {
				both = append(both, name)
			}
		}
		AddReportEntry("pairs", fmt.Sprintf("both admitted: %d", len(both)), ReportEntryVisibilityAlways)
		for _, machine := range both {
			w.expectReported(ctx, attacker.namespace, machine, "InstanceNotOwned")
		}
	}, SpecTimeout(startTimeout))
})

// userSecret returns the Secret "user" that names a user.
func userSecret(namespace, email string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"}, Data: map[string][]byte{"userEmail": []byte(email)},
	}
}

// emailIs changes the user of a Secret.
func emailIs(email string) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"userEmail":%q}}`, email))
}

// patchSpec changes the spec of an object.
func patchSpec(ctx context.Context, c client.Client, object *unstructured.Unstructured, spec string) error {
	return c.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`)))
}
