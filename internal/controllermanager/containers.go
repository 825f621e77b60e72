package controllermanager

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Reasons of problems with other containers.
const (
	reasonSecretElsewhere = "SecretInAnotherContainer"
	reasonSharedProcesses = "ProcessesShared"
)

// other is another container than the controller manager.
type other struct {
	*field.Path
	container corev1.Container
	// runs is true if it runs at the same time.
	runs bool
}

// others returns all containers except the controller manager, including init containers and ephemeral containers.
func (p Pod) others() []other {
	var others []other
	add := func(list string, i int, c corev1.Container, runs bool) {
		others = append(others, other{podField().Child(list).Index(i), c, runs})
	}
	for i, c := range p.InitContainers {
		add("initContainers", i, c, c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways)
	}
	for i, c := range p.Containers {
		if i != p.Manager {
			add("containers", i, c, true)
		}
	}
	for i, c := range p.EphemeralContainers {
		add("ephemeralContainers", i, corev1.Container(c.EphemeralContainerCommon), true)
	}
	return others
}

// otherContainers finds containers with the credentials of the controller manager or of all clusters, and containers that could
// read them from its process. A container with the credentials can act as any user.
func (p Pod) otherContainers() []Problem {
	var problems []Problem
	shares := p.HostPID || p.ShareProcessNamespace != nil && *p.ShareProcessNamespace
	for _, c := range p.others() {
		if where := p.secretsIn(c); len(where) > 0 {
			problems = append(problems, Problem{
				Reason: reasonSecretElsewhere, Field: c.String(), Message: fmt.Sprintf(
					"container %.100q also has the credentials (%s), and could act as any user with them; only container %.100q may have them: "+
						"remove them from the other one", c.container.Name, strings.Join(where, ", "), p.manager().Name),
			})
		}
		if shares && c.runs {
			problems = append(problems, Problem{
				Reason: reasonSharedProcesses, Field: c.String(), Message: fmt.Sprintf(
					"container %.100q could read the credentials from the process of container %.100q, because they share processes; "+
						"remove shareProcessNamespace and hostPID", c.container.Name, p.manager().Name),
			})
		}
	}
	return problems
}

// secretsIn returns the fields of a container that refer to a Secret with credentials.
func (p Pod) secretsIn(c other) []string {
	holds := func(secret string) bool { return secret == p.Secret || secret == globalSecret }
	var where []string
	for _, variable := range c.container.Env {
		if ref := secretKey(variable); ref != nil && holds(ref.Name) {
			where = append(where, fmt.Sprintf("%.100s", variable.Name))
		}
	}
	for _, source := range c.container.EnvFrom {
		if source.SecretRef != nil && holds(source.SecretRef.Name) {
			where = append(where, fmt.Sprintf("envFrom Secret %q", source.SecretRef.Name))
		}
	}
	for _, mount := range c.container.VolumeMounts {
		if slices.ContainsFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name && slices.ContainsFunc(secretsOf(v), holds) }) {
			where = append(where, fmt.Sprintf("volume %.100q", mount.Name))
		}
	}
	return where
}

// handler is an exec handler: a command that the kubelet runs in the controller manager's container, with its environment.
type handler struct {
	*field.Path
	command []string
}

// handlers returns the exec handlers of probes and lifecycle events.
func (p Pod) handlers() []handler {
	c, at := p.manager(), p.managerField()
	var handlers []handler
	add := func(exec *corev1.ExecAction, path ...string) {
		if exec != nil {
			handlers = append(handlers, handler{at.Child(path[0], append(path[1:], "exec", "command")...), exec.Command})
		}
	}
	for name, probe := range map[string]*corev1.Probe{
		"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe,
	} {
		if probe != nil {
			add(probe.Exec, name)
		}
	}
	if c.Lifecycle != nil {
		for name, event := range map[string]*corev1.LifecycleHandler{"postStart": c.Lifecycle.PostStart, "preStop": c.Lifecycle.PreStop} {
			if event != nil {
				add(event.Exec, "lifecycle", name)
			}
		}
	}
	slices.SortFunc(handlers, func(a, b handler) int { return strings.Compare(a.String(), b.String()) })
	return handlers
}
