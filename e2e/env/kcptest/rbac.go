package kcptest

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/access"
)

// User is the subject of a user, or of a service account by its global name.
func User(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// Group is the subject of a group.
func Group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

// ServiceAccountSubject is the subject of a service account of the workspace that contains the binding.
func ServiceAccountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// Rule allows verbs on resources of one API group.
func Rule(group string, resources, verbs []string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// AccessRule allows a user to enter a workspace.
func AccessRule() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}}
}

// WorkspacesRule allows a user to create, read, change and delete Workspaces.
func WorkspacesRule() rbacv1.PolicyRule {
	return Rule("tenancy.kcp.io", []string{"workspaces"}, []string{"create", "get", "list", "watch", "update", "patch", "delete"})
}

// UseTypesRule allows a user to create workspaces of every type that the workspace defines. Every user may use the type universal of
// root.
func UseTypesRule() rbacv1.PolicyRule {
	return Rule("tenancy.kcp.io", []string{"workspacetypes"}, []string{"use"})
}

// BindRule allows a user to bind one APIExport.
func BindRule(export string) rbacv1.PolicyRule {
	rule := Rule("apis.kcp.io", []string{"apiexports"}, []string{"bind"})
	rule.ResourceNames = []string{export}
	return rule
}

// CreatorRules allow a user to create workspaces.
func CreatorRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{AccessRule(), WorkspacesRule(), UseTypesRule()}
}

// Grant grants permissions to a subject in the workspace of config, an administrator. It waits until they are active: kcp's authorizer
// follows its storage with a short delay. No other permission is active without AccessRule, so Grant waits until ctx ends unless that rule
// is among the rules or was granted before.
func Grant(ctx context.Context, config *rest.Config, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) error {
	c, err := NewClient(config)
	if err != nil {
		return err
	}
	if err := access.Grant(ctx, c, subject, rules...); err != nil {
		return fmt.Errorf("permissions of %s at %s: %w", subject.Name, config.Host, err)
	}
	return nil
}
