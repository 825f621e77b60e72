//go:build e2e

package attacks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/e2e/env/volume"
)

// Guarantee 7, the part of clusters: a cluster that refers to a Secret does not delay the writes of the Secret's owner, unless the
// author of the cluster may read the Secret.
var _ = Describe("the editor of a namespace whose clusters refer to another tenant's Secret", Serial, func() {
	It("does not delay writes of the Secret", func(ctx SpecContext) {
		w := kube(ctx)
		attacker, victim := w.editor(ctx, w.namespace(ctx)), w.editor(ctx, w.namespace(ctx))
		own := w.user("own-" + attacker.namespace + "@example.com")
		first, second := w.user("first-"+victim.namespace+"@example.com"), w.user("second-"+victim.namespace+"@example.com")
		// The attacker may even impersonate the user that the Secret names.
		w.permit(ctx, attacker.name, own.Email, first.Email, second.Email)
		w.permit(ctx, victim.name, first.Email, second.Email)
		secret := userSecret(victim.namespace, first.Email)
		Expect(victim.client.Create(ctx, secret.DeepCopy())).To(Succeed())

		refers := map[string]any{"name": "user", "namespace": victim.namespace}
		By("one cluster of the attacker already refers to the Secret, because the attacker had the permission before")
		binding := letRead(ctx, w, victim.namespace, attacker.name)
		Eventually(func() error {
			return attacker.client.Create(ctx, newObject(clusterKind, attacker.namespace, "old", map[string]any{"region": region, "userRef": refers}))
		}).Should(Succeed())
		Expect(w.admin.Delete(ctx, binding)).To(Succeed())
		Eventually(func() error {
			return attacker.client.Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{})
		}).ShouldNot(Succeed())

		Expect(attacker.client.Create(ctx, newCluster(attacker.namespace, "pool", own.Email))).To(Succeed())
		flooding, stop := context.WithCancel(ctx)
		var flood sync.WaitGroup
		DeferCleanup(flood.Wait)
		DeferCleanup(stop)
		var sent, denied atomic.Int64
		attack := func(write func(i int) error) {
			flood.Go(func() {
				for i := 0; flooding.Err() == nil; i++ {
					err := write(i)
					if flooding.Err() != nil {
						return
					}
					sent.Add(1)
					if err != nil && strings.Contains(err.Error(), fmt.Sprintf("which user %q may not read", attacker.name)) {
						denied.Add(1)
					}
				}
			})
		}
		for n := range 4 {
			attack(func(i int) error {
				cluster := newObject(clusterKind, attacker.namespace, fmt.Sprintf("new-%d-%d", n, i), map[string]any{"region": region, "userRef": refers})
				return attacker.client.Create(flooding, cluster)
			})
			attack(func(i int) error {
				cluster := newObject(clusterKind, attacker.namespace, fmt.Sprintf("dry-%d-%d", n, i), map[string]any{"region": region, "userRef": refers})
				return attacker.client.Create(flooding, cluster, client.DryRunAll)
			})
			attack(func(int) error {
				return patchSpec(flooding, attacker.client, newCluster(attacker.namespace, "pool", ""),
					fmt.Sprintf(`{"userEmail":null,"userRef":{"name":"user","namespace":%q}}`, victim.namespace))
			})
			attack(func(int) error {
				return patchSpec(flooding, attacker.client, newCluster(attacker.namespace, "old", ""), `{"region":"zrh"}`)
			})
		}
		Eventually(sent.Load).Should(BeNumerically(">", int64(volume.Of(50, 100))))

		heldUp, writes := 0, volume.Of(15, 60)
		for i := range writes {
			email := first.Email
			if i%2 == 0 {
				email = second.Email
			}
			if err := victim.client.Patch(ctx, userSecret(victim.namespace, ""), emailIs(email)); err != nil {
				AddReportEntry("held up", err.Error(), ReportEntryVisibilityFailureOrVerbose)
				heldUp++
			}
		}
		stop()
		flood.Wait()
		AddReportEntry("writes", fmt.Sprintf("%d of %d writes of the Secret were delayed by %d writes of clusters", heldUp, writes, sent.Load()), ReportEntryVisibilityAlways)
		Expect(heldUp).To(BeZero(), "writes of the Secret without a verdict, of %d", writes)
		Expect(denied.Load()).To(Equal(sent.Load()), "writes of the attacker that were denied because it may not read the Secret")
	}, SpecTimeout(startTimeout))
})

// letRead gives a user the permission to read the Secret "user" of a namespace. Deleting the returned object removes it.
func letRead(ctx context.Context, w *kubeWorld, namespace, username string) *rbacv1.RoleBinding {
	GinkgoHelper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "read-user"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"user"}, Verbs: []string{"get"},
	}}}
	Expect(w.admin.Create(ctx, role)).To(Succeed())
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: username}},
	}
	Expect(w.admin.Create(ctx, binding)).To(Succeed())
	return binding
}
