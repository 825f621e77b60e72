//go:build e2e

package machine_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/fakes/cloudsigmatest"
)

// A cluster can take its user from a Secret. Claims of its machines are evaluated with the current user in that Secret.
var _ = Describe("a cluster that takes its user from a Secret", sharing, func() {
	It("may name servers of the user in a Secret of its own namespace", func(ctx SpecContext) {
		s := beginWithSecret(ctx, inOwnNamespace)
		s.expectOnlyOwn(ctx)
	}, SpecTimeout(timeout))

	// The author of a machine may not be able to read that Secret.
	It("may name servers of the user in a Secret of another namespace, and a denial names the Secret instead of the user", func(ctx SpecContext) {
		s := beginWithSecret(ctx, inAnotherNamespace)
		Expect(s.secret.Namespace).NotTo(Equal(s.namespace))
		s.expectOnly(ctx, And(
			ContainSubstring(`the user that Secret "user" of namespace %q names`, s.secret.Namespace),
			Not(ContainSubstring(s.user.Email)), Not(ContainSubstring(s.user.UUID)),
		))
	}, SpecTimeout(timeout))

	It("may name servers of the user in its own spec, which has precedence", func(ctx SpecContext) {
		s := beginWithSecret(ctx, inOwnNamespace)
		other := s.world.user("someone-else@example.com")
		s.secret.Data = map[string][]byte{"userEmail": []byte(other.Email)}
		Expect(s.client.Update(ctx, s.secret)).To(Succeed())
		s.changeCluster(ctx, with("spec.userEmail", s.user.Email))
		s.expectOnlyOwn(ctx)
	}, SpecTimeout(timeout))

	It("may name servers of the new user after the Secret changed", func(ctx SpecContext) {
		s := beginWithSecret(ctx, inOwnNamespace)
		before := s.cloud.AddServer(region, s.user, "node").UUID
		s.user = s.world.user("next-" + s.user.Email)
		s.secret.Data = map[string][]byte{"userEmail": []byte(s.user.Email)}
		Expect(s.client.Update(ctx, s.secret)).To(Succeed())
		expectNotOwned(s.setInstanceID(ctx, s.createMachine(ctx, "before"), before))
		s.expectOnlyOwn(ctx)
	}, SpecTimeout(timeout))

	DescribeTable("may name no servers while the user is not known",
		func(ctx SpecContext, where func(context.Context, story) string, spoil func(context.Context, withSecret) error, reason string) {
			s := beginWithSecret(ctx, where)
			machine := s.createMachine(ctx, "node")
			own := s.cloud.AddServer(region, s.user, "node").UUID
			Expect(spoil(ctx, s)).To(Succeed())
			err := s.setInstanceID(ctx, machine, own)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(apierrors.HasStatusCause(err, metav1.CauseType(reason))).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(And(
				ContainSubstring(`CloudSigmaCluster "pool"`), ContainSubstring("spec.userRef"),
				ContainSubstring(s.secret.Name), ContainSubstring(s.secret.Namespace))))
			Expect(s.cloud.Count(cloudsigmatest.GetServer, s.user.Email)).To(BeZero())

			By("creating such a cluster is denied")
			// For some seconds after the creation of a Secret, warrantgate cannot distinguish a deleted Secret from one that is not stored yet.
			Eventually(func() error { return s.client.Create(ctx, s.newCluster("another")) }).Should(Satisfy(func(err error) bool {
				return apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, metav1.CauseType(reason))
			}))

			By("until the user is known")
			s.putSecret(ctx)
			Expect(s.setInstanceID(ctx, machine, own)).To(Succeed())
		},
		Entry("because it is missing", inOwnNamespace, removed, "UserSecretMissing", SpecTimeout(timeout)),
		Entry("because it is missing, in another namespace", inAnotherNamespace, removed, "UserSecretMissing", SpecTimeout(timeout)),
		Entry("because the email has another key", inOwnNamespace, naming(map[string][]byte{"email": []byte("x@example.com")}), "UserMissing",
			SpecTimeout(timeout)),
	)
})

// withSecret is a story whose cluster refers to a Secret with its user.
type withSecret struct {
	story
	secret *corev1.Secret
}

func beginWithSecret(ctx context.Context, where func(context.Context, story) string) withSecret {
	GinkgoHelper()
	w := shared(ctx)
	s := withSecret{story: story{world: w, namespace: w.namespace(ctx)}}
	s.user = w.user(s.namespace + "@example.com")
	s.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: where(ctx, s.story), Name: "user"}}
	s.putSecret(ctx)
	Expect(s.client.Create(ctx, s.newCluster(clusterName))).To(Succeed())
	return s
}

func inOwnNamespace(_ context.Context, s story) string { return s.namespace }

func inAnotherNamespace(ctx context.Context, s story) string { return s.world.namespace(ctx) }

// newCluster returns a cluster that refers to the Secret. It names a namespace only if it has to.
func (s withSecret) newCluster(name string) *unstructured.Unstructured {
	ref := map[string]any{"name": s.secret.Name}
	if s.secret.Namespace != s.namespace {
		ref["namespace"] = s.secret.Namespace
	}
	return newObject(clusterKind, s.namespace, name, with("spec.region", region), with("spec.userRef", ref))
}

// putSecret makes the Secret name the story's user.
func (s withSecret) putSecret(ctx context.Context) {
	GinkgoHelper()
	Expect(s.client.Delete(ctx, s.secret.DeepCopy())).To(Or(Succeed(), Satisfy(apierrors.IsNotFound)))
	s.secret.ResourceVersion = ""
	s.secret.Data = map[string][]byte{"userEmail": []byte(s.user.Email)}
	Expect(s.client.Create(ctx, s.secret)).To(Succeed())
}

func removed(ctx context.Context, s withSecret) error {
	return s.client.Delete(ctx, s.secret.DeepCopy())
}

func naming(data map[string][]byte) func(context.Context, withSecret) error {
	return func(ctx context.Context, s withSecret) error {
		s.secret.Data = data
		return s.client.Update(ctx, s.secret)
	}
}

// expectOnlyOwn expects that machines of the cluster may name servers of the user, and no others.
func (s story) expectOnlyOwn(ctx context.Context) {
	GinkgoHelper()
	s.expectOnly(ctx, ContainSubstring(s.user.Email))
}

// expectOnly is expectOnlyOwn with what the denial of another user's server contains.
func (s story) expectOnly(ctx context.Context, contains types.GomegaMatcher) {
	GinkgoHelper()
	s.admits(ctx)
	foreign := s.cloud.AddServer(region, s.cloud.AddUser("another-user@example.com"), "foreign").UUID
	err := s.setInstanceID(ctx, s.createMachine(ctx, "foreign"), foreign)
	expectNotOwned(err)
	Expect(err).To(MatchError(contains))
}

// changeCluster changes the story's cluster as its administrator.
func (s story) changeCluster(ctx context.Context, change func(*unstructured.Unstructured)) {
	GinkgoHelper()
	cluster := newObject(clusterKind, s.namespace, clusterName)
	Expect(s.client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
	change(cluster)
	Expect(s.client.Update(ctx, cluster)).To(Succeed())
}
