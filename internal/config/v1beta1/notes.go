package v1beta1

import (
	"fmt"
	"slices"
)

// Notes returns what a valid configuration leaves out or denies, although its author may expect otherwise. SetDefaults has to be called before.
func Notes(config GateConfiguration) []string {
	var notes []string
	if cloud := config.CloudSigma; len(cloud.Regions) > 0 && !slices.Contains(cloud.Regions, cloud.DefaultRegion) {
		notes = append(notes, fmt.Sprintf("cloudSigma.defaultRegion is %q, which is not one of cloudSigma.regions: machines of clusters without spec.region are denied (RegionNotAllowed)",
			cloud.DefaultRegion))
	}
	const nothing = "%s has neither a selector nor objects, so the gate is off and evaluates nothing"
	if policy := config.KeystonePolicy; policy.Selector == nil && len(policy.Objects) == 0 && policy.IsConfigured() {
		notes = append(notes, fmt.Sprintf(nothing, "keystonePolicy"))
	}
	if manager := config.ControllerManager; manager.Selector == nil && len(manager.Objects) == 0 && manager.IsConfigured() {
		notes = append(notes, fmt.Sprintf(nothing, "controllerManager"))
	}
	return notes
}
