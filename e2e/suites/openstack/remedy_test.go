//go:build e2e

package openstack_test

import (
	"context"
	"regexp"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/env/volume"
)

// A denial lists the problem and the remedy, and the write is admitted soon after the remedy.
var _ = Describe("A denial because of roles", Ordered, ContinueOnFailure, first, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "") }, NodeTimeout(setupTimeout))

	It("contains the command for the fix in kubectl describe, and the write is admitted soon after the fix", func(ctx SpecContext) {
		s := w.beginCluster(ctx)
		poor := s.newUser(ctx, "poor", member)
		s.writeSecret(ctx, "poor", s.password(poor))
		cluster := newObject(clusterKind, s.namespace, clusterName)
		change := func() error { return s.set(ctx, cluster, identityRefPath+".name", "poor") }
		expectDenial(change(), "RoleMissing", identityRefPath, `user "poor" in project "project"`, "missing: load-balancer_member")
		Expect(s.holds(ctx, cluster, identityRefPath+".name")).To(Equal(credentials))

		Expect(s.client.Get(ctx, keyOf(cluster), cluster)).To(Succeed())
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(cluster).Should(ConsistOf(denied("RoleMissing", `user "poor"`)))
		described, err := s.describe(cluster)
		Expect(err).NotTo(HaveOccurred())
		Expect(described).To(MatchRegexp(`(?m)^ +Warning +RoleMissing .*Denied: spec.identityRef of OpenStackCluster "pool" of namespace "` +
			s.namespace + `": .* has the roles member, reader; missing: load-balancer_member; `))

		s.run(ctx, described)
		within := timeout
		if volume.All() { // a denial is kept for 9 seconds, which is no longer than a controller's own retries
			within = 10 * time.Second
		}
		Eventually(change).WithContext(ctx).WithTimeout(within).Should(Succeed())
	}, SpecTimeout(timeout))
})

// command is the command for an administrator in a denial.
var command = regexp.MustCompile(`openstack role add --user ([0-9a-f]{32}) --project ([0-9a-f]{32}) (\S+)`)

// run does the same as the command in a text.
func (s story) run(ctx context.Context, text string) {
	GinkgoHelper()
	words := command.FindStringSubmatch(text)
	Expect(words).NotTo(BeNil(), "no command in: %s", text)
	Expect(s.keystone.Assign(ctx, words[3], roles.AssignOpts{UserID: words[1], ProjectID: words[2]})).To(Succeed())
}
