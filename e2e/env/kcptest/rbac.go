package kcptest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "kcptest-"}, Rules: rules}
	if err := c.Create(ctx, role); err != nil {
		return fmt.Errorf("create role: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{subject},
	}
	if err := c.Create(ctx, binding); err != nil {
		return fmt.Errorf("bind role to %s: %w", subject.Name, err)
	}
	for _, rule := range rules {
		if err := waitReviewed(ctx, c, subject, rule, rule.Verbs[0], true); err != nil {
			return fmt.Errorf("permissions of %s at %s: %w", subject.Name, config.Host, err)
		}
	}
	return nil
}

// waitReviewed waits until a request that a rule allows is allowed for a subject, or denied. The authorizer follows the storage with a delay.
func waitReviewed(ctx context.Context, c client.Client, subject rbacv1.Subject, rule rbacv1.PolicyRule, verb string, want bool) error {
	spec := subjectOf(subject)
	if len(rule.NonResourceURLs) > 0 {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: verb}
	} else {
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: verb, Group: rule.APIGroups[0], Version: "*", Resource: resource, Subresource: subresource,
			Namespace: metav1.NamespaceDefault, Name: strings.Join(rule.ResourceNames, ""),
		}
	}
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		if err := c.Create(ctx, review); err != nil {
			return false, err
		}
		last = fmt.Errorf("%s is allowed: %t, %s", verb, review.Status.Allowed, review.Status.Reason)
		return review.Status.Allowed == want, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func subjectOf(subject rbacv1.Subject) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: subject.Name, Groups: []string{user.AllAuthenticated}}
	switch subject.Kind {
	case rbacv1.GroupKind:
		spec.User, spec.Groups = "kcptest", append(spec.Groups, subject.Name)
	case rbacv1.ServiceAccountKind:
		spec.User = serviceaccount.MakeUsername(subject.Namespace, subject.Name)
		spec.Groups = append(spec.Groups, serviceaccount.MakeGroupNames(subject.Namespace)...)
	}
	return spec
}
