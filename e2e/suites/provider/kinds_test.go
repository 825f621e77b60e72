//go:build e2e

package provider_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/env/suite"
)

// exportName is the provider's APIExport.
const exportName = "capcs"

var infrastructure = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// makeWorkspace creates a workspace of root as an administrator, and waits until it is Ready.
func makeWorkspace(ctx context.Context, name string) {
	GinkgoHelper()
	suite.ReadyWorkspace(ctx, kcp.Admin("root"), name)
}

// exportKinds exports CloudSigmaMachine and CloudSigmaCluster from a workspace.
func exportKinds(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	crds, err := kubetest.CRDs("CloudSigmaMachine", "CloudSigmaCluster")
	Expect(err).NotTo(HaveOccurred())
	Expect(kcptest.Export(ctx, config, exportName, crds...)).To(Succeed())
}

// bindKinds binds these kinds in a workspace, and waits until kcp serves them there.
func bindKinds(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	Expect(kcptest.Bind(ctx, config, "root:provider", exportName, infrastructure.WithKind("CloudSigmaMachine"))).To(Succeed())
}

func object(kind, name, cluster string, spec map[string]any) *unstructured.Unstructured {
	o := suite.NewObject(infrastructure.WithKind(kind), "default", name)
	o.Object["spec"] = spec
	o.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": cluster})
	return o
}
