//go:build e2e

package workspace_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"warrantgate.dev/e2e/env/kcptest"
)

// A service account may bind an API because of a role in its own workspace. Its new workspaces must get that API.
var _ = Describe("A workspace whose type binds an API that the service account may bind at home only", func() {
	setUp := func(ctx SpecContext, server *kcptest.Server) (home place, widgets kcptest.WorkspaceOption) {
		home = newPlace(ctx, server)
		home.exportWidgets(ctx)
		return home, home.widgetType(ctx)
	}

	It("is stuck in Initializing, or denied at once from kcp v0.33 on, if the service account has no such permission", func(ctx SpecContext) {
		home, widgets := setUp(ctx, guarded)
		bot := home.serviceAccount(ctx, "bot")
		_, err := kcptest.TryCreateWorkspace(ctx, bot, "child", widgets)
		if apierrors.IsForbidden(err) { // kcp-dev/kcp#4311
			Expect(err).To(MatchError(ContainSubstring("no permission to bind one or more of the default API bindings")))
			Expect(kcptest.GetWorkspace(ctx, home.admin(), "child")).Error().To(WithTransform(apierrors.IsNotFound, BeTrue()))
			return
		}
		Expect(err).NotTo(HaveOccurred())
		home.expectStuck(ctx, "child", "no permission to bind to export "+home.path+":"+exportName)
	}, SpecTimeout(specTimeout))
})
