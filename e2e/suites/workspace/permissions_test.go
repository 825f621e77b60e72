//go:build e2e

package workspace_test

import (
	"context"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// beNotAllowed matches the error of kcp for a missing permission.
var beNotAllowed = WithTransform(apierrors.IsForbidden, BeTrue())

// listBindings sends the first request of a new user: it lists the available APIs.
func listBindings(ctx context.Context, config *rest.Config, cluster string) ([]apisv1alpha2.APIBinding, error) {
	GinkgoHelper()
	bindings := &apisv1alpha2.APIBindingList{}
	err := suite.KCPClient(kcptest.In(config, cluster)).List(ctx, bindings)
	return bindings.Items, err
}

// expectAtHome expects a creator to be able to write and read in its new workspace, whose type binds APIs.
func expectAtHome(ctx context.Context, config *rest.Config, cluster string) {
	GinkgoHelper()
	suite.ExpectAtHome(ctx, config, cluster)
	Expect(listBindings(ctx, config, cluster)).NotTo(BeEmpty())
}

// expectLockedOut expects that a user has no permissions in a workspace. kcp must already observe the permissions of another user there;
// see expectAtHome.
func expectLockedOut(ctx context.Context, config *rest.Config, cluster string) {
	GinkgoHelper()
	suite.ExpectLockedOut(ctx, config, cluster)
	_, err := listBindings(ctx, config, cluster)
	Expect(err).To(beNotAllowed)
}

// probes are permissions that a user could gain by a wrong owner, from access to a workspace to the administration of it.
var probes = map[string]authorizationv1.SubjectAccessReviewSpec{
	"enter": {NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "access"}},
	"read secrets": {ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: "get", Version: "v1", Resource: "secrets", Namespace: "default",
	}},
	"write config maps": {ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: "create", Version: "v1", Resource: "configmaps", Namespace: "default",
	}},
	"create workspaces": {ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: "create", Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces",
	}},
	"delete workspaces": {ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: "delete", Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces",
	}},
	"rule": {ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: "create", Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings",
	}},
}

// permissionsOf checks the permissions of a user in a logical cluster, and lists the allowed probes.
func permissionsOf(ctx context.Context, cluster string, user authenticationv1.UserInfo) []string {
	GinkgoHelper()
	c := suite.KCPClient(kcp.ShardAdmin(cluster))
	allowed := []string{}
	for name, probe := range probes {
		review := &authorizationv1.SubjectAccessReview{Spec: *probe.DeepCopy()}
		review.Spec.User, review.Spec.UID, review.Spec.Groups = user.Username, user.UID, user.Groups
		review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		for key, values := range user.Extra {
			review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
		}
		Expect(c.Create(ctx, review)).To(Succeed())
		if review.Status.Allowed {
			allowed = append(allowed, name)
		}
	}
	return allowed
}
