package v1alpha1

import "warrantgate.dev/internal/config/v1beta1"

// Convert returns what c says in the current version. What c leaves out is left out there as well.
func (c GateConfiguration) Convert() v1beta1.GateConfiguration {
	converted := v1beta1.GateConfiguration{
		TypeMeta:   c.TypeMeta,
		Delegation: c.Delegation,
		Workspace:  c.Workspace,
		Repair: v1beta1.Repair{
			Mode: c.Repair.Mode, After: c.Repair.After, WorkspacesPerSecond: c.Repair.Rate,
		},
		Machine: c.Machine,
		Cluster: c.Cluster,
		ControllerManager: v1beta1.ControllerManager{
			Mode: c.ControllerManager.Mode, Selector: c.ControllerManager.Selector, Objects: c.ControllerManager.Objects,
			Container: c.ControllerManager.Container, Commands: c.ControllerManager.Commands,
			ClusterNameLabel: c.ControllerManager.ClusterNameLabel, SecretName: c.ControllerManager.Secret,
		},
		Audit: v1beta1.Audit{
			Mode: c.Audit.Mode, Interval: c.Audit.Interval, RequestsPerSecond: c.Audit.Rate,
		},
		CloudSigma:     c.CloudSigma,
		OpenStack:      c.OpenStack,
		KeystonePolicy: c.KeystonePolicy,
	}
	converted.APIVersion = v1beta1.APIVersion
	return converted
}

// FieldPath returns the path that a field of the current version has here, so that a mistake is found where it was written.
func FieldPath(current string) string {
	switch current {
	case "repair.workspacesPerSecond":
		return "repair.rate"
	case "audit.requestsPerSecond":
		return "audit.rate"
	case "controllerManager.secretName":
		return "controllerManager.secret"
	default:
		return current
	}
}
