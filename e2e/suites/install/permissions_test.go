//go:build e2e

package install_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

var _ = Describe("the user of serve", func() {
	It("may write Events, read the objects that a workspace needs, write the Lease in root, and nothing else", func(ctx SpecContext) {
		w := serve(ctx, "")
		install(ctx, w)

		for place, more := range map[string][]string{"root": {"create leases"}, "root:provider": nil} {
			want := sets.New(permissions(ctx, place, "another-user")...).Insert(
				"access /", "create events", "patch events", "create subjectaccessreviews", "get logicalclusters", "get workspaces", "patch workspaces",
				"get workspacetypes", "get apiexports", "list apibindings").Insert(more...)
			Expect(permissions(ctx, place, kcptest.WarrantgateUser)).To(ConsistOf(want.UnsortedList()), place)
		}
	}, SpecTimeout(specTimeout))
})

// permissions returns the permissions, of all relevant ones, of a user in a workspace. The user is only in the group system:authenticated.
func permissions(ctx context.Context, workspace, username string) []string {
	GinkgoHelper()
	c := suite.KCPClient(kcp.Admin(workspace))
	allowed := func(spec authorizationv1.SubjectAccessReviewSpec) bool {
		spec.User, spec.Groups = username, []string{"system:authenticated"}
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		Expect(c.Create(ctx, review)).To(Succeed())
		return review.Status.Allowed
	}
	var has []string
	if allowed(authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "access"}}) {
		has = append(has, "access /")
	}
	for group, resources := range map[string][]string{
		"":                             {"events", "secrets", "configmaps", "namespaces", "serviceaccounts", "users", "groups"},
		"tenancy.kcp.io":               {"workspaces", "workspacetypes"},
		"core.kcp.io":                  {"logicalclusters"},
		"apis.kcp.io":                  {"apibindings", "apiexports", "apiexportendpointslices"},
		"coordination.k8s.io":          {"leases"},
		"authorization.k8s.io":         {"subjectaccessreviews"},
		"rbac.authorization.k8s.io":    {"clusterroles", "clusterrolebindings"},
		"admissionregistration.k8s.io": {"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies"},
	} {
		for _, resource := range resources {
			for _, verb := range []string{
				"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate", "use", "*",
			} {
				if allowed(authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: group, Resource: resource, Version: "*", Namespace: "default",
				}}) {
					has = append(has, verb+" "+resource)
				}
			}
		}
	}
	return has
}
