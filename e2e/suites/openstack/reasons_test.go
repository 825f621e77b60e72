//go:build e2e

package openstack_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"warrantgate.dev/e2e/fakes/openstacktest"
)

// Credentials can be wrong in many ways. Each has its own fix.
var _ = Describe("Credentials that no cluster can act with", Ordered, ContinueOnFailure, first, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) { w = worldWith(ctx, "") }, NodeTimeout(setupTimeout))

	// spoil writes the Secret, and returns the texts that the denial must contain.
	type spoil func(ctx context.Context, s story) (texts []string)
	file := func(content string, texts ...string) spoil {
		return func(ctx context.Context, s story) []string {
			s.writeFile(ctx, credentials, content)
			return texts
		}
	}
	DescribeTable("are denied with a reason of their own", func(ctx SpecContext, reason string, spoiled spoil) {
		s := w.begin(ctx, member, loadBalancer)
		texts := spoiled(ctx, s)
		expectDenial(s.createCluster(ctx, clusterName, actsWith(credentials)), reason, identityRefPath,
			append(texts, `cloud "openstack" of Secret "credentials": `)...)
	},
		Entry("a wrong password", "IdentityDenied", spoil(func(ctx context.Context, s story) []string {
			s.writeSecret(ctx, credentials, s.password(s.user).with("password", keepSecret("not-the-password")))
			return []string{"rejects user", s.user.ID, "(401, request req-", "renew them in the Secret"}
		}), SpecTimeout(timeout)),
		Entry("an expired application credential", "IdentityDenied", spoil(func(ctx context.Context, s story) []string {
			var made *applicationcredentials.ApplicationCredential
			Eventually(func() (err error) { // Keystone may be too busy to create it before it expires
				soon := time.Now().UTC().Add(2 * time.Second)
				made, err = s.keystone.CreateApplicationCredential(ctx, s.user, s.project,
					applicationcredentials.CreateOpts{Name: "cluster", ExpiresAt: &soon})
				return err
			}).WithContext(ctx).Should(Succeed())
			keepSecret(made.Secret)
			Eventually(func() error {
				_, err := s.keystone.LoginWith(ctx, made)
				return err
			}).WithContext(ctx).Should(HaveOccurred())
			s.writeSecret(ctx, credentials, entryOf(made))
			return []string{"rejects application credential", made.ID, "expired or revoked"}
		}), SpecTimeout(timeout)),
		Entry("another entry of clouds.yaml", "IdentityMalformed",
			file("clouds: {other: {}}", "clouds.yaml has no cloud of this name"), SpecTimeout(timeout)),
		Entry("two clouds of one name for the provider, which takes one of them at random", "IdentityMalformed",
			file("clouds: {openstack: {}, '1': {}, 1: {}}", "one of its keys is not a text"), SpecTimeout(timeout)),
		Entry("a Keystone that is not configured, without a request to it", "IdentityEndpointNotAllowed", spoil(func(ctx context.Context, s story) []string {
			var received atomic.Int32
			elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
			DeferCleanup(func() {
				elsewhere.Close()
				Expect(received.Load()).To(BeZero(), "a password was sent to a server that is not configured")
			})
			s.writeSecret(ctx, credentials, s.password(s.user).with("auth_url", elsewhere.URL+"/v3"))
			return []string{"its auth_url is at host", "is none of those configured", s.front.URL()}
		}), SpecTimeout(timeout)),
	)

	DescribeTable("are denied with a reason of their own if the reference is incomplete", func(
		ctx SpecContext, reason string, ref map[string]any, texts ...string,
	) {
		s := w.begin(ctx, member, loadBalancer)
		before := s.authentications()
		expectDenial(s.createCluster(ctx, clusterName, with(identityRefPath, ref)), reason, identityRefPath, texts...)
		Expect(s.authentications()).To(Equal(before))
	},
		Entry("a Secret that does not exist", "IdentitySecretMissing", map[string]any{"name": "missing", "cloudName": cloudName},
			`cloud "openstack" of Secret "missing": there is no such Secret in namespace "story-`, SpecTimeout(timeout)),
		Entry("no Secret", "IdentityMissing", map[string]any{"cloudName": cloudName},
			"spec.identityRef.name and spec.identityRef.cloudName have to be set", SpecTimeout(timeout)),
		Entry("another kind of identity", "IdentityUnsupported",
			map[string]any{"type": "ClusterIdentity", "name": credentials, "cloudName": cloudName}, "refer to a Secret", SpecTimeout(timeout)),
	)

	DescribeTable("are undecided while Keystone", func(ctx SpecContext, f openstacktest.Fault, texts ...string) {
		s := w.begin(ctx, member, loadBalancer)
		w.impatient(ctx)
		failure := s.front.Fail(f, 0)
		DeferCleanup(failure.Release)
		create := func() error { return s.createCluster(ctx, clusterName, actsWith(credentials)) }
		expectDenial(create(), "DelegationUnknown", identityRefPath,
			append(texts, `the roles of cloud "openstack" of Secret "credentials" could not be determined: `)...)

		By("they are admitted after Keystone recovers")
		failure.Release()
		Eventually(create).WithContext(ctx).Should(Succeed())
	},
		Entry("is down", openstacktest.Status(http.StatusServiceUnavailable), "the identity provider is unavailable or its response is invalid; try again", SpecTimeout(timeout)),
		Entry("does not answer", openstacktest.Hang(), "did not answer in time; try again", SpecTimeout(timeout)),
	)
})
