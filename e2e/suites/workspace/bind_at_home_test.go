//go:build e2e

package workspace_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"warrantgate.dev/e2e/env/kcptest"
)

// A service account may bind an API because of a role in its own workspace. Its new workspaces must get that API.
var _ = Describe("A workspace whose type binds an API that the service account may bind at home only", func() {
	It("is stuck in Initializing, or denied at once from kcp v0.33 on, if the service account has no such permission", func(ctx SpecContext) {
		home := newPlace(ctx)
		home.exportWidgets(ctx)
		widgets := home.widgetType(ctx)
		home.expectUnbindable(ctx, home.ServiceAccount(ctx, "bot"), "child", widgets, home)
	}, SpecTimeout(specTimeout))
})

// expectUnbindable creates a workspace here whose type binds the widgets of another workspace, as a user who may not bind them: it is stuck or,
// from kcp v0.33 on, denied (kcp-dev/kcp#4311).
func (p place) expectUnbindable(ctx context.Context, creator *rest.Config, name string, widgets kcptest.WorkspaceOption, of place) (denied bool) {
	GinkgoHelper()
	_, err := kcptest.TryCreateWorkspace(ctx, creator, name, widgets)
	if apierrors.IsForbidden(err) {
		Expect(err).To(MatchError(ContainSubstring("no permission to bind one or more of the default API bindings")))
		Expect(kcptest.GetWorkspace(ctx, p.Admin(), name)).Error().To(WithTransform(apierrors.IsNotFound, BeTrue()))
		return true
	}
	Expect(err).NotTo(HaveOccurred())
	p.expectStuck(ctx, name, "no permission to bind to export "+of.Path+":"+exportName)
	return false
}
