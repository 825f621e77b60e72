//go:build e2e

package openstack_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"

	"warrantgate.dev/e2e/fakes/openstacktest"
)

// One Keystone serves a whole cloud. The number of clusters must not increase its load.
var _ = Describe("Authentications", Ordered, ContinueOnFailure, first, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "") }, NodeTimeout(setupTimeout))

	It("happen once for all clusters of one identity, and not again while it is cached", func(ctx SpecContext) {
		const clusters = 50
		s := w.begin(ctx, member, loadBalancer)
		before := s.authentications()
		var creating errgroup.Group
		for i := range clusters {
			creating.Go(func() error { // a busy API server may not answer warrantgate in time
				return retry.OnError(retry.DefaultBackoff, apierrors.IsServiceUnavailable, func() error {
					return s.createCluster(ctx, fmt.Sprintf("pool-%d", i), actsWith(credentials))
				})
			})
		}
		Expect(creating.Wait()).To(Succeed())
		Expect(s.authentications()).To(Equal(before + 1))

		Expect(s.createCluster(ctx, clusterName, actsWith(credentials))).To(Succeed())
		Expect(s.authentications()).To(Equal(before + 1))

		By("the lookups of servers use the same tokens")
		earlier := s.novaFront.Count(openstacktest.GetServer)
		Expect(s.set(ctx, s.machine(ctx, "worker"), instanceIDPath, s.server(ctx, "worker").ID)).To(Succeed())
		Expect(s.novaFront.Count(openstacktest.GetServer)).To(Equal(earlier + 1))
		Expect(s.authentications()).To(Equal(before + 1))
	}, SpecTimeout(timeout))

	It("use the current content of the Secret", func(ctx SpecContext) {
		s := w.beginCluster(ctx)
		before := s.authentications()
		s.writeSecret(ctx, credentials, s.password(s.newUser(ctx, "poor", member)))
		expectDenial(s.createCluster(ctx, "second", actsWith(credentials)), "RoleMissing", identityRefPath, `user "poor"`)
		Expect(s.authentications()).To(Equal(before + 1))
		s.writeSecret(ctx, credentials, s.password(s.newUser(ctx, "rich", loadBalancer)))
		Expect(s.createCluster(ctx, "second", actsWith(credentials))).To(Succeed())
		Expect(s.authentications()).To(Equal(before + 2))
	}, SpecTimeout(timeout))

	It("are not repeated at once with rejected credentials, which might lock the user out", func(ctx SpecContext) {
		s := w.begin(ctx, member, loadBalancer)
		s.writeSecret(ctx, credentials, s.password(s.user).with("password", keepSecret("mistyped-password")))
		before := s.authentications()
		for range 5 {
			expectDenial(s.createCluster(ctx, clusterName, actsWith(credentials)), "IdentityDenied", identityRefPath)
		}
		Expect(s.authentications()).To(Equal(before + 1))

		By("corrected credentials are used at once")
		s.writeSecret(ctx, credentials, s.password(s.user))
		Expect(s.createCluster(ctx, clusterName, actsWith(credentials))).To(Succeed())
	}, SpecTimeout(timeout))
})
