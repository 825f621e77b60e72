//go:build e2e

package chart_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/charts/charttest"
	"warrantgate.dev/e2e/env/podtest"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// An operator first installs the gates in a cluster in use with failurePolicy Ignore, until "helm test" shows that the API server
// calls them.
var _ = Describe("A release with failurePolicy Ignore", func() {
	It("passes helm test, and an upgrade then sets failurePolicy Fail", func(ctx SpecContext) {
		w := startWorld(ctx)
		w.addCloud(ctx)
		w.values["failurePolicy"] = "Ignore"
		former := failedOpen(ctx)
		w.install(ctx)
		kubelet := w.startKubelet(ctx)
		write := func() error {
			return w.admin.Create(ctx, policy(metav1.NamespaceDefault, "written", broken), client.DryRunAll)
		}
		// proven returns nil once "helm test" has passed.
		proven := func() error {
			const pod = "warrantgate-test-kubernetes"
			_, err := w.run(ctx, "test")
			output := kubelet.Output(pod)
			if err == nil && strings.Count(output, ": ok\n") != 3 {
				return fmt.Errorf("it passes without a result for each of three webhooks: %s", output)
			}
			if err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			return nil
		}

		By("while the pod does not run")
		Eventually(func() float64 { // until the API server calls the webhooks
			Expect(write()).To(Succeed())
			return failedOpen(ctx)
		}).WithContext(ctx).Should(BeNumerically(">", former))
		Expect(proven()).To(MatchError(And(ContainSubstring("NOT DENIED"), ContainSubstring("its failurePolicy: with Ignore"))))
		Expect(w.run(ctx, "get", "notes")).To(And(ContainSubstring("its gates are OPEN"),
			ContainSubstring("helm test warrantgate --namespace=warrantgate-system\n"), ContainSubstring("--set=failurePolicy=Fail\n")))

		By("while the pod runs")
		serve := w.pod.startReady(ctx, w.admin)
		Eventually(proven).WithContext(ctx).Should(Succeed())
		Expect(deniedByGate(write())).To(Succeed())

		By("after the pod has stopped")
		Expect(serve.Stop()).To(Succeed())
		Expect(write()).To(Succeed())

		By("upgrading to failurePolicy Fail")
		serve = w.pod.startReady(ctx, w.admin)
		w.upgrade(ctx, "--reuse-values", "--set=failurePolicy=Fail")
		Eventually(proven).WithContext(ctx).Should(Succeed())
		Expect(w.run(ctx, "get", "notes")).NotTo(Or(ContainSubstring("OPEN"), ContainSubstring("failurePolicy")))

		By("while the pod does not run, with failurePolicy Fail")
		Expect(serve.Stop()).To(Succeed())
		Eventually(write).Should(MatchError(ContainSubstring("failed calling webhook")))
	}, SpecTimeout(storyTimeout))
})

// failedOpen is the number of writes that the API server has admitted because it could not call a webhook.
func failedOpen(ctx context.Context) float64 {
	GinkgoHelper()
	administrator, err := rest.HTTPClientFor(api.Config())
	Expect(err).NotTo(HaveOccurred())
	count, err := process.Metric(ctx, administrator, strings.TrimSuffix(api.Config().Host, "/"), "apiserver_admission_webhook_fail_open_count", nil)
	Expect(err).NotTo(HaveOccurred())
	return count
}

// startKubelet runs the pods of "helm test" until the end of the spec or container that calls it.
func (w *world) startKubelet(ctx context.Context) *podtest.Kubelet {
	kubelet := &podtest.Kubelet{Client: w.admin, Namespace: namespace, Binary: w.pod.binary, Dir: filepath.Join(w.dir, "tests")}
	suite.InBackground(ctx, kubelet.Run)
	return kubelet
}

// run runs a helm command on the release, and returns its output.
func (w *world) run(ctx context.Context, command ...string) (string, error) {
	return charttest.Helm(ctx, "", append(command, release, "--namespace="+namespace, "--kubeconfig="+api.AdminKubeconfig())...)
}
