//go:build e2e

package machine_test

import (
	"context"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// The old authentication uses one account for all, and its password. It must be enabled explicitly.
var _ = Describe("the legacy credentials", Ordered, func() {
	const email, password = "operator@example.com", "legacy-password-of-the-suite"
	var (
		w       *world
		account cloudsigmatest.User
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{credentials: func(w *world) (args, env []string) {
			account = w.cloud.AddUser(email)
			w.cloud.AllowPassword(email, password)
			return nil, []string{"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS=true", "CLOUDSIGMA_USERNAME=" + email, "CLOUDSIGMA_PASSWORD=" + password}
		}})
	}, NodeTimeout(setupTimeout))
	AfterAll(func() { Expect(w.tokenRequests()).To(BeZero()) })

	// beginWithoutUser begins a story whose cluster names no user.
	beginWithoutUser := func(ctx context.Context) story {
		GinkgoHelper()
		s := story{world: w, namespace: w.namespace(ctx), user: account}
		Expect(w.client.Create(ctx, newObject(clusterKind, s.namespace, clusterName, with("spec.region", region)))).To(Succeed())
		return s
	}

	It("cause a warning in the log", func() {
		Expect(w.log()).To(ContainSubstring("requests to CloudSigma use legacy credentials: one account for all, " +
			"whose password can do everything that the account can; use impersonation instead"))
	})

	It("allow machines of clusters without a user to name the servers of the account only", func(ctx SpecContext) {
		s := beginWithoutUser(ctx)
		s.admits(ctx)
		machine := s.createMachine(ctx, "node")
		own := w.cloud.AddServer(region, account, "node").UUID
		foreign := w.cloud.AddServer(region, w.cloud.AddUser("someone-else@example.com"), "node").UUID
		err := s.setInstanceID(ctx, machine, foreign)
		expectNotOwned(err)
		Expect(err).To(MatchError(And(ContainSubstring(account.UUID), ContainSubstring(own), Not(ContainSubstring("someone-else")),
			ContainSubstring("is not one of the one account that all clusters share"))))
		err = s.setInstanceID(ctx, machine, uuid.NewString())
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, "InstanceNotFound")).To(BeTrue(), "%v", err)
	}, SpecTimeout(timeout))

	It("cannot decide claims of clusters that name another user", func(ctx SpecContext) {
		s := w.begin(ctx)
		own := w.cloud.AddServer(region, s.user, "node").UUID
		shared := w.cloud.AddServer(region, s.user, "node", cloudsigmatest.SharedWith(email)).UUID
		machine := s.createMachine(ctx, "node")
		for _, id := range []string{own, shared, w.cloud.AddServer(region, account, "node").UUID} {
			expectUnknown(s.setInstanceID(ctx, machine, id), id, s.user, "UserNotImpersonable", allowUser)
		}
	}, SpecTimeout(timeout))

	It("are named in the denial if they are wrong", func(ctx SpecContext) {
		s := beginWithoutUser(ctx)
		machine, own := s.createMachine(ctx, "node"), w.cloud.AddServer(region, account, "node").UUID
		w.cloud.AllowPassword(email, "another-password-of-the-suite")
		err := s.setInstanceID(ctx, machine, own)
		Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, "CredentialsDenied")).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(renewCredentials)))
		w.cloud.AllowPassword(email, password)
		Expect(s.setInstanceID(ctx, machine, own)).To(Succeed())
	}, SpecTimeout(timeout))

	DescribeTable("prevent the start of warrantgate, with advice,",
		func(ctx SpecContext, env []string, advice string) {
			gate, err := kubetest.NewWarrantgate(ctx, w.api, kubetest.WarrantgateOptions{
				Env:           env,
				Configuration: "apiVersion: config.warrantgate.dev/v1beta1\nkind: GateConfiguration\ncloudSigma: {regions: [zrh]}\n",
			})
			Expect(err).NotTo(HaveOccurred())
			err = gate.Start(ctx)
			Expect(err).To(MatchError(ContainSubstring(advice)))
			Expect(err).NotTo(MatchError(ContainSubstring(password)))
		},
		Entry("if they are not enabled", []string{"CLOUDSIGMA_USERNAME=" + email, "CLOUDSIGMA_PASSWORD=" + password},
			"machine.mode and audit.mode need an access to a cloud: give --impersonation-enabled and the flags for the CloudSigma credentials, "+
				"configure openStack.authURLs, or set both modes to Off", SpecTimeout(timeout)),
		Entry("if they are disabled", []string{
			"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS=false", "CLOUDSIGMA_USERNAME=" + email, "CLOUDSIGMA_PASSWORD=" + password,
		}, "give --impersonation-enabled", SpecTimeout(timeout)),
		Entry("if the variable is malformed", []string{"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS=perhaps"},
			`$CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS: "perhaps" is neither true nor false`, SpecTimeout(timeout)),
		Entry("if the user name or the password is missing", []string{"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS=true", "CLOUDSIGMA_USERNAME=" + email},
			"legacy credentials are enabled ($CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS), but $CLOUDSIGMA_USERNAME or $CLOUDSIGMA_PASSWORD is empty",
			SpecTimeout(timeout)),
		Entry("if first claims would be admitted without an answer", []string{
			"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS=true", "CLOUDSIGMA_USERNAME=" + email, "CLOUDSIGMA_PASSWORD=" + password,
		}, "set machine.unknown: Deny, and install again with this configuration", SpecTimeout(timeout)),
	)
})
