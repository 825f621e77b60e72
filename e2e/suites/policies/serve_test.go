//go:build e2e

package policies_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
	"warrantgate.dev/e2e/env/volume"
)

var (
	// manyServed is the number of workspaces that service accounts create while serve runs.
	manyServed = volume.Of(5, 20)
	// manyKilled is the number of workspaces that they create while serve is killed, after a third of them.
	manyKilled = volume.Of(20, 100)
	// roundTrips is how often the rewrite changes from the policy to the webhook and back.
	roundTrips = volume.Of(1, 2)
)

// serve runs in addition to the policies, and rewrites the owners that they cannot rewrite.
var _ = Describe("With serve besides the policies", Ordered, func() {
	var gate *kcptest.Warrantgate

	BeforeAll(func(ctx SpecContext) {
		if byPolicy {
			applyPolicies(ctx, kcp)
		}
		var err error
		gate, err = kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{})
		Expect(err).NotTo(HaveOccurred())
		suite.UninstallAtEnd(gate, specTimeout)
		output, err := gate.Install(ctx)
		Expect(err).NotTo(HaveOccurred())
		if byPolicy {
			Expect(output).To(ContainSubstring(`MutatingAdmissionPolicy "warrantgate-owner-rewrite" rewrites the owners of plain service accounts`))
		} else {
			Expect(output).To(ContainSubstring("This kcp has no MutatingAdmissionPolicies, which kcp has from v0.32 on: the webhook rewrites the owners of all service accounts."))
		}
		Expect(gate.Start(ctx)).To(Succeed())
		expectCalled(ctx, kcp)
	}, NodeTimeout(startTimeout))

	calls := func(ctx context.Context, name string) float64 {
		GinkgoHelper()
		value, err := gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"gate": name})
		Expect(err).NotTo(HaveOccurred())
		return value
	}

	It("no blocking webhook is called for service accounts, and each has its Event", func(ctx SpecContext) {
		h := newHome(ctx, kcp)
		rewrites, notices := calls(ctx, "owner-rewrite"), calls(ctx, "owner-notice")
		counted, err := gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"reason": "ServiceAccountRewritten"})
		Expect(err).NotTo(HaveOccurred())
		children := h.many(ctx, "child", manyServed, ignored, never)
		h.expectOwned(ctx, children)
		for _, c := range children {
			Eventually(ctx, h.Reasons).WithArguments(c.ws).Should(ConsistOf("Normal OwnerRewritten"), c.name)
		}
		if byPolicy {
			Expect(calls(ctx, "owner-rewrite")).To(Equal(rewrites), "a blocking webhook was called")
			Expect(calls(ctx, "owner-notice") - notices).To(BeNumerically(">=", manyServed))
		} else {
			Expect(calls(ctx, "owner-rewrite") - rewrites).To(BeNumerically(">=", manyServed))
		}
		now, err := gate.Metric(ctx, "warrantgate_admissions_total", map[string]string{"reason": "ServiceAccountRewritten"})
		Expect(err).NotTo(HaveOccurred())
		Expect(now - counted).To(BeNumerically(">=", manyServed))
	}, SpecTimeout(manyTimeout))

	It("no workspace waits for a serve that is killed while service accounts create workspaces", func(ctx SpecContext) {
		h := newHome(ctx, kcp)
		var created atomic.Int64
		var killed atomic.Pointer[time.Time]
		var once sync.Once
		count := func(int) {
			if created.Add(1) >= int64(manyKilled/3) && byPolicy {
				once.Do(func() {
					gate.Kill()
					now := time.Now()
					killed.Store(&now)
				})
			}
		}
		denied := func() float64 {
			GinkgoHelper()
			denials, err := kcp.Metric(ctx, "apiserver_admission_webhook_rejection_count", map[string]string{"error_type": "calling_webhook_error"})
			Expect(err).NotTo(HaveOccurred())
			return denials
		}
		before := denied()
		children := h.many(ctx, "child", manyKilled, count, never)
		if !byPolicy { // these need the webhook, as the specs of e2e/suites/workspace show
			return
		}
		DeferCleanup(func(ctx SpecContext) { Expect(gate.Start(ctx)).To(Succeed()) }, NodeTimeout(specTimeout))
		h.expectOwned(ctx, children)
		// kcp retries a request that is denied because no webhook answers, with exponential backoff.
		Expect(denied()).To(Equal(before), "kcp denied a request because serve did not run")
		if volume.All() {
			expectUndelayed(children, *killed.Load())
		}
	}, SpecTimeout(manyTimeout))

	// A stopped process accepts connections and does not respond, as if the network dropped its packets. kcp stops waiting after the timeout
	// in the webhook configuration, so the number of calls without a response limits the time that a workspace waits, also on a busy machine.
	It("a workspace waits at most twice for the timeout of the notice webhook if serve does not respond", func(ctx SpecContext) {
		if !byPolicy {
			return
		}
		h := newHome(ctx, kcp)
		unanswered := func() float64 {
			GinkgoHelper()
			calls, err := kcp.Metric(ctx, "apiserver_admission_webhook_fail_open_count", map[string]string{"name": "owner-notice.warrantgate.dev"})
			Expect(err).NotTo(HaveOccurred())
			return calls
		}
		before := unanswered()
		serve, err := os.FindProcess(gate.PID())
		Expect(err).NotTo(HaveOccurred())
		Expect(serve.Signal(syscall.SIGSTOP)).To(Succeed())
		DeferCleanup(func() error { return serve.Signal(syscall.SIGCONT) })
		children := h.many(ctx, "child", manyServed, ignored, never)
		h.expectOwned(ctx, children)
		for _, c := range children {
			Expect(c.ws.Annotations).To(HaveKeyWithValue("warrantgate.dev/rewritten-by", "policy"))
		}
		AddReportEntry("calls without a response", unanswered()-before)
		Expect(unanswered() - before).To(And(BeNumerically(">=", manyServed), BeNumerically("<=", 2*manyServed)))
	}, SpecTimeout(manyTimeout))

	It("no workspace is stuck or rewritten twice in a change from the webhook to the policy and back", func(ctx SpecContext) {
		h := newHome(ctx, kcp)
		type change struct{ rewrite, rewrittenBy string }
		var children []child
		for _, to := range slices.Repeat([]change{{"Webhook", ""}, {"Auto", "policy"}}, roundTrips) {
			if !byPolicy {
				to.rewrittenBy = ""
			}
			installed := make(chan error, 1)
			go func() {
				_, err := gate.InstallOnly(ctx, "--rewrite="+to.rewrite)
				installed <- err
			}()
			for changed := false; !changed; { // some workspaces in each state, and during the change
				round := h.many(ctx, fmt.Sprintf("child-%d", len(children)), abreast, ignored, never)
				changed = slices.ContainsFunc(round, func(c child) bool {
					return c.ws.Annotations["warrantgate.dev/rewritten-by"] == to.rewrittenBy
				})
				children = append(children, round...)
			}
			Expect(<-installed).NotTo(HaveOccurred())
		}
		h.expectOwned(ctx, children)
		byEach := map[string]int{}
		for _, c := range children {
			byEach[c.ws.Annotations["warrantgate.dev/rewritten-by"]]++
			Eventually(ctx, h.Reasons).WithArguments(c.ws).Should(ConsistOf("Normal OwnerRewritten"), c.name)
			h.expectOneWarrant(ctx, c)
		}
		AddReportEntry("workspaces by what rewrote them", fmt.Sprint(byEach))
		if byPolicy {
			Expect(byEach).To(And(HaveKeyWithValue("policy", BeNumerically(">", 0)), HaveKeyWithValue("", BeNumerically(">", 0))))
		}
	}, SpecTimeout(manyTimeout))

	It("check reports that nothing rewrites owners after the policy is deleted, and install restores it", func(ctx SpecContext) {
		if !byPolicy {
			return
		}
		policy := &unstructured.Unstructured{}
		policy.SetAPIVersion("admissionregistration.k8s.io/v1")
		policy.SetKind("MutatingAdmissionPolicy")
		policy.SetName("warrantgate-owner-rewrite")
		Expect(suite.KCPClient(kcp.Admin("root")).Delete(ctx, policy)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			output, code := run(ctx, kcp, "check", "admission", "kcp")
			g.Expect(code).To(Equal(1), output)
			g.Expect(output).To(ContainSubstring("warrantgate-owner-rewrite: NOT ACTIVE\n  nothing rewrites the owners of plain service accounts"))
		}).Should(Succeed())
		_, err := gate.InstallOnly(ctx)
		Expect(err).NotTo(HaveOccurred())
		output, code := run(ctx, kcp, "check", "admission", "kcp")
		Expect(code).To(Equal(0), output)
		Expect(output).To(ContainSubstring("warrantgate-owner-rewrite: ok"))
		h := newHome(ctx, kcp)
		h.expectOwned(ctx, h.many(ctx, "mended", 2, ignored, never))
	}, SpecTimeout(specTimeout))
})

// kcp serves the kind of the policies, and no admission plugin evaluates them. kcp has no flag --disable-admission-plugins; the feature
// gate has the same effect.
var _ = Describe("On a kcp whose admission plugin is disabled", func() {
	It("install says so, and with --rewrite=Webhook the webhook rewrites owners", func(ctx SpecContext) {
		const notEvaluated = "does not evaluate it. It may run with --feature-gates=MutatingAdmissionPolicy=false: install the webhooks then, with --rewrite=Webhook"
		kcp, byPolicy := startKCP(ctx, "--feature-gates=MutatingAdmissionPolicy=false")
		gate, err := kcptest.NewWarrantgate(ctx, kcp, kcptest.WarrantgateOptions{})
		Expect(err).NotTo(HaveOccurred())
		if byPolicy {
			output, code := run(ctx, kcp, "install", "kcp", "--policies-only", "--wait=5s")
			Expect(code).To(Equal(2), output)
			Expect(output).To(ContainSubstring(notEvaluated))
		}
		output, err := gate.Install(ctx, "--wait=5s")
		if byPolicy {
			Expect(err).To(HaveOccurred())
			Expect(output).To(ContainSubstring(notEvaluated))
			output, err = gate.Install(ctx, "--rewrite=Webhook")
			Expect(output).To(ContainSubstring(`root: MutatingAdmissionPolicy "warrantgate-owner-rewrite" deleted`))
		} else {
			Expect(output).To(ContainSubstring("This kcp has no MutatingAdmissionPolicies"))
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(gate.Start(ctx)).To(Succeed())
		DeferCleanup(func() error { return gate.Stop() })
		expectCalled(ctx, kcp)
		output, _ = run(ctx, kcp, "check", "admission", "kcp")
		Expect(output).To(ContainSubstring("warrantgate-owner-rewrite: not in use"))
		h := newHome(ctx, kcp)
		children := h.many(ctx, "child", 3, ignored, never)
		h.expectOwned(ctx, children)
		for _, c := range children {
			Expect(c.ws.Annotations).NotTo(HaveKey("warrantgate.dev/rewritten-by"))
			Eventually(ctx, h.Reasons).WithArguments(c.ws).Should(ConsistOf("Normal OwnerRewritten"), c.name)
		}
	}, SpecTimeout(2*startTimeout))
})

// expectUndelayed compares the times to Ready before and after serve was killed.
func expectUndelayed(children []child, killed time.Time) {
	GinkgoHelper()
	var before, after []time.Duration
	for _, c := range children {
		if c.created.Before(killed) {
			before = append(before, c.took)
		} else {
			after = append(after, c.took)
		}
	}
	slices.Sort(before)
	slices.Sort(after)
	AddReportEntry("median and longest time to Ready before", fmt.Sprint(before[len(before)/2], before[len(before)-1]))
	AddReportEntry("median and longest time to Ready after", fmt.Sprint(after[len(after)/2], after[len(after)-1]))
	// kcp becomes slower with each workspace, and the machine may be busy. The limit still detects a wait for a webhook.
	Expect(after[len(after)/2]).To(BeNumerically("<=", 2*before[len(before)/2]+time.Second))
	Expect(after[len(after)-1]).To(BeNumerically("<=", 2*before[len(before)-1]+5*time.Second))
}

// expectCalled waits until kcp calls the webhooks: a notice without a response is not sent again.
func expectCalled(ctx context.Context, kcp *kcptest.Server) {
	GinkgoHelper()
	Eventually(ctx, func() (string, error) {
		output, code := run(ctx, kcp, "check", "admission", "kcp")
		if code != 0 {
			return output, fmt.Errorf("exit code %d: %s", code, output)
		}
		return output, nil
	}).Should(ContainSubstring("owner-rewrite.warrantgate.dev: ok"))
}
