//go:build e2e

package chartkcp_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testing returns the output of the pod of "helm test" that fails, or an error if it does not. It skips the other pod.
func (w *world) testing(ctx context.Context, pod string) func() (string, error) {
	return func() (string, error) {
		if err := w.helm(ctx, "test", "--filter=name="+pod+",name=warrantgate-test"); err == nil {
			return "", fmt.Errorf("the test passed: %s", w.kubelet.Output(pod))
		}
		left := &corev1.Pod{}
		if err := w.host.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, left); err != nil {
			return "", fmt.Errorf("a test that failed has to be kept: %w", err)
		}
		return w.kubelet.Output(pod), nil
	}
}

// awaitCalled waits until both API servers call warrantgate, a moment after the installation of the webhook configurations. It sends the
// requests of "helm test" as the administrators.
func (w *world) awaitCalled(ctx context.Context) {
	GinkgoHelper()
	config := filepath.Join(w.api.Dir(), "serve", "config", "config.yaml")
	for _, args := range [][]string{
		{"kubernetes", "--kubeconfig=" + w.api.AdminKubeconfig()}, {"kcp", "--kubeconfig=" + w.kcp.AdminKubeconfig(), "--context=root"},
	} {
		Eventually(func() error {
			out, err := exec.CommandContext(ctx, w.kubelet.Binary, append([]string{"check", "admission", "--config=" + config}, args...)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}).WithContext(ctx).Should(Succeed())
	}
}
