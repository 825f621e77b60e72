package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
)

const hookVariables = `{{- $config := .Values.config -}}
{{- $exempt := dig "cluster" "exemptNamespaces" list $config -}}
`

// hookSettings are the settings that add webhooks, match conditions, or expressions to these.
var hookSettings = []setting{
	{gate(`$config.controllerManager "selected" true`), func(c *v1beta1.GateConfiguration) { c.ControllerManager.Mode = v1beta1.Off }},
	{gate(`$config.machine`), func(c *v1beta1.GateConfiguration) { c.Machine.Mode = v1beta1.Off }},
	{gate(`(dig "cluster" "impersonation" dict $config)`), func(c *v1beta1.GateConfiguration) { c.Cluster.Impersonation.Mode = v1beta1.Off }},
	{
		`{{- if eq (include "warrantgate.mode" (dict "part" (dig "cluster" "impersonation" dict $config))) "Enforce" }}`,
		func(c *v1beta1.GateConfiguration) { c.Cluster.Impersonation.Mode = v1beta1.Warn },
	},
	{gate(`(dig "cluster" "delegation" dict $config)`), func(c *v1beta1.GateConfiguration) { c.Cluster.Delegation.Mode = v1beta1.Off }},
	{gate(`$config.keystonePolicy "selected" true`), func(c *v1beta1.GateConfiguration) { c.KeystonePolicy.Mode = v1beta1.Off }},
	{`{{- if dig "openStack" "authURLs" list $config }}`, func(c *v1beta1.GateConfiguration) { c.OpenStack.AuthURLs = nil }},

	{`{{- with $config.controllerManager.selector }}`, func(c *v1beta1.GateConfiguration) { c.ControllerManager.Selector = nil }},
	{objects("controllerManager"), func(c *v1beta1.GateConfiguration) { c.ControllerManager.Objects = nil }},
	{`{{ range rest $names }}`, func(c *v1beta1.GateConfiguration) { c.ControllerManager.Objects = c.ControllerManager.Objects[:1] }},
	{`{{- with $config.keystonePolicy.selector }}`, func(c *v1beta1.GateConfiguration) { c.KeystonePolicy.Selector = nil }},
	{`{{ range include "warrantgate.labelKeys" . | fromJsonArray }}`, func(c *v1beta1.GateConfiguration) { c.KeystonePolicy.Selector = &metav1.LabelSelector{} }},
	{objects("keystonePolicy"), func(c *v1beta1.GateConfiguration) { c.KeystonePolicy.Objects = nil }},
	{`{{ range rest $names }}`, func(c *v1beta1.GateConfiguration) { c.KeystonePolicy.Objects = c.KeystonePolicy.Objects[:1] }},

	{`{{- range $kind := dig "machine" "kinds" list $config }}`, func(c *v1beta1.GateConfiguration) { c.Machine.Kinds = nil }},
	{`{{ if $kind.identityRefPath }}`, func(c *v1beta1.GateConfiguration) { c.Machine.Kinds[0].IdentityRefPath = "" }},
	{
		`{{- range $kind := dig "cluster" "impersonation" "kinds" list $config }}{{ $fields := include "warrantgate.userFields" $kind | fromJsonArray }}`,
		func(c *v1beta1.GateConfiguration) { c.Cluster.Impersonation.Kinds = nil },
	},
	{`{{ range rest $fields }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.Impersonation.Kinds[0].Annotations = nil }},
	{`{{- range $kind := dig "cluster" "delegation" "kinds" list $config }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.Delegation.Kinds = nil }},
	{`{{- if $exempt }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.ExemptNamespaces = nil }},
	{`{{ range rest $exempt }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.ExemptNamespaces = c.Cluster.ExemptNamespaces[:1] }},
}

// gate returns the action that begins the webhooks of a gate, if the gate is not off. part is its part of the values.
func gate(part string) string {
	return `{{- with include "warrantgate.failurePolicy" (dict "root" $ "part" ` + part + `) }}{{ $failurePolicy := . }}`
}

// objects returns the action that begins the webhook for the objects that a part of the values selects by name.
func objects(part string) string {
	return fmt.Sprintf(`{{- with include "warrantgate.objectNames" (dig %q "objects" list $config) | fromJsonArray }}{{ $names := . }}`, part)
}

// hooks returns the webhooks of the webhook configuration of a kind.
func hooks(kind string) func(v1beta1.GateConfiguration) ([]item, error) {
	return func(config v1beta1.GateConfiguration) ([]item, error) {
		policies, err := failurePolicies()
		if err != nil {
			return nil, err
		}
		var items []item
		for _, object := range gates.KubernetesRegistration(webhooks.Server{}, config) {
			if object.GetObjectKind().GroupVersionKind().Kind != kind {
				continue
			}
			encoded, err := json.Marshal(object)
			if err != nil {
				return nil, err
			}
			var configuration struct{ Webhooks []json.RawMessage }
			if err := json.Unmarshal(encoded, &configuration); err != nil {
				return nil, err
			}
			for _, encoded := range configuration.Webhooks {
				hook, err := hookOf(encoded, policies)
				if err != nil {
					return nil, err
				}
				items = append(items, hook)
			}
		}
		return items, nil
	}
}

// failurePolicies returns the failure policies of the webhooks, by their names: an action, or Ignore for those that never deny requests during an
// outage.
func failurePolicies() (map[string]string, error) {
	policies := map[string]string{}
	for _, setting := range []struct {
		unknown v1beta1.UnknownPolicy
		action  string
	}{{v1beta1.AdmitFirstClaims, "{failurePolicy}"}, {v1beta1.Deny, "{firstFailurePolicy}"}} {
		config := full()
		config.Machine.Unknown = setting.unknown
		for _, object := range gates.KubernetesRegistration(webhooks.Server{}, config) {
			encoded, err := json.Marshal(object)
			if err != nil {
				return nil, err
			}
			var configuration admissionregistrationv1.ValidatingWebhookConfiguration // a mutating one has the same fields
			if err := json.Unmarshal(encoded, &configuration); err != nil {
				return nil, err
			}
			for _, hook := range configuration.Webhooks {
				switch known := policies[hook.Name]; {
				case *hook.FailurePolicy == admissionregistrationv1.Ignore:
					policies[hook.Name] = string(admissionregistrationv1.Ignore)
				case known != "{failurePolicy}":
					policies[hook.Name] = setting.action
				}
			}
		}
	}
	return policies, nil
}

// hookOf returns a webhook with the actions for what only the chart knows: how API servers reach it, and what is excluded. Values determine the
// failure policies.
func hookOf(encoded []byte, failurePolicies map[string]string) (item, error) {
	var hook admissionregistrationv1.ValidatingWebhook // a mutating one has the same fields
	var others map[string]any
	if err := errors.Join(json.Unmarshal(encoded, &hook), json.Unmarshal(encoded, &others)); err != nil {
		return item{}, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "- name: %s\n  clientConfig: {path}%s{endOfPath}\n  matchConditions:\n", hook.Name, *hook.ClientConfig.URL)
	for _, condition := range hook.MatchConditions {
		fmt.Fprintf(&text, "  - name: %s\n    expression: |-\n      %s\n", condition.Name, condition.Expression)
	}
	text.WriteString("  namespaceSelector: {namespaceSelector}\n")
	if hook.ObjectSelector != nil {
		text.WriteString("  objectSelector: {objectSelector}\n")
	}
	fmt.Fprintf(&text, "  failurePolicy: %s\n", failurePolicies[hook.Name])
	for _, written := range []string{"name", "clientConfig", "matchConditions", "objectSelector", "failurePolicy"} {
		delete(others, written)
	}
	rest, err := yaml.Marshal(others)
	if err != nil {
		return item{}, err
	}
	text.WriteString("  " + strings.ReplaceAll(strings.TrimSuffix(string(rest), "\n"), "\n", "\n  ") + "\n")
	return item{key: hook.Name, text: text.String()}, nil
}
