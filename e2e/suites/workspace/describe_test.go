//go:build e2e

package workspace_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/suite"
)

// Users find the reason for the state of a workspace with kubectl describe.
var _ = Describe("kubectl describe of a workspace", func() {
	It("shows that the recorded owner has an administrator's permissions", func(ctx SpecContext) {
		parent := newPlace(ctx)
		Eventually(ctx, suite.DescribeWorkspace).WithArguments(kcp.Admin("root"), strings.TrimPrefix(parent.Path, "root:")).Should(
			MatchRegexp(`(?m)^ +Warning +PrivilegedOwner .*system:kcp:admin`))
	}, SpecTimeout(specTimeout))
})
