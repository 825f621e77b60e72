//go:build e2e

package attacks_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Guarantee 4: the author of an override does not choose the base that it is compared with.
var _ = Describe("the editor of a namespace who writes an override over the policy of Keystone", func() {
	const baseNamespace, baseName = "keystone-base", "live"

	It("cannot choose the base", func(ctx SpecContext) {
		w := kube(ctx)
		w.configure(ctx, strings.Replace(kubeConfiguration, "keystonePolicy:\n", "keystonePolicy:\n  base: [{namespace: "+baseNamespace+", name: "+baseName+"}]\n", 1))
		attacker := w.editor(ctx, w.namespace(ctx))
		override := func(rule string) error {
			return attacker.client.Create(ctx, newPolicyObject("ConfigMap", attacker.namespace, "override", policyLabels, "identity:create_user: "+rule+"\n"))
		}

		By("writing an override before the operator wrote the base")
		err := override("rule:cloud_admin")
		Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`ConfigMap "live" of namespace "keystone-base"`)))

		By("writing a base of the same name in its own namespace")
		mine := newPolicyObject("ConfigMap", attacker.namespace, baseName, nil, "cloud_admin: \"\"\n")
		Expect(attacker.client.Create(ctx, mine)).To(Succeed())
		Expect(apierrors.IsServiceUnavailable(override("rule:cloud_admin"))).To(BeTrue())

		By("writing a base in the namespace of the operator")
		Expect(w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: baseNamespace}})).To(Succeed())
		base := newPolicyObject("ConfigMap", baseNamespace, baseName, nil, "cloud_admin: role:admin and is_admin_project:True\n")
		Expect(apierrors.IsForbidden(attacker.client.Create(ctx, base.DeepCopyObject().(*corev1.ConfigMap)))).To(BeTrue()) //nolint:errcheck,forcetypeassert // it is one
		Expect(w.admin.Create(ctx, base)).To(Succeed())

		By("referring to a helper that the base does not have, and opening one that it has")
		expectPolicyDenied(override("rule:cloud_admn"), "unknown-rule")
		expectPolicyDenied(override("rule:cloud_admin\ncloud_admin: role:member"), "broader-than-default")

		By("referring to a helper of the base")
		Expect(override("rule:cloud_admin")).To(Succeed())
	}, SpecTimeout(startTimeout))
})
