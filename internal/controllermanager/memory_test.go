package controllermanager_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/controllermanager"
)

// A tenant can send a pod template of 3 MiB. Its check must not need much memory, nor time in proportion to the square of its parts, because
// other tenants share both.
func TestLargePodsNeedLittle(t *testing.T) {
	const mostMemory = 128 << 20
	many := func(count int, add func(c *corev1.Container, i int)) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) {
			for i := range count {
				add(&p.Containers[0], i)
			}
		}
	}
	for name, tc := range map[string]struct {
		modify func(*corev1.PodSpec)
		reason string
	}{
		"dollars and references that do not end": {reason: "FlagNotAllowed", modify: func(p *corev1.PodSpec) {
			p.Containers[0].Args = []string{strings.Repeat("$a", 400_000), strings.Repeat("$(", 400_000)}
		}},
		"many wrong flags": {reason: "PodTemplateTooLarge", modify: many(100_000, func(c *corev1.Container, _ int) { c.Args = append(c.Args, "--region=x") })},
		"many wrong variables": {reason: "PodTemplateTooLarge", modify: many(50_000, func(c *corev1.Container, _ int) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "CLOUDSIGMA_REGION", Value: "x"})
		})},
		"many containers":               {reason: "PodTemplateTooLarge", modify: func(p *corev1.PodSpec) { p.Containers = append(p.Containers, make([]corev1.Container, 100_000)...) }},
		"many init containers":          {reason: "PodTemplateTooLarge", modify: func(p *corev1.PodSpec) { p.InitContainers = make([]corev1.Container, 100_000) }},
		"many variables of another one": {reason: "PodTemplateTooLarge", modify: func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{Env: make([]corev1.EnvVar, 50_000)}} }},
		"many words of an exec handler": {reason: "PodTemplateTooLarge", modify: func(p *corev1.PodSpec) {
			p.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: make([]string, 100_000)}}}
		}},
		"many mounts and volumes": {reason: "PodTemplateTooLarge", modify: func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "init"}}
			for i := range 20_000 {
				p.Volumes = append(p.Volumes, corev1.Volume{Name: fmt.Sprintf("volume-%06d", i)})
				p.InitContainers[0].VolumeMounts = append(p.InitContainers[0].VolumeMounts, corev1.VolumeMount{Name: fmt.Sprintf("mounts-%06d", i)})
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := controllermanager.Workload{Namespace: "ns", Name: "manager", Labels: map[string]string{label: "metal"}, Pod: pod().PodSpec}
			tc.modify(&w.Pod)
			o := objects{t: t, account: metal.Account, keys: []string{"oauth-url", "client-id", "client-secret"}, found: true}
			config := v1beta1.ControllerManager{ClusterNameLabel: label, SecretName: secret, Container: "ccm"}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			result, err := controllermanager.Check(t.Context(), config, o, w)
			runtime.ReadMemStats(&after)
			if needed := after.TotalAlloc - before.TotalAlloc; needed > mostMemory {
				t.Errorf("the check needs %d MiB, more than %d", needed>>20, mostMemory>>20)
			}
			var reasons []string
			for _, problem := range result.Problems {
				reasons = append(reasons, problem.Reason)
			}
			if err != nil || len(reasons) > 10 || strings.Join(reasons, " ") != tc.reason {
				t.Errorf("%d problems, %v, want only %q", len(reasons), err, tc.reason)
			}
		})
	}
}
