package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RuleNames returns a name for each rule of a role: the role and everything that the rule allows. All names of a role are different.
func RuleNames(role string, rules []rbacv1.PolicyRule) []string {
	var names []string
	for _, rule := range rules {
		names = append(names, fmt.Sprintf("%s: %s %s %q", role, strings.Join(rule.Verbs, ","),
			strings.Join(slices.Concat(rule.NonResourceURLs, rule.Resources, rule.ResourceNames), " "), rule.APIGroups))
	}
	return names
}

// Grant grants permissions to a subject in the whole cluster, with the client of an administrator, and waits until they are active.
func Grant(ctx context.Context, c client.Client, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "granted-"}, Rules: rules}
	if err := c.Create(ctx, role); err != nil {
		return fmt.Errorf("create role: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{subject},
	}
	if err := c.Create(ctx, binding); err != nil {
		return fmt.Errorf("bind role: %w", err)
	}
	for _, rule := range rules {
		if err := AwaitReview(ctx, c, subject, rule, rule.Verbs[0], true); err != nil {
			return err
		}
	}
	return nil
}

// AwaitReview waits until a request that a rule allows is allowed for a subject, or denied. The authorizer follows the storage with a delay.
func AwaitReview(ctx context.Context, c client.Client, subject rbacv1.Subject, rule rbacv1.PolicyRule, verb string, want bool) error {
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
		spec.User, spec.Groups = "access", append(spec.Groups, subject.Name)
	case rbacv1.ServiceAccountKind:
		spec.User = serviceaccount.MakeUsername(subject.Namespace, subject.Name)
		spec.Groups = append(spec.Groups, serviceaccount.MakeGroupNames(subject.Namespace)...)
	}
	return spec
}
