package controllermanager_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Each kind of part counts once: a template with as many parts as the limit is checked, and one with one more is not.
func TestLimitOfParts(t *testing.T) {
	const most = 1000
	in := func(fill func(c *corev1.Container, count int)) func(*corev1.PodSpec, int) {
		return func(p *corev1.PodSpec, count int) {
			var c corev1.Container
			fill(&c, count-1) // the container counts, too
			p.InitContainers = append(p.InitContainers, c)
		}
	}
	for name, add := range map[string]func(p *corev1.PodSpec, count int){
		"volumes":              func(p *corev1.PodSpec, count int) { p.Volumes = make([]corev1.Volume, count) },
		"init containers":      func(p *corev1.PodSpec, count int) { p.InitContainers = make([]corev1.Container, count) },
		"ephemeral containers": func(p *corev1.PodSpec, count int) { p.EphemeralContainers = make([]corev1.EphemeralContainer, count) },
		"sources of a volume": func(p *corev1.PodSpec, count int) {
			p.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: make([]corev1.VolumeProjection, count-1)}}}}
		},
		"words of commands":    in(func(c *corev1.Container, count int) { c.Command = make([]string, count) }),
		"arguments":            in(func(c *corev1.Container, count int) { c.Args = make([]string, count) }),
		"variables":            in(func(c *corev1.Container, count int) { c.Env = make([]corev1.EnvVar, count) }),
		"sources of variables": in(func(c *corev1.Container, count int) { c.EnvFrom = make([]corev1.EnvFromSource, count) }),
		"mounts":               in(func(c *corev1.Container, count int) { c.VolumeMounts = make([]corev1.VolumeMount, count) }),
		"words of an exec handler": func(p *corev1.PodSpec, count int) {
			p.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: make([]string, count)}}}
		},
		"variables of an ephemeral": func(p *corev1.PodSpec, count int) {
			p.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: make([]corev1.EnvVar, count-1)}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for extra, want := range map[int]bool{0: false, 1: true} {
				spec := pod().PodSpec
				c := spec.Containers[0]
				spec.Containers = []corev1.Container{c}
				own := 1 + len(c.Command) + len(c.Args) + len(c.Env) + len(c.EnvFrom) + len(c.VolumeMounts)
				add(&spec, most-own+extra)
				if got := isTooLarge(t, spec); got != want {
					t.Errorf("%d parts: too large %t, want %t", most+extra, got, want)
				}
			}
		})
	}

	spec := pod().PodSpec
	spec.Volumes = make([]corev1.Volume, most-len(spec.Containers))
	if !isTooLarge(t, spec) {
		t.Error("with as many volumes and containers as the limit, the parts of the containers are not counted")
	}
}

// isTooLarge reports whether a pod template is rejected for its size, and that nothing else of it is checked then.
func isTooLarge(t *testing.T, spec corev1.PodSpec) bool {
	t.Helper()
	reasons := reasonsOf(t, spec)
	large := slices.Contains(reasons, "PodTemplateTooLarge")
	if large && len(reasons) > 1 {
		t.Errorf("problems %q, want only PodTemplateTooLarge", reasons)
	}
	return large
}
