package controllermanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/cloudsigma"
)

const (
	// reasonGlobalCredentials: the pod has the credentials of all clusters.
	reasonGlobalCredentials = "GlobalCredentials" //nolint:gosec // a reason
	// globalSecret is the Secret with these credentials.
	globalSecret = "cloudsigma-credentials"
)

// globalCredentials finds the credentials of all clusters in the controller manager and in the volumes of its pod. The gate cannot
// fix this, because it does not know what else needs these credentials. The configured Secret for impersonation is never reported,
// even if it has the name of globalSecret.
func (p Pod) globalCredentials() *Problem {
	isGlobal := func(secret string) bool { return secret == globalSecret && secret != p.Secret }
	var where []string
	for _, variable := range p.manager().Env {
		ref := secretKey(variable)
		if isLegacy(variable) || ref != nil && isGlobal(ref.Name) {
			where = append(where, variable.Name)
		}
	}
	for _, source := range p.manager().EnvFrom {
		if source.SecretRef != nil && isGlobal(source.SecretRef.Name) {
			where = append(where, fmt.Sprintf("envFrom Secret %q", globalSecret))
		}
	}
	for _, volume := range p.Volumes {
		if slices.ContainsFunc(secretsOf(volume), isGlobal) {
			where = append(where, fmt.Sprintf("volume %q with Secret %q", volume.Name, globalSecret))
		}
	}
	if len(where) == 0 {
		return nil
	}
	return &Problem{
		Reason: reasonGlobalCredentials, Field: podField().String(),
		Message: fmt.Sprintf("it has the global credentials (%s), but impersonation is on, and with them the cloud does not show it "+
			"the servers of the cluster's user; remove them", strings.Join(where, ", ")),
	}
}

// isLegacy is true for a variable of the legacy credentials that is set.
func isLegacy(variable corev1.EnvVar) bool {
	switch variable.Name {
	case cloudsigma.EnvUsername, cloudsigma.EnvPassword:
		return isGiven(variable)
	case cloudsigma.EnvLegacyEnabled:
		return isOn(variable)
	}
	return false
}

func isGiven(variable corev1.EnvVar) bool { return variable.Value != "" || variable.ValueFrom != nil }

// isOn is true for a switch that is set, unless its value is false.
func isOn(variable corev1.EnvVar) bool {
	on, err := strconv.ParseBool(variable.Value)
	return isGiven(variable) && (on || err != nil)
}

// secretsOf returns the names of the Secrets that a volume mounts or passes to its driver.
func secretsOf(volume corev1.Volume) []string {
	var names []string
	if volume.Secret != nil {
		names = append(names, volume.Secret.SecretName)
	}
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			if source.Secret != nil {
				names = append(names, source.Secret.Name)
			}
		}
	}
	if volume.CSI != nil && volume.CSI.NodePublishSecretRef != nil {
		names = append(names, volume.CSI.NodePublishSecretRef.Name)
	}
	if volume.FlexVolume != nil && volume.FlexVolume.SecretRef != nil {
		names = append(names, volume.FlexVolume.SecretRef.Name)
	}
	return names
}

// isNobody reports whether nothing of the pods could give the controller manager an identity: no variable and no volume. Flags are checked apart.
// The provider's own manifest is like that.
func (p Pod) isNobody() bool {
	given := len(p.Volumes) > 0 || len(p.manager().Env) > 0 || len(p.manager().EnvFrom) > 0
	for _, c := range p.others() {
		given = given || len(c.container.Env) > 0 || len(c.container.EnvFrom) > 0
	}
	return !given
}
