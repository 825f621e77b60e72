package controllermanager

import (
	"fmt"

	"warrantgate.dev/internal/cloudsigma"
)

const (
	// reasonCSIToken: the controller manager writes a token of the cluster's user into the tenant cluster, where its users can read it.
	reasonCSIToken = "CSITokenEnabled"
	// csiTokenFlag turns that on, as cloudsigma.EnvCSITokenEnabled does.
	csiTokenFlag = "enable-csi-token" //nolint:gosec // the name of a flag
	// csiTokenRule follows the name of the flag or the variable.
	csiTokenRule = "makes the controller manager write a token of the cluster's user into the tenant cluster, " +
		"which controllerManager.allowCSIToken of warrantgate's configuration does not allow"
)

// csiToken finds the variable that turns on the token for a CSI driver.
func (p Pod) csiToken() []Problem {
	if p.AllowCSIToken {
		return nil
	}
	var problems []Problem
	for i, variable := range p.manager().Env {
		if variable.Name == cloudsigma.EnvCSITokenEnabled && isOn(variable) {
			problems = append(problems, Problem{
				Reason: reasonCSIToken, Field: p.managerField().Child("env").Index(i).String(),
				Message: fmt.Sprintf("%s is set; it %s: remove the variable", variable.Name, csiTokenRule),
			})
		}
	}
	return problems
}
