//go:build e2e

package machine_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kubetest"
	"warrantgate.dev/e2e/fakes/capcstest"
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
		w = newWorld(ctx, setup{configuration: "controllerManager: {" + selectManagers + "}\n", credentials: func(w *world) (args, env []string) {
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

	It("allow machines of clusters without a user to name the servers of the account only", func(ctx SpecContext) {
		s := beginWithoutUser(ctx)
		s.admits(ctx)
		machine := s.createMachine(ctx, "node")
		own := w.cloud.AddServer(region, account, "node").UUID
		foreign := w.cloud.AddServer(region, w.cloud.AddUser("someone-else@example.com"), "node").UUID
		err := s.setInstanceID(ctx, machine, foreign)
		expectNotOwned(err)
		Expect(err).To(MatchError(And(ContainSubstring(account.UUID), ContainSubstring(own), Not(ContainSubstring("someone-else")),
			ContainSubstring("is not one of the shared account (legacy credentials)"))))
		err = s.setInstanceID(ctx, machine, uuid.NewString())
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, "InstanceNotFound")).To(BeTrue(), "%v", err)
	}, SpecTimeout(timeout))

	It("are used for clusters that name a user, too", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine := s.createMachine(ctx, "node")
		for _, id := range []string{
			w.cloud.AddServer(region, s.user, "node").UUID,
			w.cloud.AddServer(region, s.user, "node", cloudsigmatest.SharedWith(email)).UUID,
		} {
			err := s.setInstanceID(ctx, machine, id)
			expectNotOwned(err)
			Expect(err).To(MatchError(ContainSubstring("is not one of the shared account (legacy credentials)")))
		}
		Expect(s.setInstanceID(ctx, machine, w.cloud.AddServer(region, account, "node").UUID)).To(Succeed())
	}, SpecTimeout(timeout))

	It("leave the Deployment of a controller manager as it is", func(ctx SpecContext) {
		s := beginWithoutUser(ctx)
		env := []corev1.EnvVar{
			{Name: "CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS", Value: "true"},
			fromKey("CLOUDSIGMA_USERNAME", globalCredentials, "username"), fromKey("CLOUDSIGMA_PASSWORD", globalCredentials, "password"),
		}
		off := map[string]string{"decision": "allowed", "reason": "ImpersonationOff"}
		w.recorder.TakeWarnings()
		Eventually(func() float64 { // the API server calls the webhooks a moment after they are registered
			Expect(w.client.Create(ctx, newManager(s.namespace, "canary"), client.DryRunAll)).To(Succeed())
			return w.managerAdmissions(ctx, off)
		}).Should(BeNumerically(">=", 2), "by each of both webhooks")
		Expect(w.client.Create(ctx, newManager(s.namespace, "ccm", withEnv(env...)))).To(Succeed())
		Expect(s.restart(ctx, "ccm")).To(Succeed())
		Expect(s.env(ctx, "ccm")).To(Equal(env))
		Expect(w.recorder.TakeWarnings()).To(BeEmpty())
		Expect(s.verdictEvents(ctx)).To(BeEmpty())
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
				"enable legacy credentials ($CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS=true), configure openStack.authURLs or machine.kinds of an external provider, or set both modes to Off", SpecTimeout(timeout)),
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

// With both, the provider uses the shared account for each cluster without a user, and so does the gate.
var _ = Describe("the legacy credentials beside impersonation", Ordered, func() {
	const email, password = "operator@example.com", "legacy-password-of-both"
	var (
		w       *world
		account cloudsigmatest.User
	)
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{credentials: func(w *world) (args, env []string) {
			account = w.cloud.AddUser(email)
			w.cloud.AllowPassword(email, password)
			return []string{"--impersonation-enabled", "--impersonation-secret=" + secretNamespace + "/" + secretName},
				[]string{"CLOUDSIGMA_ENABLE_LEGACY_CREDENTIALS=true", "CLOUDSIGMA_USERNAME=" + email, "CLOUDSIGMA_PASSWORD=" + password}
		}})
	}, NodeTimeout(setupTimeout))

	It("are used for clusters without a user", func(ctx SpecContext) {
		s := story{world: w, namespace: w.namespace(ctx), user: account}
		Expect(w.client.Create(ctx, newObject(clusterKind, s.namespace, clusterName, with("spec.region", region)))).To(Succeed())
		machine := s.createMachine(ctx, "node")
		tenant := w.user("tenant@example.com")
		err := s.setInstanceID(ctx, machine, w.cloud.AddServer(region, tenant, "node").UUID)
		expectNotOwned(err)
		Expect(err).To(MatchError(And(ContainSubstring("is not one of the shared account (legacy credentials)"), Not(ContainSubstring(tenant.Email)))))
		Expect(s.setInstanceID(ctx, machine, w.cloud.AddServer(region, account, "node").UUID)).To(Succeed())
		Expect(w.tokenRequests()).To(BeZero())
	}, SpecTimeout(timeout))

	It("are used in the default region for machines without a CloudSigmaCluster", func(ctx SpecContext) {
		const defaultRegion = "zrh"
		s := story{world: w, namespace: w.namespace(ctx), user: account}
		machine, other := s.createMachine(ctx, "node"), w.user("someone-else@example.com")
		expectNotOwned(s.setInstanceID(ctx, machine, w.cloud.AddServer(defaultRegion, other, "node").UUID))
		err := s.setInstanceID(ctx, machine, w.cloud.AddServer(region, account, "node").UUID)
		Expect(apierrors.HasStatusCause(err, "InstanceNotFound")).To(BeTrue(), "%v", err)
		Expect(s.setInstanceID(ctx, machine, w.cloud.AddServer(defaultRegion, account, "node").UUID)).To(Succeed())
		Expect(w.tokenRequests()).To(BeZero())
	}, SpecTimeout(timeout))

	// The provider would forget all instance IDs of the cluster's machines, and create their servers again in the shared account.
	It("are not taken by clearing the user while machines hold servers of the user", func(ctx SpecContext) {
		s := w.begin(ctx)
		who := s.editor(ctx)
		s.grant(ctx, who, permission{rule: impersonating(s.user.Email)})
		machine, own := s.createMachine(ctx, "node"), w.cloud.AddServer(region, s.user, "node").UUID
		Expect(s.setInstanceID(ctx, machine, own)).To(Succeed())
		cluster, secret := newCluster(s.namespace, clusterName, ""), s.putUser(ctx, s.namespace, s.user.Email)
		merge := func(object client.Object, patch string) error {
			patched, ok := object.DeepCopyObject().(client.Object)
			Expect(ok).To(BeTrue())
			return who.client.Patch(ctx, patched, client.RawPatch(types.MergePatchType, []byte(patch)))
		}
		expectHeld := func(err error, webhook, field string) {
			GinkgoHelper()
			expectClusterDenial(err, webhook, "MachinesHoldInstances", field)
			Expect(messageOf(err)).To(ContainSubstring("machines of cluster %q name instances that do not belong to the shared account (legacy credentials) in region ", clusterName))
			Expect(messageOf(err)).To(ContainSubstring("CloudSigmaMachine \"node\" (%s)", own))
		}

		By("in the cluster")
		expectHeld(merge(cluster, `{"spec":{"userEmail":null}}`), clusterWebhook, "spec.userEmail")
		expectHeld(merge(cluster, `{"spec":{"userEmail":""}}`), clusterWebhook, "spec.userEmail")
		expectHeld(merge(cluster, `{"spec":{"userEmail":null,"region":"zrh"}}`), clusterWebhook, "spec.userEmail")
		Expect(who.client.Patch(ctx, cluster.DeepCopy(), byRef(""))).To(Succeed(), "the Secret names the same user")
		expectHeld(merge(cluster, `{"spec":{"userRef":null}}`), clusterWebhook, "spec.userRef")

		By("in the Secret")
		for _, patch := range []string{`{"data":{"userEmail":null}}`, `{"data":{"userEmail":""}}`, `{"data":null}`} {
			expectHeld(merge(secret, patch), secretWebhook, "data.userEmail")
		}
		Expect(s.userIn(ctx, secret)).To(Equal(s.user.Email))
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(secret).Should(ContainElement(HaveField("Reason", "MachinesHoldInstances")))

		By("but the Secret can be deleted, and the user can be cleared after the IDs")
		Expect(who.client.Delete(ctx, secret.DeepCopy())).To(Succeed())
		s.putUser(ctx, s.namespace, s.user.Email)
		Expect(s.setInstanceID(ctx, machine, "")).To(Succeed())
		Expect(merge(secret, `{"data":{"userEmail":null}}`)).To(Succeed())
		Expect(merge(cluster, `{"spec":{"userRef":null}}`)).To(Succeed())
		Expect(s.setInstanceID(ctx, machine, w.cloud.AddServer(region, account, "node").UUID)).To(Succeed())

		By("nor can a user be named whose they are not")
		s.putUser(ctx, s.namespace, s.user.Email)
		expectClusterDenial(who.client.Patch(ctx, cluster.DeepCopy(), byRef("")), clusterWebhook, "MachinesHoldInstances", "spec.userRef")
		Expect(who.client.Delete(ctx, cluster.DeepCopy())).To(Succeed())
	}, SpecTimeout(timeout))

	// Each denied first claim would make the provider create another server, because the account has more servers than one page.
	It("are used for a cluster whose Secret with the user is deleted", func(ctx SpecContext) {
		s := w.begin(ctx)
		secret := s.putUser(ctx, s.namespace, s.user.Email)
		Expect(w.client.Patch(ctx, newCluster(s.namespace, clusterName, ""), byRef(""))).To(Succeed())
		shared := story{world: w, namespace: s.namespace, user: account}
		for i := range 25 {
			shared.server(fmt.Sprintf("other-%d", i))
		}
		p := s.startProvider(ctx, func(o *capcstest.Options) { o.Username, o.Password = email, password })
		machine := s.createOwned(ctx, "worker")
		s.expectSettled(ctx, p, machine)
		before := len(serversOf(w.cloud, account))
		Expect(w.client.Delete(ctx, secret)).To(Succeed())
		shared.expectSettled(ctx, p, machine)
		Expect(serversOf(w.cloud, account)).To(HaveLen(before + 1))
	}, SpecTimeout(timeout))

	It("are not used for clusters that name a user", func(ctx SpecContext) {
		s := w.begin(ctx)
		machine := s.createMachine(ctx, "node")
		err := s.setInstanceID(ctx, machine, w.cloud.AddServer(region, account, "node").UUID)
		expectNotOwned(err)
		Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("is not one of user %q (%s)", s.user.Email, s.user.UUID))))
		Expect(s.setInstanceID(ctx, machine, w.cloud.AddServer(region, s.user, "node").UUID)).To(Succeed())
		Expect(w.cloud.Count(cloudsigmatest.Impersonate, s.user.Email)).To(Equal(1))
	}, SpecTimeout(timeout))
})
