//go:build e2e

package workspace_test

import (
	"context"
	"fmt"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
	"warrantgate.dev/e2e/env/suite"
)

// A verdict depends on the changed fields, not on the kind of request.
var _ = Describe("The same forgery", Ordered, ContinueOnFailure, func() {
	var mallory client.Client
	var child *tenancyv1alpha1.Workspace

	BeforeAll(func(ctx SpecContext) {
		parent := newPlace(ctx)
		config := parent.User(ctx, "mallory")
		mallory = suite.KCPClient(config)
		suite.CreateWorkspace(ctx, config, "child")
		child = parent.WaitSettled(ctx, "child") // else kcp's own writes make a PUT conflict
	}, NodeTimeout(specTimeout))

	DescribeTable("is denied",
		func(ctx SpecContext, send func(context.Context, client.Client, *tenancyv1alpha1.Workspace) error) {
			err := send(ctx, mallory, child.DeepCopy())
			Expect(err).To(beNotAllowed)
			Expect(err).To(MatchError(And( // other changed annotations may be before or after the owner
				ContainSubstring(`user "mallory" tried to change `), ContainSubstring(kcptest.OwnerAnnotation), ContainSubstring(`of workspace "child"`))))
		},
		Entry("as PUT", func(ctx context.Context, c client.Client, ws *tenancyv1alpha1.Workspace) error {
			ws.Annotations[kcptest.OwnerAnnotation] = forgedOwner
			return c.Update(ctx, ws)
		}, SpecTimeout(specTimeout)),
		Entry("as merge patch", func(ctx context.Context, c client.Client, ws *tenancyv1alpha1.Workspace) error {
			return c.Patch(ctx, ws, client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kcptest.OwnerAnnotation, forgedOwner)))
		}, SpecTimeout(specTimeout)),
		Entry("as JSON patch", func(ctx context.Context, c client.Client, ws *tenancyv1alpha1.Workspace) error {
			return c.Patch(ctx, ws, client.RawPatch(types.JSONPatchType,
				fmt.Appendf(nil, `[{"op":"replace","path":"/metadata/annotations/experimental.tenancy.kcp.io~1owner","value":%q}]`, forgedOwner)))
		}, SpecTimeout(specTimeout)),
		Entry("as server-side apply", func(ctx context.Context, c client.Client, ws *tenancyv1alpha1.Workspace) error {
			applied := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace",
				"metadata": map[string]any{"name": ws.Name, "annotations": map[string]any{kcptest.OwnerAnnotation: forgedOwner}},
			}}
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("mallory"), client.ForceOwnership)
		}, SpecTimeout(specTimeout)),
	)
})
