//go:build e2e

package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/suite"
)

const (
	clusterWebhook = "cloudsigmaclusters.cluster.warrantgate.dev"
	secretWebhook  = "secrets.cluster.warrantgate.dev"
)

// A requester names a user by making a cluster refer to a Secret with that user, and also by writing that Secret.
var _ = Describe("a Secret that names a cluster's user", sharing, func() {
	It("needs the same permission as an email, and is not disclosed to requesters who may not read it", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		email := "hidden-" + uuid.NewString() + "@example.com"
		s.putUser(ctx, s.namespace, email)
		cluster := s.referringCluster("by-secret", "")
		hidden := denialBySecret(cluster, who, s.namespace)

		err := who.client.Create(ctx, cluster.DeepCopy())
		expectClusterDenial(err, clusterWebhook, "ImpersonationNotAllowed", "spec.userRef")
		Expect(messageOf(err)).To(Equal(hidden))

		By("a requester who may read the Secret gets the user's name and the commands that grant the permission")
		s.grant(ctx, who, permission{namespace: s.namespace, rule: readingUser()})
		err = who.client.Create(ctx, cluster.DeepCopy())
		expectClusterDenial(err, clusterWebhook, "ImpersonationNotAllowed", "spec.userRef")
		Expect(messageOf(err)).To(HavePrefix(strings.ReplaceAll(denial(userEmailField, cluster, who, email), "spec.userEmail", "spec.userRef")))
		s.kubectl(ctx, printed(err))
		Eventually(who.client.Create).WithArguments(ctx, cluster).Should(Succeed())
	}, SpecTimeout(timeout))

	DescribeTable("that names no user is denied", func(ctx SpecContext, reason, text string, data map[string]string, present, own bool) {
		s := begin(ctx)
		who := s.newUser(ctx)
		namespace, ref := s.namespace, ""
		if !own {
			namespace = s.world.namespace(ctx)
			ref = namespace
			s.grant(ctx, who, permission{namespace: namespace, rule: readingUser()})
		}
		email := "named-" + s.namespace + "@example.com"
		s.grant(ctx, who, permission{rule: impersonating(email)})
		if present {
			Expect(s.client.Create(ctx, userSecret(namespace, data))).To(Succeed())
		}
		cluster := s.referringCluster("by-secret", ref)
		want := fmt.Sprintf("spec.userRef of CloudSigmaCluster \"by-secret\" of namespace %q: %s; "+
			"write the user's email there under the key userEmail first, or name the user in spec.userEmail", s.namespace, fmt.Sprintf(text, namespace))
		for _, c := range []client.Client{who.client, s.client} { // regardless of the permissions of the requester
			err := c.Create(ctx, cluster.DeepCopy())
			expectClusterDenial(err, clusterWebhook, reason, "spec.userRef")
			Expect(messageOf(err)).To(Equal(want))
		}

		By("also in a cluster that already has a user")
		pool := newObject(clusterKind, s.namespace, clusterName)
		Expect(s.client.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		err := who.client.Patch(ctx, pool.DeepCopy(), byRef(ref))
		expectClusterDenial(err, clusterWebhook, reason, "spec.userRef")
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(pool).Should(HaveExactElements(And(
			HaveField("Reason", reason), HaveField("Message", "Denied: "+messageOf(err)))))
		Expect(s.describe(pool)).To(MatchRegexp(`(?m)^ +Warning +` + reason + ` .*` + regexp.QuoteMeta("Denied: "+messageOf(err)) + `$`))
		Expect(s.named(ctx, userEmailField, pool)).To(Equal(s.user.Email))

		By("until it names a user")
		s.putUser(ctx, namespace, email)
		Expect(who.client.Create(ctx, cluster)).To(Succeed())
		Expect(who.client.Patch(ctx, pool, byRef(ref))).To(Succeed())
	},
		Entry("because it is missing", "UserSecretMissing", `there is no Secret "user" in namespace %q`, nil, false, true, SpecTimeout(timeout)),
		Entry("because it is missing in another namespace", "UserSecretMissing", `there is no Secret "user" in namespace %q`, nil, false, false, SpecTimeout(timeout)),
		Entry("because its key is another one", "UserMissing", `Secret "user" in namespace %q has nothing under the key userEmail`,
			map[string]string{"useremail": "somebody@example.com"}, true, true, SpecTimeout(timeout)),
	)

	It("of another namespace needs the permission to read it, and a denial does not disclose whether it exists", func(ctx SpecContext) {
		s := begin(ctx)
		who, namespace := s.newServiceAccount(ctx), s.world.namespace(ctx)
		email := "named-" + s.namespace + "@example.com"
		s.grant(ctx, who, permission{rule: impersonating(email)}) // which is not enough
		cluster := s.referringCluster("by-secret", namespace)
		want := fmt.Sprintf("spec.userRef of CloudSigmaCluster \"by-secret\" of namespace %q: it names Secret \"user\" of another namespace, %q, "+
			"which user %q may not read; name a Secret of the cluster's own namespace or one that you may read, or have the permission granted: "+
			"verb get on this Secret", s.namespace, namespace, who.username)
		denied := func() {
			GinkgoHelper()
			err := who.client.Create(ctx, cluster.DeepCopy())
			expectClusterDenial(err, clusterWebhook, "SecretNotReadable", "spec.userRef")
			Expect(messageOf(err)).To(Equal(want))
		}
		denied()
		s.putUser(ctx, namespace, email)
		denied()
		s.grant(ctx, who, permission{namespace: s.namespace, rule: readingUser()}) // in the wrong namespace
		denied()

		By("an update is denied with the same message, and has an Event")
		pool := newObject(clusterKind, s.namespace, clusterName)
		Expect(s.client.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		err := who.client.Patch(ctx, pool.DeepCopy(), byRef(namespace))
		expectClusterDenial(err, clusterWebhook, "SecretNotReadable", "spec.userRef")
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(pool).Should(HaveExactElements(And(
			HaveField("Reason", "SecretNotReadable"), HaveField("Message", "Denied: "+messageOf(err)))))

		By("until the author may read the Secret")
		s.grant(ctx, who, permission{namespace: namespace, rule: readingUser()})
		Eventually(who.client.Create).WithArguments(ctx, cluster).Should(Succeed())

		By("that permission alone is not enough")
		s.putUser(ctx, namespace, "next-"+email)
		next := s.referringCluster("next", namespace)
		err = who.client.Create(ctx, next.DeepCopy())
		expectClusterDenial(err, clusterWebhook, "ImpersonationNotAllowed", "spec.userRef")
		Expect(messageOf(err)).To(HavePrefix(strings.ReplaceAll(denial(userEmailField, next, who, "next-"+email), "spec.userEmail", "spec.userRef")))
	}, SpecTimeout(timeout))

	It("is used after the email, which has precedence, is removed", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		s.grant(ctx, who, permission{rule: impersonating(s.user.Email)})
		s.putUser(ctx, s.namespace, "hidden-"+s.user.Email)
		cluster := s.referringCluster("both", "", with("spec.userEmail", s.user.Email))
		Expect(who.client.Create(ctx, cluster)).To(Succeed())
		err := who.client.Patch(ctx, cluster.DeepCopy(), userEmailField.mergePatch("null"))
		expectClusterDenial(err, clusterWebhook, "ImpersonationNotAllowed", "spec.userRef")
		Expect(messageOf(err)).To(Equal(denialBySecret(cluster, who, s.namespace)))
		Expect(s.named(ctx, userEmailField, cluster)).To(Equal(s.user.Email))

		By("and removing both is denied")
		Expect(who.client.Patch(ctx, cluster.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"spec":{"userEmail":null,"userRef":null}}`)))).To(Succeed())
	}, SpecTimeout(timeout))

	// A cluster that refers to it is created a moment later, or was before.
	It("names no user that its author may not impersonate, whether or not a cluster refers to it", func(ctx SpecContext) {
		s := begin(ctx)
		email, next := "named-"+s.namespace+"@example.com", "next-"+s.namespace+"@example.com"
		secret, who := s.putUser(ctx, s.namespace, email), s.newUser(ctx)
		s.grant(ctx, who, permission{namespace: s.namespace, rule: rule(corev1.GroupName, "secrets", "create", "update", "patch", "delete")})
		subject := fmt.Sprintf("data.userEmail of Secret \"user\" of namespace %q: user %q may not impersonate ", s.namespace, who.username)
		const acting = "; name a user that you may impersonate, or have it granted: "

		By("on a dry run, without an Event")
		err := who.client.Patch(ctx, secret.DeepCopy(), userIs(next), client.DryRunAll)
		expectClusterDenial(err, secretWebhook, "ImpersonationNotAllowed", "data.userEmail")
		pool := newObject(clusterKind, s.namespace, clusterName)
		Expect(s.client.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
		unreadable := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"userEmail":null,"userRef":{"name":"any","namespace":"kube-system"}}}`))
		expectClusterDenial(who.client.Patch(ctx, pool.DeepCopy(), unreadable), clusterWebhook, "SecretNotReadable", "spec.userRef")
		// Events are written in order: if there is one about the second attempt, there will be none about the first.
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(pool).Should(HaveLen(1))
		Expect(s.eventsOn(ctx, secret)).To(BeEmpty())

		for i, way := range secretWrites {
			By("by " + way.name)
			if i == 1 {
				Expect(s.client.Create(ctx, s.referringCluster("by-secret", ""))).To(Succeed())
			}
			err := way.send(ctx, who.client, secret, next)
			expectClusterDenial(err, secretWebhook, "ImpersonationNotAllowed", "data.userEmail")
			Expect(messageOf(err)).To(HavePrefix(subject + fmt.Sprintf("%q", next) + acting + "kubectl create clusterrole "))
			Expect(messageOf(err)).NotTo(ContainSubstring(email), "the author may not read the current user")
			Expect(s.userIn(ctx, secret)).To(Equal(email))
		}
		// Not every user who may read Events may read Secrets, so Events do not contain the user.
		Eventually(s.eventsOn).WithContext(ctx).WithArguments(secret).Should(HaveExactElements(And(
			HaveField("Reason", "ImpersonationNotAllowed"), HaveField("Count", BeEquivalentTo(len(secretWrites))),
			HaveField("Message", "Denied: "+subject+fmt.Sprintf("the user that Secret \"user\" of namespace %q names", s.namespace)+acting+
				"verb impersonate on resource users, by the name of this user in lower case"))))

		By("nor by deleting it and creating another")
		Expect(s.client.Delete(ctx, secret.DeepCopy())).To(Succeed())
		again := userSecret(s.namespace, map[string]string{"userEmail": next})
		expectClusterDenial(who.client.Create(ctx, again.DeepCopy()), secretWebhook, "ImpersonationNotAllowed", "data.userEmail")

		By("until the author may impersonate the user")
		s.grant(ctx, who, permission{rule: impersonating(next)})
		Eventually(who.client.Create).WithArguments(ctx, again.DeepCopy()).Should(Succeed())
		Expect(s.userIn(ctx, again)).To(Equal(next))
	}, SpecTimeout(timeout))

	It("names no user with blanks around the email, by an author with every permission", func(ctx SpecContext) {
		s := begin(ctx)
		who := s.newUser(ctx)
		s.grant(ctx, who, permission{rule: rule("*", "*", "*")})
		secret := s.putUser(ctx, s.namespace, s.user.Email)
		inSecret := place{kind: corev1.SchemeGroupVersion.WithKind("Secret"), field: "data.userEmail", webhook: secretWebhook}
		for _, email := range []string{" " + s.user.Email, "\t" + s.user.Email, s.user.Email + "\n", " \n"} {
			for _, way := range secretWrites {
				expectMalformed(way.send(ctx, who.client, secret, email), inSecret, secret)
				Expect(s.userIn(ctx, secret)).To(Equal(s.user.Email), way.name)
			}
			created := userSecret(s.world.namespace(ctx), map[string]string{"userEmail": email})
			expectMalformed(who.client.Create(ctx, created), inSecret, created)
		}
	}, SpecTimeout(timeout))

	Describe("whose content is secret", Ordered, func() {
		var w *world
		BeforeAll(func(ctx SpecContext) {
			// The audit reports clusters that an administrator created, and names their users.
			w = newWorld(ctx, setup{configuration: "audit: {mode: Off}\n", args: []string{"--log-level=debug"}})
		}, NodeTimeout(setupTimeout))

		It("is in no denial, no Event and no line of the log", func(ctx SpecContext) {
			s := w.begin(ctx)
			who, elsewhere := s.newUser(ctx), w.namespace(ctx)
			s.grant(ctx, who, permission{namespace: s.namespace, rule: rule("", "secrets", "update", "patch", "create")})
			canary := "canary" + strings.ReplaceAll(uuid.NewString(), "-", "")
			data := map[string]string{"userEmail": canary + "@example.com", "password": canary}
			for _, namespace := range []string{s.namespace, elsewhere} {
				Expect(s.client.Create(ctx, userSecret(namespace, data))).To(Succeed())
			}
			pool := newObject(clusterKind, s.namespace, clusterName)
			Expect(s.client.Get(ctx, client.ObjectKeyFromObject(pool), pool)).To(Succeed())
			denials := []error{}
			for _, namespace := range []string{"", elsewhere} {
				denials = append(denials,
					who.client.Create(ctx, s.referringCluster("by-secret", namespace)),
					who.client.Create(ctx, s.referringCluster("by-secret", namespace), client.DryRunAll),
					who.client.Patch(ctx, pool.DeepCopy(), byRef(namespace)))
			}

			By("also if a cluster acts as that user, and a request writes another user into the Secret")
			Expect(s.client.Create(ctx, s.referringCluster("by-secret", ""))).To(Succeed())
			secret := userSecret(s.namespace, nil)
			Expect(s.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
			for _, way := range secretWrites {
				denials = append(denials, way.send(ctx, who.client, secret, "next@example.com"))
			}

			Expect(denials).To(HaveEach(Satisfy(apierrors.IsForbidden)))
			Eventually(s.eventsOn).WithContext(ctx).WithArguments(pool).Should(ConsistOf(
				HaveField("Reason", "ImpersonationNotAllowed"), HaveField("Reason", "SecretNotReadable")))
			Eventually(s.eventsOn).WithContext(ctx).WithArguments(secret).Should(ConsistOf(HaveField("Reason", "ImpersonationNotAllowed")))
			var events corev1.EventList
			Expect(s.client.List(ctx, &events)).To(Succeed())
			everything, err := json.Marshal(events)
			Expect(err).NotTo(HaveOccurred())
			Expect(suite.Log(w.gate)).To(ContainSubstring(`"level":"DEBUG`))
			for where, text := range map[string]string{
				"denials and warnings": w.recorder.Texts(), "Events": string(everything), "the log": suite.Log(w.gate), "metrics": w.metrics(ctx),
			} {
				Expect(text).NotTo(BeEmpty())
				Expect(strings.Contains(text, canary)).To(BeFalse(), "it is in "+where)
			}
		}, SpecTimeout(timeout))
	})
})

// userSecret returns the Secret "user".
func userSecret(namespace string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user"}, StringData: data,
	}
}

// putUser makes the Secret "user" of a namespace name a user, as an administrator does.
func (s story) putUser(ctx context.Context, namespace, email string) *corev1.Secret {
	GinkgoHelper()
	secret := userSecret(namespace, map[string]string{"userEmail": email})
	err := s.client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = s.client.Patch(ctx, secret, userIs(email))
	}
	Expect(err).NotTo(HaveOccurred())
	return secret
}

// referringCluster returns a cluster that refers to the Secret "user" of a namespace, of its own if none is given.
func (s story) referringCluster(name, namespace string, modify ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	ref := map[string]any{"name": "user"}
	if namespace != "" {
		ref["namespace"] = namespace
	}
	return newObject(clusterKind, s.namespace, name, append(modify, with("spec.region", region), with("spec.userRef", ref))...)
}

// byRef makes a cluster refer to the Secret "user" instead of naming its user.
func byRef(namespace string) client.Patch {
	ref := `{"name":"user"}`
	if namespace != "" {
		ref = fmt.Sprintf(`{"name":"user","namespace":%q}`, namespace)
	}
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"userEmail":null,"userRef":%s}}`, ref))
}

// readingUser is the permission to read the Secret "user".
func readingUser() rbacv1.PolicyRule {
	reading := rule(corev1.GroupName, "secrets", "get")
	reading.ResourceNames = []string{"user"}
	return reading
}

// denialBySecret is the message for a requester who may not read the Secret "user" of a namespace.
func denialBySecret(cluster *unstructured.Unstructured, who author, namespace string) string {
	return fmt.Sprintf("spec.userRef of CloudSigmaCluster %q of namespace %q: user %q may not impersonate the user that Secret \"user\" of namespace %q names; "+
		"name a user that you may impersonate, or have it granted: verb impersonate on resource users, by the name of this user in lower case",
		cluster.GetName(), cluster.GetNamespace(), who.username, namespace)
}

// secretWrites are all ways to write the user in a Secret.
var secretWrites = []struct {
	name string
	send func(ctx context.Context, c client.Client, secret *corev1.Secret, email string) error
}{
	{"PUT", func(ctx context.Context, c client.Client, secret *corev1.Secret, email string) error {
		changed := userSecret(secret.Namespace, nil)
		changed.Data = map[string][]byte{"userEmail": []byte(email)}
		return c.Update(ctx, changed)
	}},
	{"PUT of stringData", func(ctx context.Context, c client.Client, secret *corev1.Secret, email string) error {
		return c.Update(ctx, userSecret(secret.Namespace, map[string]string{"userEmail": email}))
	}},
	{"merge patch", func(ctx context.Context, c client.Client, secret *corev1.Secret, email string) error {
		return c.Patch(ctx, secret.DeepCopy(), userIs(email))
	}},
	{"JSON patch", func(ctx context.Context, c client.Client, secret *corev1.Secret, email string) error {
		value, err := json.Marshal([]byte(email))
		if err != nil {
			return err
		}
		return c.Patch(ctx, secret.DeepCopy(), client.RawPatch(types.JSONPatchType,
			fmt.Appendf(nil, `[{"op":"add","path":"/data/userEmail","value":%s}]`, value)))
	}},
	{"server-side apply", func(ctx context.Context, c client.Client, secret *corev1.Secret, email string) error {
		applied := newObject(corev1.SchemeGroupVersion.WithKind("Secret"), secret.Namespace, secret.Name, with("stringData.userEmail", email))
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("author"), client.ForceOwnership)
	}},
}

// userIs makes a Secret name a user.
func userIs(email string) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"userEmail":%q}}`, email))
}

// userIn returns the user in a stored Secret.
func (w *world) userIn(ctx context.Context, secret *corev1.Secret) string {
	GinkgoHelper()
	current := &corev1.Secret{}
	Expect(w.client.Get(ctx, client.ObjectKeyFromObject(secret), current)).To(Succeed())
	return string(current.Data["userEmail"])
}
