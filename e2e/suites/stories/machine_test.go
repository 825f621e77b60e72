//go:build e2e

package stories_test

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// A machine cannot name a server of another user than its provider acts as. The audit reports wrong machines, and orphaned servers.
var _ = Describe("Machine ownership", func() {
	It("admits a server of the cluster's user, by its instance ID and by its provider ID", func(ctx SpecContext) {
		t := begin(ctx)
		id := t.server("worker")
		machine := t.machine(ctx)
		Expect(claim(ctx, t.client, machine, id)).To(Succeed())
		Expect(instanceID(ctx, machine)).To(Equal(id))
		Expect(t.client.Create(ctx, newMachine(t.namespace, "second", clusterName, t.server("second")))).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("denies a server of another user, and names what the user owns under that name, but not the other user", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		own, stale := t.server("worker"), other.server("worker")
		machine := t.machine(ctx)
		err := claim(ctx, t.client, machine, stale)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, "InstanceNotOwned")).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(
			ContainSubstring(stale), ContainSubstring(t.user.Email), ContainSubstring(t.user.UUID), ContainSubstring(own), ContainSubstring("403"),
			Not(ContainSubstring(other.user.Email)), Not(ContainSubstring(other.user.UUID)),
		)))
		Expect(instanceID(ctx, machine)).To(BeEmpty())

		By("kubectl describe shows it")
		Eventually(describeObject).WithArguments(machine).Should(And(
			MatchRegexp(`(?m)^ +Warning +InstanceNotOwned .*`+stale+`.*`+t.user.Email), Not(ContainSubstring(other.user.Email))))
	}, SpecTimeout(specTimeout))

	It("denies another user's server in place of the own one, and in the provider ID", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		machine, stale := t.machine(ctx), other.server("worker")
		own := t.server("worker")
		Expect(claim(ctx, t.client, machine, own)).To(Succeed())
		Expect(apierrors.IsForbidden(claim(ctx, t.client, machine, stale))).To(BeTrue())
		Expect(instanceID(ctx, machine)).To(Equal(own))
		Expect(apierrors.IsForbidden(t.client.Create(ctx, newMachine(t.namespace, "second", clusterName, stale)))).To(BeTrue())
	}, SpecTimeout(specTimeout))

	It("denies a server that does not exist", func(ctx SpecContext) {
		t := begin(ctx)
		err := claim(ctx, t.client, t.machine(ctx), uuid.NewString())
		Expect(apierrors.HasStatusCause(err, "InstanceNotFound")).To(BeTrue(), "%v", err)
	}, SpecTimeout(specTimeout))

	It("denies a provider ID that names no server", func(ctx SpecContext) {
		t := begin(ctx)
		err := t.client.Create(ctx, newMachine(t.namespace, "worker", clusterName, "not-a-server"))
		Expect(apierrors.IsForbidden(err) || apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("not-a-server")))
	}, SpecTimeout(specTimeout))

	It("denies a machine without a cluster, and with a cluster of another name", func(ctx SpecContext) {
		t := begin(ctx)
		for _, cluster := range []string{"", "lost"} {
			err := t.client.Create(ctx, newMachine(t.namespace, "worker", cluster, t.server("worker")))
			Expect(err).To(MatchError(ContainSubstring("warrantgate.dev")))
		}
	}, SpecTimeout(specTimeout))

	It("denies a move of the machine to a cluster of another user", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		machine := t.machine(ctx)
		Expect(claim(ctx, t.client, machine, t.server("worker"))).To(Succeed())
		Expect(kube.admin.Create(ctx, newCluster(t.namespace, "others", other.user.Email))).To(Succeed())
		err := t.client.Patch(ctx, machine, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"others"}}}`)))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(specTimeout))

	It("is not asked about heartbeats, a cleared ID and deletions", func(ctx SpecContext) {
		t := begin(ctx)
		machine := t.machine(ctx)
		Expect(claim(ctx, t.client, machine, t.server("worker"))).To(Succeed())
		asked := func() float64 {
			GinkgoHelper()
			number, err := kube.gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": "machine-ownership"})
			Expect(err).NotTo(HaveOccurred())
			return number
		}
		before := asked()
		Expect(t.client.Status().Patch(ctx, machine, client.RawPatch(types.MergePatchType, []byte(`{"status":{"instanceState":"running"}}`)))).To(Succeed())
		Expect(claim(ctx, t.client, machine, "")).To(Succeed())
		Expect(t.client.Delete(ctx, machine)).To(Succeed())
		Expect(asked()).To(Equal(before))
	}, SpecTimeout(specTimeout))

	It("does nothing in a dry run but the denial", func(ctx SpecContext) {
		t, other := begin(ctx), begin(ctx)
		machine, tried, denied := t.machine(ctx), other.server("tried"), other.server("denied")
		Expect(apierrors.IsForbidden(t.client.Status().Patch(ctx, machine.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"status":{"instanceID":"`+tried+`"}}`)), client.DryRunAll))).To(BeTrue())
		Expect(apierrors.IsForbidden(claim(ctx, t.client, machine, denied))).To(BeTrue())
		// Events are written in order: the one of the second denial is the first one. The audit may have reported the denied claim by now.
		Eventually(describeObject).WithArguments(machine).Should(MatchRegexp(`(?m)^ +Warning +InstanceNotOwned .*` + denied))
		Expect(eventsOn(ctx, machine)).NotTo(ContainElement(ContainSubstring(tried)))
	}, SpecTimeout(specTimeout))

	It("admits the first claim of a machine while the cloud or warrantgate is away, and no other claim", func(ctx SpecContext) {
		t := begin(ctx)
		first, second := t.machine(ctx), newMachine(t.namespace, "second", clusterName, "")
		Expect(t.client.Create(ctx, second)).To(Succeed())
		own, another := t.server("worker"), t.server("second")

		By("the cloud")
		failure := kube.cloud.Fail(cloudsigmatest.Status(http.StatusInternalServerError), 0, cloudsigmatest.GetServer)
		DeferCleanup(failure.Release)
		Expect(claim(ctx, t.client, first, own)).To(Succeed())
		Eventually(describeObject).WithArguments(first).Should(MatchRegexp(`(?m)^ +Warning +OwnershipUnknown .*Admitted with a warning: .*` + own))
		err := claim(ctx, t.client, first, another)
		Expect(apierrors.IsServiceUnavailable(err) && apierrors.HasStatusCause(err, "OwnershipUnknown")).To(BeTrue(), "%v", err)
		failure.Release()

		By("warrantgate")
		Expect(kube.gate.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(kube.gate.Start(ctx)).To(Succeed()) })
		Expect(claim(ctx, t.client, second, another)).To(Succeed())
		Expect(claim(ctx, t.client, second, own)).To(MatchError(ContainSubstring("failed calling webhook")))
		Expect(instanceID(ctx, second)).To(Equal(another))
	}, SpecTimeout(specTimeout))

	It("reports an orphaned server as an Event on the cluster", func(ctx SpecContext) {
		t := begin(ctx)
		machine := t.machine(ctx)
		Expect(claim(ctx, t.client, machine, t.server("worker"))).To(Succeed())
		orphan := t.server("worker")
		Eventually(func() (string, error) {
			onMachine, err := describeObject(machine)
			if err != nil {
				return "", err
			}
			onCluster, err := describeObject(newCluster(t.namespace, clusterName, ""))
			return onMachine + onCluster, err
		}).Should(MatchRegexp(`(?m)^ +Warning +Instance(Duplicate|Orphaned) .*` + orphan))
	}, SpecTimeout(specTimeout))
})

// eventsOn returns the messages of the Events on an object.
func eventsOn(ctx context.Context, object client.Object) (messages []string) {
	GinkgoHelper()
	events := &corev1.EventList{}
	Expect(kube.admin.List(ctx, events, client.InNamespace(object.GetNamespace()))).To(Succeed())
	for i := range events.Items {
		if events.Items[i].InvolvedObject.UID == object.GetUID() {
			messages = append(messages, events.Items[i].Message)
		}
	}
	return messages
}
