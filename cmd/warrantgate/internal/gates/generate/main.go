// Generate prints the chart's templates for webhooks and RBAC rules, from those that "warrantgate install kubernetes" registers.
//
// It uses a configuration with all settings, which has placeholders as values, and removes one setting after the other. A webhook, a match
// condition, a part of an expression or an RBAC rule that is missing without a setting goes into a block of the template for that setting.
package main

import (
	"fmt"
	"os"

	"warrantgate.dev/internal/config/v1beta1"
)

// setting is a part of the configuration that adds to what is registered.
type setting struct {
	// open is the action of the template that precedes what the setting adds. It begins with "{{-" if that is in lines of its own.
	open string
	// remove removes the setting from a configuration.
	remove func(*v1beta1.GateConfiguration)
}

func main() {
	out, err := templates()
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate the templates of the chart:", err)
		os.Exit(1)
	}
	fmt.Print(out)
}

func templates() (string, error) {
	out := "{{/* Written by \"make generate\" from the Go code of the gates. Its helpers are in _hooks.tpl. */}}\n"
	for _, define := range []struct {
		name, variables string
		settings        []setting
		items           func(v1beta1.GateConfiguration) ([]item, error)
	}{
		{"mutatingHooks", hookVariables, hookSettings, hooks("MutatingWebhookConfiguration")},
		{"validatingHooks", hookVariables, hookSettings, hooks("ValidatingWebhookConfiguration")},
		{"clusterRules", ruleVariables, ruleSettings, rules("ClusterRole")},
		{"leaseRules", "", nil, rules("Role")},
	} {
		body, err := list(define.settings, define.items)
		if err != nil {
			return "", fmt.Errorf("%s: %w", define.name, err)
		}
		out += fmt.Sprintf("\n{{- define \"warrantgate.%s\" -}}\n%s%s{{- end -}}\n", define.name, define.variables, body)
	}
	return out, nil
}
