//go:build e2e

package workspace_test

import (
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/describe"
)

// Users find the reason for the state of a workspace with kubectl describe.
var _ = Describe("kubectl describe of a workspace", func() {
	It("shows that the recorded owner has an administrator's permissions", func(ctx SpecContext) {
		parent := newPlace(ctx, guarded)
		create(ctx, parent.admin(), "child")
		waitReady(ctx, parent.admin(), "child")
		Eventually(ctx, describeWorkspace).WithArguments(parent.admin(), "child").Should(
			MatchRegexp(`(?m)^ +Warning +PrivilegedOwner .*system:kcp:admin`))
	}, SpecTimeout(specTimeout))
})

// describeWorkspace is the output of "kubectl describe workspace" for an administrator.
func describeWorkspace(config *rest.Config, name string) (string, error) {
	mapping := &meta.RESTMapping{
		Resource:         tenancyv1alpha1.SchemeGroupVersion.WithResource("workspaces"),
		GroupVersionKind: tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"),
		Scope:            meta.RESTScopeRoot,
	}
	describer, _ := describe.GenericDescriberFor(mapping, config)
	return describer.Describe("", name, describe.DescriberSettings{ShowEvents: true, ChunkSize: 100})
}
