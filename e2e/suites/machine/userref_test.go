//go:build e2e

package machine_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
)

// A cluster can take its user from a Secret. Claims of its machines are evaluated with the current user in that Secret. conflicts_test.go has
// clusters whose Secret names no user.
var _ = Describe("a cluster that takes its user from a Secret", sharing, func() {
	// begin creates a cluster that refers to the Secret "user" of a namespace, of its own if it is empty, which names the story's user.
	begin := func(ctx context.Context, namespace string) story {
		GinkgoHelper()
		w := shared(ctx)
		s := story{world: w, namespace: w.namespace(ctx)}
		s.user = w.user(s.namespace + "@example.com")
		if namespace == "" {
			s.putUser(ctx, s.namespace, s.user.Email)
		} else {
			s.putUser(ctx, namespace, s.user.Email)
		}
		Expect(s.client.Create(ctx, s.referringCluster(clusterName, namespace))).To(Succeed())
		return s
	}
	expectOnlyOwn := func(ctx context.Context, s story, denial types.GomegaMatcher) {
		GinkgoHelper()
		s.admits(ctx)
		err := s.set(ctx, s.createMachine(ctx, "foreign"), instanceIDPath, s.othersServer("foreign").UUID)
		expectDenial(err, "InstanceNotOwned", instanceIDPath)
		Expect(err).To(MatchError(denial))
	}

	It("may name servers of the user in a Secret of its own namespace, and of the new user after it changed", func(ctx SpecContext) {
		s := begin(ctx, "")
		before := s.server("node").UUID
		s.user = s.world.user("next-" + s.user.Email)
		s.putUser(ctx, s.namespace, s.user.Email)
		expectDenial(s.set(ctx, s.createMachine(ctx, "before"), instanceIDPath, before), "InstanceNotOwned", instanceIDPath)
		expectOnlyOwn(ctx, s, ContainSubstring(s.user.Email))
	}, SpecTimeout(timeout))

	// The author of a machine may not be able to read that Secret.
	It("may name servers of the user in a Secret of another namespace, and a denial names the Secret instead of the user", func(ctx SpecContext) {
		namespace := shared(ctx).namespace(ctx)
		s := begin(ctx, namespace)
		expectOnlyOwn(ctx, s, And(
			ContainSubstring(`the user that Secret "user" of namespace %q names`, namespace),
			Not(ContainSubstring(s.user.Email)), Not(ContainSubstring(s.user.UUID)),
		))
	}, SpecTimeout(timeout))

	It("may name servers of the user in its own spec, which has precedence", func(ctx SpecContext) {
		s := begin(ctx, "")
		s.putUser(ctx, s.namespace, s.world.user("someone-else@example.com").Email)
		s.setCluster(ctx, clusterName, "spec.userEmail", s.user.Email)
		expectOnlyOwn(ctx, s, ContainSubstring(s.user.Email))
	}, SpecTimeout(timeout))
})
