//go:build e2e

package attacks_test

import (
	"errors"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/kcptest"
)

// expectDenied expects a denial by a gate for one of the reasons.
func expectDenied(err error, code int32, reasons ...metav1.CauseType) {
	GinkgoHelper()
	var denied apierrors.APIStatus
	Expect(errors.As(err, &denied)).To(BeTrue(), "%v", err)
	Expect(denied.Status().Code).To(Equal(code), "%v", err)
	found := false
	for _, reason := range reasons {
		found = found || apierrors.HasStatusCause(err, reason)
	}
	Expect(found).To(BeTrue(), "no cause %q in: %v", reasons, err)
}

// Guarantee 2: authorization is checked where the requester does not control RBAC.
var _ = Describe("the owner of a workspace cannot allow itself to act as others", func() {
	const notAllowed, homeOutOfScope = "ImpersonationNotAllowed", "HomeOutOfScope"

	It("with RBAC in its own workspace", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker, stranger := w.owner(ctx, "mallory"), w.user("stranger-of-mallory@example.com")
		server := w.server(stranger, "stolen")
		Expect(kcptest.Grant(ctx, attacker.config, kcptest.User(attacker.name), rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"},
		})).To(Succeed())

		err := attacker.client.Create(ctx, newCluster(attacker.namespace, "stolen", stranger.Email))
		expectDenied(err, http.StatusForbidden, notAllowed)
		provider, lcErr := kcptest.GetLogicalCluster(ctx, w.provider)
		Expect(lcErr).NotTo(HaveOccurred())
		Expect(err).To(MatchError(And(
			ContainSubstring("in logical cluster %q, the provider's workspace", provider.Annotations["kcp.io/cluster"]),
			ContainSubstring("have it granted: kubectl ws :%s; kubectl create clusterrole ", provider.Annotations["kcp.io/cluster"]))))
		Expect(apierrors.IsNotFound(attacker.client.Get(ctx, client.ObjectKey{Namespace: attacker.namespace, Name: "stolen"},
			newCluster(attacker.namespace, "stolen", "")))).To(BeTrue())

		By("no machine of the attacker gets a server of the stranger")
		Expect(attacker.client.Create(ctx, newMachine(attacker.namespace, "stolen", "stolen",
			map[string]any{"providerID": "cloudsigma://" + server.UUID}))).NotTo(Succeed())
		Expect(attacker.recorder.Texts()).NotTo(ContainSubstring(stranger.UUID))
	}, SpecTimeout(startTimeout))

	It("with impersonated users that have forged warrants, scopes, groups or homes", func(ctx SpecContext) {
		w := kcp(ctx)
		attacker, victim := w.owner(ctx, "mallory"), w.victim(ctx)
		stranger := w.user("stranger-of-" + attacker.name + "@example.com")
		// The provider allows these to impersonate the stranger: a user, and a service account of the victim by its global name.
		w.permit(ctx, victim.name, stranger.Email)
		globalName := victim.globalName()
		w.permit(ctx, globalName, stranger.Email)
		// All users have all permissions in the attacker's workspace, so that every impersonated user can write there.
		Expect(kcptest.Grant(ctx, attacker.config, kcptest.Group("system:authenticated"), kcptest.AccessRule(),
			rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})).To(Succeed())
		By("an impersonation by users with the permission works")
		Eventually(func() error { return victim.client.Create(ctx, newCluster(victim.namespace, "own", stranger.Email)) }).Should(Succeed())

		lc, err := kcptest.GetLogicalCluster(ctx, w.provider)
		Expect(err).NotTo(HaveOccurred())
		provider := lc.Annotations["kcp.io/cluster"]
		const home, scopes, warrant = "authentication.kcp.io/cluster-name", "authentication.kcp.io/scopes", "authorization.kcp.io/warrant"
		type extra = map[string][]string
		authenticated := []string{"system:authenticated"}
		serviceAccountWarrant := `{"user":"system:serviceaccount:default:bot","groups":["system:authenticated"],"extra":{` +
			`"authentication.kcp.io/cluster-name":["` + victim.cluster + `"],"authentication.kcp.io/scopes":["cluster:` + victim.cluster + `"]}}`
		for _, forged := range []struct {
			what, user string
			groups     []string
			extra      extra
			reason     metav1.CauseType
		}{
			{"the user", victim.name, authenticated, nil, notAllowed},
			{"the global name", globalName, authenticated, nil, notAllowed},
			{"the user, scoped to the provider", victim.name, authenticated, extra{scopes: {"cluster:" + provider}}, notAllowed},
			{
				"the user, scoped to both", victim.name, authenticated,
				extra{scopes: {"cluster:" + provider + ",cluster:" + attacker.cluster}}, notAllowed,
			},
			{
				"the attacker, with a warrant of the user", attacker.name, authenticated,
				extra{warrant: {`{"user":"` + victim.name + `","groups":["system:authenticated"]}`}}, notAllowed,
			},
			{"the attacker, with a warrant of the service account", attacker.name, authenticated, extra{warrant: {serviceAccountWarrant}}, notAllowed},
			{"the attacker, with a warrant of an administrator", attacker.name, authenticated, extra{warrant: {`{"user":"root","groups":["system:masters"]}`}}, "IdentityClaimed"},
			{"the attacker, with a group of the victim's scope", attacker.name, []string{"system:cluster:" + victim.cluster}, nil, notAllowed},
			{"the service account, with its home", "system:serviceaccount:default:bot", authenticated, extra{home: {victim.cluster}}, homeOutOfScope},
			{
				"the service account, with its home and scope", "system:serviceaccount:default:bot", authenticated,
				extra{home: {victim.cluster}, scopes: {"cluster:" + victim.cluster}}, homeOutOfScope,
			},
			{"the service account, without a home", "system:serviceaccount:default:bot", authenticated, nil, homeOutOfScope},
			{
				"the service account, with two homes", "system:serviceaccount:default:bot", authenticated,
				extra{home: {attacker.cluster, victim.cluster}}, homeOutOfScope,
			},
			{
				"a service account of the provider", "system:serviceaccount:default:bot", authenticated,
				extra{home: {provider}, scopes: {"cluster:" + provider}}, homeOutOfScope,
			},
			{
				"its own service account, with a warrant of the user", "system:serviceaccount:default:bot", authenticated,
				extra{home: {attacker.cluster}, warrant: {`{"user":"` + victim.name + `","groups":["system:authenticated"]}`}}, notAllowed,
			},
		} {
			By(forged.what)
			err := attacker.as(forged.user, forged.groups, forged.extra).Create(ctx, newCluster(attacker.namespace, "forged", stranger.Email))
			expectDenied(err, http.StatusForbidden, forged.reason)
		}
	}, SpecTimeout(startTimeout))

	It("but the provider can allow it to users and service accounts", func(ctx SpecContext) {
		w := kcp(ctx)
		tenant := w.owner(ctx, "alice")
		own := w.user(tenant.name + "@example.com")
		bot, err := kcptest.ServiceAccount(ctx, tenant.admin, "default", "bot")
		Expect(err).NotTo(HaveOccurred())
		Expect(kcptest.Grant(ctx, tenant.admin, kcptest.ServiceAccountSubject("default", "bot"),
			kcptest.Rule(infrastructure.Group, []string{"cloudsigmaclusters"}, []string{"create"}))).To(Succeed())
		c, err := client.New(bot, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		expectDenied(c.Create(ctx, newCluster(tenant.namespace, "by-bot", own.Email)), http.StatusForbidden, notAllowed)

		w.permit(ctx, "system:kcp:serviceaccount:"+tenant.cluster+":default:bot", own.Email)
		Eventually(func() error { return c.Create(ctx, newCluster(tenant.namespace, "by-bot", own.Email)) }).Should(Succeed())
		expectDenied(tenant.client.Create(ctx, newCluster(tenant.namespace, "own", own.Email)), http.StatusForbidden, notAllowed)
		w.permit(ctx, tenant.name, own.Email)
		Eventually(func() error { return tenant.client.Create(ctx, newCluster(tenant.namespace, "own", own.Email)) }).Should(Succeed())
	}, SpecTimeout(startTimeout))
})
