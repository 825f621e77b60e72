package controllermanager

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// reasonTooLarge: the pod template has too many parts to be checked.
const reasonTooLarge = "PodTemplateTooLarge"

// maxParts is the maximum number of containers, variables, words of commands and arguments, volumes and mounts of a pod template. An API server
// passes templates of up to 3 MiB to a mutating webhook, and the time and memory for a check are shared by all tenants.
const maxParts = 1000

// tooLarge returns a problem if a pod template has more than maxParts parts.
func tooLarge(spec corev1.PodSpec) *Problem {
	if parts(spec) <= maxParts {
		return nil
	}
	return &Problem{Reason: reasonTooLarge, Field: podField().String(), Message: fmt.Sprintf(
		"its pod template has more than %d containers, variables, arguments, volumes and mounts, which are not checked; remove some", maxParts)}
}

// parts returns the number of parts of a pod template, or a number above maxParts.
func parts(spec corev1.PodSpec) int {
	parts := len(spec.Volumes) + len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers)
	if parts > maxParts {
		return parts
	}
	for _, volume := range spec.Volumes {
		if volume.Projected != nil {
			parts += len(volume.Projected.Sources)
		}
	}
	add := func(c corev1.Container) {
		parts += len(c.Command) + len(c.Args) + len(c.Env) + len(c.EnvFrom) + len(c.VolumeMounts)
	}
	for _, c := range spec.InitContainers {
		add(c)
	}
	for _, c := range spec.EphemeralContainers {
		add(corev1.Container(c.EphemeralContainerCommon))
	}
	for i, c := range spec.Containers {
		add(c)
		for _, h := range (Pod{PodSpec: spec, Manager: i}).handlers() {
			parts += len(h.command)
		}
	}
	return parts
}
