//go:build e2e

package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const recordKey = "warrantgate.dev/user-named-by"

// recordOn returns the record of an object in the API server.
func (w *world) recordOn(ctx context.Context, object client.Object) string {
	GinkgoHelper()
	Expect(w.client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object.GetAnnotations()[recordKey]
}

// recordedBy matches the record of an author.
func recordedBy(who author) OmegaMatcher {
	return WithTransform(func(record string) (authenticationv1.UserInfo, error) {
		var user authenticationv1.UserInfo
		err := json.Unmarshal([]byte(record), &user)
		return user, err
	}, And(HaveField("Username", who.username), HaveField("Groups", ConsistOf(who.groups)), HaveField("Extra", BeEmpty())))
}

// The audit can check a permission again only if it knows whose it was.
var _ = Describe("who named a cluster's user", sharing, func() {
	for _, kind := range authors {
		It("is recorded for every kind of write by "+kind.what, func(ctx SpecContext) {
			s := begin(ctx)
			who := kind.make(s, ctx)
			email := "named-" + s.namespace + "@example.com"
			s.grant(ctx, who, permission{rule: impersonating(email)})
			for i, way := range requests {
				By(way.name)
				name := fmt.Sprintf("cluster-%d", i)
				if !way.creates {
					Expect(s.client.Create(ctx, userEmailField.naming(s.namespace, name, s.user.Email))).To(Succeed())
				}
				object := userEmailField.naming(s.namespace, name, email)
				Expect(way.send(ctx, who.client, userEmailField, object)).To(Succeed())
				Expect(s.recordOn(ctx, object)).To(recordedBy(who))

				By("and other writes do not change it, with or without it")
				status := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+recordKey+`":"{\"username\":\"root\"}"}},"status":{"ready":true}}`))
				Expect(s.client.Status().Patch(ctx, object.DeepCopy(), status)).To(Succeed())
				Expect(s.recordOn(ctx, object)).To(recordedBy(who))
				object.SetAnnotations(nil)
				Expect(s.client.Update(ctx, object.DeepCopy())).To(Succeed())
				Expect(s.client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"other":"x"}},"spec":{"replicas":3}}`)))).To(Succeed())
				Expect(s.recordOn(ctx, object)).To(recordedBy(who))
			}
			Expect(s.verdictEvents(ctx)).To(BeEmpty())
		}, SpecTimeout(timeout))
	}

	It("is recorded on the Secret, and not stored on a dry run", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		email := "named-" + s.namespace + "@example.com"
		s.grant(ctx, who, permission{namespace: s.namespace, rule: rule("", "secrets", "get", "create", "update", "patch")})
		s.grant(ctx, who, permission{rule: impersonating(email)})
		secret := userSecret(s.namespace, map[string]string{"userEmail": email})
		dry := secret.DeepCopy()
		Expect(who.client.Create(ctx, dry, client.DryRunAll)).To(Succeed())
		Expect(dry.Annotations).To(HaveKeyWithValue(recordKey, recordedBy(who)))
		Expect(who.client.Create(ctx, secret.DeepCopy())).To(Succeed())
		Expect(s.recordOn(ctx, secret.DeepCopy())).To(recordedBy(who))

		By("an administrator who writes the same user, and other keys, does not replace it")
		secret.StringData["other"] = "x"
		Expect(s.client.Update(ctx, secret.DeepCopy())).To(Succeed())
		Expect(s.recordOn(ctx, secret.DeepCopy())).To(recordedBy(who))
		Expect(s.client.Patch(ctx, secret.DeepCopy(), userIs(s.user.Email))).To(Succeed())
		Expect(s.recordOn(ctx, secret.DeepCopy())).To(ContainSubstring(`"system:masters"`))
	}, SpecTimeout(timeout))

	It("counts as a decision of the gate", func(ctx SpecContext) {
		s := begin(ctx)
		labels := map[string]string{"gate": "cluster-record", "decision": "allowed", "reason": "Recorded"}
		before, err := s.gate.Metric(ctx, "warrantgate_admissions_total", labels)
		Expect(err).NotTo(HaveOccurred())
		Expect(s.client.Create(ctx, newCluster(s.namespace, "counted", s.user.Email))).To(Succeed())
		Expect(s.gate.Metric(ctx, "warrantgate_admissions_total", labels)).To(Equal(before + 1))
	}, SpecTimeout(timeout))
})

var _ = Describe("the audit of who named a cluster's user", Ordered, func() {
	var w *world
	var early *unstructured.Unstructured
	var s story
	const notRecorded = "Audit: it is not recorded who named its user, so the permission for it cannot be checked again; "
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, setup{configuration: oftenAudited, before: func(w *world) {
			namespace := w.namespace(ctx)
			early = newCluster(namespace, "early", w.user("early@example.com").Email)
			Expect(w.client.Create(ctx, early)).To(Succeed())
		}})
		s = w.begin(ctx)
	}, NodeTimeout(setupTimeout))

	reported := func(ctx context.Context, object client.Object, reason, message string) {
		GinkgoHelper()
		Eventually(w.eventsOn).WithContext(ctx).WithArguments(object).Should(ContainElement(And(
			HaveField("Reason", reason), HaveField("Message", HavePrefix(message)))))
	}
	none := func(ctx context.Context, reason string) {
		GinkgoHelper()
		Eventually(w.findings).WithContext(ctx).WithArguments(reason).Should(BeZero())
	}

	It("reports a cluster of a time without records, until somebody names the user again by the printed command", func(ctx SpecContext) {
		var command string
		Eventually(func(g Gomega) {
			events, err := w.eventsOn(ctx, early)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events).To(ConsistOf(And(HaveField("Reason", "AuthorUnknown"), HaveField("Message", HavePrefix(notRecorded)))))
			_, command, _ = strings.Cut(events[0].Message, "takes it over: ")
		}).Should(Succeed())
		w.kubectl(ctx, command)
		Expect(w.recordOn(ctx, early)).To(ContainSubstring(`"system:masters"`))
		none(ctx, "AuthorUnknown")
	}, SpecTimeout(timeout))

	It("reports an author whose permission was revoked, until it is granted by the printed commands", func(ctx SpecContext) {
		who := s.newUser(ctx)
		email := w.user("revoked@example.com").Email
		s.grant(ctx, who, permission{rule: impersonating(email)})
		cluster := newCluster(s.namespace, "revoked", email)
		Expect(who.client.Create(ctx, cluster)).To(Succeed())
		w.awaitAudits(ctx, 2)
		Expect(w.findings(ctx, "AuthorNotAllowed")).To(BeZero())

		w.revoke(ctx, who)
		message := "Audit: who named its user has no permission for it now: user \"" + who.username + "\" may not impersonate \"" + email + "\"; "
		reported(ctx, cluster, "AuthorNotAllowed", message)
		Expect(w.findings(ctx, "AuthorNotAllowed")).To(BeEquivalentTo(1))
		Expect(w.describe(cluster)).To(ContainSubstring("who named its user has no permission for it now"))
		output, err := w.runAudit(ctx)
		Expect(err).To(MatchError(ContainSubstring("exit status 1")))
		Expect(output).To(And(ContainSubstring(`"AuthorNotAllowed"`), ContainSubstring(who.username)))

		events, err := w.eventsOn(ctx, cluster)
		Expect(err).NotTo(HaveOccurred())
		_, commands, _ := strings.Cut(events[0].Message, "grant it again: ")
		w.kubectl(ctx, commands)
		none(ctx, "AuthorNotAllowed")
	}, SpecTimeout(2*timeout))

	It("checks the authors of the cluster and of the Secret, and discloses neither the user nor the author of the Secret", func(ctx SpecContext) {
		who := s.newServiceAccount(ctx)
		email := w.user("in-a-secret@example.com").Email
		s.grant(ctx, who, permission{rule: impersonating(email)})
		s.grant(ctx, who, permission{namespace: s.namespace, rule: rule("", "secrets", "get", "create")})
		cluster := s.referringCluster("by-secret", "")
		Expect(who.client.Create(ctx, userSecret(s.namespace, map[string]string{"userEmail": email}))).To(Succeed())
		Expect(who.client.Create(ctx, cluster)).To(Succeed())
		w.revoke(ctx, who)
		reported(ctx, cluster, "AuthorNotAllowed", "Audit: who named its user has no permission for it now: user \""+who.username+
			"\" may not impersonate the user that Secret \"user\" of namespace \""+s.namespace+"\" names; ")
		ofSecret := "Audit: who named the user in Secret \"user\" of namespace \"" + s.namespace + "\" has no permission for it now; "
		reported(ctx, cluster, "AuthorNotAllowed", ofSecret)

		By("an administrator takes over one after the other")
		events, err := w.eventsOn(ctx, cluster)
		Expect(err).NotTo(HaveOccurred())
		for _, event := range events {
			if _, command, found := strings.Cut(event.Message, "takes it over: "); found {
				w.kubectl(ctx, command)
			}
		}
		Eventually(w.findings).WithContext(ctx).WithArguments("AuthorNotAllowed").Should(BeEquivalentTo(1))
		w.kubectl(ctx, "kubectl annotate --overwrite --namespace "+s.namespace+" cloudsigmaclusters by-secret "+recordKey+"=me")
		none(ctx, "AuthorNotAllowed")
	}, SpecTimeout(2*timeout))

	It("denies the record of somebody else if another webhook writes it", func(ctx SpecContext) {
		who := s.newUser(ctx)
		email := w.user("forged@example.com").Email
		s.grant(ctx, who, permission{rule: impersonating(email)})
		stale := newCluster(s.namespace, "stale", s.user.Email)
		Expect(w.client.Create(ctx, stale.DeepCopy())).To(Succeed())
		configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "warrantgate"}}
		Expect(w.client.Delete(ctx, configuration)).To(Succeed()) // so that the record of the request is stored
		DeferCleanup(func(ctx SpecContext) {
			_, err := w.gate.Install(ctx)
			Expect(err).NotTo(HaveOccurred())
		})
		cluster := newCluster(s.namespace, "forged", email)
		cluster.SetAnnotations(map[string]string{recordKey: `{"username":"root","groups":["system:masters"]}`})
		var err error
		Eventually(func() error {
			err = who.client.Create(ctx, cluster.DeepCopy())
			if err == nil {
				Expect(w.client.Delete(ctx, cluster.DeepCopy())).To(Succeed())
			}
			return err
		}).Should(HaveOccurred())
		expectClusterDenial(err, "cloudsigmaclusters.cluster.warrantgate.dev", "RecordForged", "metadata.annotations["+recordKey+"]")

		By("and a change of the user that leaves the record of the user's former author")
		err = who.client.Patch(ctx, stale.DeepCopy(), userEmailField.mergePatch(fmt.Sprintf("%q", email)))
		Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.HasStatusCause(err, "RecordOutdated")).To(BeTrue(), "%v", err)
	}, SpecTimeout(timeout))
})

// revoke removes all permissions of an author to impersonate users.
func (w *world) revoke(ctx context.Context, who author) {
	GinkgoHelper()
	var bindings rbacv1.ClusterRoleBindingList
	Expect(w.client.List(ctx, &bindings)).To(Succeed())
	for i := range bindings.Items {
		for _, subject := range bindings.Items[i].Subjects {
			if subject.Kind == who.subject.Kind && subject.Name == who.subject.Name && subject.Namespace == who.subject.Namespace {
				Expect(w.client.Delete(ctx, &bindings.Items[i])).To(Succeed())
			}
		}
	}
}
