//go:build e2e

package repair_test

import (
	"bytes"
	"context"
	"os"
	"time"

	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

var (
	// manyDuringOutage is the number of workspaces that service accounts create while no warrantgate runs.
	manyDuringOutage = volume.Of(5, 30)
	// outage is the time without a replica after kcp has tried to make all of them. kcp retries after longer and longer intervals.
	outage = time.Duration(volume.Of(0, 60)) * time.Second
)

const (
	// longestReady limits each step: kcp retries denied requests with exponential backoff. If a busy machine does not set a workspace up while
	// the repair waits for it, kcp before v0.32 reconciles it again only after a fifth of its age, up to ten minutes.
	longestReady = 12 * time.Minute
	// outageSpecTimeout limits the whole spec.
	outageSpecTimeout = 20 * time.Minute
)

// All replicas are down, and service accounts still create workspaces, whose owner no admission policy rewrites. The state of these
// workspaces depends on how the rewrite is registered. Once a replica runs again, all become Ready in any case.
var _ = Describe("after an outage of all replicas", Ordered, Serial, func() {
	var w *kcptest.Warrantgate

	BeforeAll(func(ctx SpecContext) {
		var err error
		w, err = kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{
			Configuration: withGates, Kubeconfig: reading, Args: []string{"--logical-cluster-kubeconfig=" + writing},
		})
		Expect(err).NotTo(HaveOccurred())
		// This suite has the webhooks off in the other specs.
		DeferCleanup(func(ctx SpecContext) {
			off, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{Configuration: withoutGates})
			Expect(err).NotTo(HaveOccurred())
			_, err = off.InstallOnly(ctx, "--user="+account)
			Expect(err).NotTo(HaveOccurred())
			awaitUnguarded(ctx)
		}, NodeTimeout(2*specTimeout))
	}, NodeTimeout(2*specTimeout))

	DescribeTable("the workspaces of service accounts become Ready", func(
		ctx SpecContext, lost func(context.Context), during func(context.Context, place), how func(context.Context, place, *kcptest.Warrantgate),
	) {
		p := newPlace(ctx)
		_, err := w.Install(ctx, "--user="+account, "--rewrite=Webhook")
		Expect(err).NotTo(HaveOccurred())
		lost(ctx)
		createMany(ctx, p, manyDuringOutage)
		during(ctx, p)
		Consistently(ctx, phaseOf(p, childName(0))).WithTimeout(outage).
			ShouldNot(Equal(corev1alpha1.LogicalClusterPhaseReady), "no replica could rewrite or repair it")

		Expect(w.Start(ctx)).To(Succeed())
		DeferCleanup(w.Stop)
		for i := range manyDuringOutage {
			waitPhase(ctx, p, childName(i), corev1alpha1.LogicalClusterPhaseReady)
		}
		expectOwned(ctx, p, manyDuringOutage)
		how(ctx, p, w)
	},
		Entry("with failurePolicy Fail: they wait without a logical cluster, and are rewritten by the webhook", nothing, waitUnscheduled, rewritten, SpecTimeout(outageSpecTimeout)),
		Entry("with failurePolicy Ignore: they get a logical cluster with an owner that kcp cannot act as, and are repaired", ignoreFailures, waitStuck, wantRepaired, SpecTimeout(outageSpecTimeout)),
	)
})

// withGates has the default gates, and a repair with a short repair.after.
const withGates = `apiVersion: config.warrantgate.dev/v1beta1
kind: GateConfiguration
repair: {after: 2s}
`

func nothing(context.Context) {}

// ignoreFailures makes kcp continue if the webhook does not respond, as in mode Warn.
func ignoreFailures(ctx context.Context) {
	GinkgoHelper()
	root := suite.KCPClient(kcp.Admin("root"))
	hooks := rewriteHooks()
	Expect(root.Get(ctx, client.ObjectKeyFromObject(hooks), hooks)).To(Succeed())
	for i := range hooks.Webhooks {
		hooks.Webhooks[i].FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
	}
	Expect(root.Update(ctx, hooks)).To(Succeed())
	awaitUnguarded(ctx)
}

func rewriteHooks() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"}}
}

// awaitUnguarded waits until kcp observes that the webhook was removed, a moment after the change.
func awaitUnguarded(ctx context.Context) {
	GinkgoHelper()
	p := newPlace(ctx)
	suite.CreateWorkspace(ctx, p.bot, "probe")
	p.WaitInitializing(ctx, "probe")
}

func waitPhase(ctx context.Context, p place, name string, phase corev1alpha1.LogicalClusterPhaseType) {
	GinkgoHelper()
	Eventually(ctx, phaseOf(p, name)).WithTimeout(longestReady).Should(Equal(phase), name)
}

// phaseOf returns the phase of a workspace.
func phaseOf(p place, name string) func(context.Context) (corev1alpha1.LogicalClusterPhaseType, error) {
	return func(ctx context.Context) (corev1alpha1.LogicalClusterPhaseType, error) {
		ws, err := kcptest.GetWorkspace(ctx, p.Admin(), name)
		if err != nil {
			return "", err
		}
		return ws.Status.Phase, nil
	}
}

// waitUnscheduled waits until kcp has tried to schedule each workspace, and was denied.
func waitUnscheduled(ctx context.Context, p place) {
	GinkgoHelper()
	for i := range manyDuringOutage {
		name := childName(i)
		Eventually(ctx, func() (int, error) {
			ws, err := kcptest.GetWorkspace(ctx, p.Admin(), name)
			if err == nil && ws.Spec.Cluster != "" {
				return 0, StopTrying("workspace " + name + " has a logical cluster, although no replica could rewrite its owner")
			}
			return denials(p.Cluster + "|" + name)
		}).WithTimeout(longestReady).Should(BeNumerically(">", 0), name)
	}
}

// denials is the number of updates of Workspaces in kcp's log that its scheduler could not make because no replica answered.
func denials(key string) (int, error) {
	log, err := os.ReadFile(kcp.LogFile())
	if err != nil {
		return 0, err
	}
	count := 0
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(key)) && bytes.Contains(line, []byte(`failed calling webhook`)) {
			count++
		}
	}
	return count, nil
}

// waitStuck waits until kcp has tried to initialize each workspace as its owner, and was denied.
func waitStuck(ctx context.Context, p place) {
	GinkgoHelper()
	for i := range manyDuringOutage {
		p.waitDenied(ctx, childName(i))
	}
}

// rewritten expects that each workspace records that its owner was rewritten when kcp scheduled it.
func rewritten(ctx context.Context, p place, _ *kcptest.Warrantgate) {
	GinkgoHelper()
	for i := range manyDuringOutage {
		ws, err := kcptest.GetWorkspace(ctx, p.Admin(), childName(i))
		Expect(err).NotTo(HaveOccurred())
		Expect(ws.Annotations).To(HaveKeyWithValue(kcptest.CreatedByAnnotation, p.Cluster+":default:bot"), ws.Name)
	}
}

// wantRepaired expects warrantgate to have repaired that number of workspaces since its restart.
func wantRepaired(ctx context.Context, _ place, w *kcptest.Warrantgate) {
	GinkgoHelper()
	Expect(repairedBy(ctx, w)).To(BeNumerically(">=", manyDuringOutage))
}

// expectOwned expects that each workspace belongs to the service account only.
func expectOwned(ctx context.Context, p place, count int) {
	GinkgoHelper()
	for i := range count {
		ws, err := kcptest.GetWorkspace(ctx, p.Admin(), childName(i))
		Expect(err).NotTo(HaveOccurred())
		// kcp writes workspace-admin for the new owner with a delay.
		Eventually(ctx, adminsOf).WithArguments(ctx, ws).Should(ConsistOf(p.GlobalName("bot")))
		suite.ExpectAtHome(ctx, p.bot, ws.Spec.Cluster)
	}
}
