package controllermanager

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Reasons of problems with what the controller manager runs.
const (
	reasonCommand = "CommandReplaced"
	// reasonFlag: an argument is, or may be, a flag that is not allowed.
	reasonFlag = "FlagNotAllowed"
)

// harmless are flags of Kubernetes' cloud controller managers, of controller-runtime and of CloudSigma's controller manager, which does not start
// without --tenant-kubeconfig. None of them selects an identity or a region of the cloud, nor a file or URL with one.
var harmless = []string{
	"allocate-node-cidrs", "bind-address", "cloud-provider", "cluster-cidr", "cluster-name", "concurrent-node-syncs", "concurrent-service-syncs",
	"configure-cloud-routes", "controllers", "disable-lb-ip-pool", "feature-gates", "health-probe-bind-address", "kube-api-burst", "kube-api-qps", "kubeconfig",
	"leader-elect", "leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-resource-lock", "leader-elect-resource-name",
	"leader-elect-resource-namespace", "leader-elect-retry-period", "logging-format", "metrics-bind-address", "min-resync-period",
	"node-monitor-period", "node-status-update-frequency", "profiling", "route-reconciliation-period", "secure-port",
	"tenant-kubeconfig", "use-service-account-credentials", "v", "vmodule",
}

// programs finds commands that run another program than the entrypoint of the image, and flags that are not allowed: another program could act as any
// user with the credentials, and flags take precedence over the environment. The messages do not contain a command, because it can contain a secret.
func (p Pod) programs(commands, flags []string) []Problem {
	c, at := p.manager(), p.managerField()
	var problems []Problem
	switch {
	case len(c.Command) == 0:
	case slices.Contains(commands, c.Command[0]):
		problems = p.notAllowed(c.Command, 1, flags, at.Child("command"))
	default:
		problems = []Problem{{
			Reason: reasonCommand, Field: at.Child("command").String(), Message: "it has a command in place of the image's entrypoint, " +
				"which could act as any user with the credentials; remove it and put the flags into args, or add the first word of the command " +
				"to controllerManager.commands of warrantgate's configuration",
		}}
	}
	problems = append(problems, p.notAllowed(c.Args, 0, flags, at.Child("args"))...)
	for _, h := range p.handlers() {
		if len(h.command) > 0 && slices.Contains(commands, h.command[0]) {
			problems = append(problems, p.notAllowed(h.command, 1, flags, h.Path)...)
			continue
		}
		problems = append(problems, Problem{
			Reason: reasonCommand, Field: h.String(), Message: fmt.Sprintf("%s runs another command with the credentials, which could act as any user; "+
				"use httpGet, grpc or tcpSocket for a probe, and remove the command of a lifecycle event, or add its first word to "+
				"controllerManager.commands of warrantgate's configuration", h),
		})
	}
	return problems
}

// notAllowed finds flags in words, from the first one. It is unknown how the program parses them, so each word with a dash counts as a flag, also
// after "--" or another word. A word that begins with a variable could become any flag.
func (p Pod) notAllowed(words []string, first int, allowed []string, at *field.Path) []Problem {
	var problems []Problem
	for i := first; i < len(words); i++ {
		spelled, _, hasValue := strings.Cut(words[i], "=")
		name := strings.TrimLeft(spelled, "-")
		problem := Problem{Reason: reasonFlag, Field: at.Index(i).String()}
		switch isFlag := strings.HasPrefix(words[i], "-"); {
		case strings.HasPrefix(words[i], "$"), isFlag && strings.Contains(name, "$"):
			problem.Message = "an argument begins with a variable, so that it could be any flag; write it as --flag=$(VARIABLE)"
		case !isFlag, slices.Contains(harmless, name), slices.Contains(allowed, name), name == csiTokenFlag && p.AllowCSIToken:
			continue
		case name == csiTokenFlag:
			problem.Reason, problem.Message = reasonCSIToken, fmt.Sprintf("the flag --%s is set; it %s: remove the flag", name, csiTokenRule)
		default:
			problem.Message = fmt.Sprintf("the flag %.100s is not known to be harmless, and could select another identity; remove it, because warrantgate sets the "+
				"identity in the environment, or add it to controllerManager.flags of warrantgate's configuration", spelled)
		}
		problems = append(problems, problem)
		if !hasValue {
			i++ // it may be the value, which can be secret
		}
	}
	return problems
}
