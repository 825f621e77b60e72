package main

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/cmd/warrantgate/internal/gates"
	"warrantgate.dev/internal/clusterapi"
	"warrantgate.dev/internal/config/v1beta1"
)

const ruleVariables = `{{- $config := .Values.config -}}
{{- $needs := include "warrantgate.needs" . | fromJson -}}
`

// ruleSettings are the settings that add RBAC rules. Several gates need the same.
var ruleSettings = []setting{
	{`{{- if $needs.clusters }}`, func(c *v1beta1.GateConfiguration) {
		for _, mode := range []*v1beta1.Mode{
			&c.Machine.Mode, &c.Audit.Mode, &c.Cluster.Impersonation.Mode, &c.Cluster.Delegation.Mode, &c.ControllerManager.Mode,
		} {
			*mode = v1beta1.Off
		}
	}},
	{`{{- if $needs.machines }}`, func(c *v1beta1.GateConfiguration) { c.Machine.Mode, c.Audit.Mode = v1beta1.Off, v1beta1.Off }},
	{`{{- if $needs.reviews }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.Impersonation.Mode = v1beta1.Off }},
	{`{{- if $needs.basePolicies }}`, func(c *v1beta1.GateConfiguration) { c.KeystonePolicy.Base = nil }},
	{`{{- range rest $needs.basePolicies }}`, func(c *v1beta1.GateConfiguration) { c.KeystonePolicy.Base = c.KeystonePolicy.Base[:1] }},
	{`{{- if dig "openStack" "authURLs" list $config }}`, func(c *v1beta1.GateConfiguration) { c.OpenStack.AuthURLs = nil }},
	{`{{- range $kind := dig "machine" "kinds" list $config }}`, func(c *v1beta1.GateConfiguration) { c.Machine.Kinds = nil }},
	{`{{- if $needs.references }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.Delegation.Mode = v1beta1.Off }},
	{`{{- range $kind := dig "cluster" "delegation" "kinds" list $config }}`, func(c *v1beta1.GateConfiguration) { c.Cluster.Delegation.Kinds = nil }},
}

// rules returns the rules of the role of a kind.
func rules(kind string) func(v1beta1.GateConfiguration) ([]item, error) {
	return func(config v1beta1.GateConfiguration) ([]item, error) {
		var rules []rbacv1.PolicyRule
		for _, object := range clusterapi.Roles(config, "", "", gates.AuditLease) {
			if role, is := object.(*rbacv1.ClusterRole); is && kind == "ClusterRole" {
				rules = append(rules, role.Rules...)
			}
			if role, is := object.(*rbacv1.Role); is && kind == "Role" {
				rules = append(rules, role.Rules...)
			}
		}
		items := make([]item, 0, len(rules))
		for _, rule := range rules {
			text, err := yaml.Marshal([]rbacv1.PolicyRule{rule})
			if err != nil {
				return nil, err
			}
			items = append(items, item{key: fmt.Sprint(rule.APIGroups, rule.Resources, rule.Verbs), text: string(text)})
		}
		return items, nil
	}
}
