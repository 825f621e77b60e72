//go:build e2e

package attacks_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	soundPolicy = "identity:list_users: rule:admin_required\n"
	// openPolicy allows all users to list users.
	openPolicy = "identity:list_users: \"\"\n"
	// mountedNamespace and mountedName select the object that Keystone mounts by name.
	mountedNamespace, mountedName = "keystone-mounts", "policy"
)

var policyLabels = map[string]string{"holds": "keystone-policy"}

// newPolicyObject returns a ConfigMap or a Secret with a policy.
func newPolicyObject(kind, namespace, name string, labels map[string]string, policy string) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	if kind == "Secret" {
		return &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: meta, Data: map[string][]byte{"policy.yaml": []byte(policy)},
		}
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: map[string]string{"policy.yaml": policy},
	}
}

// expectPolicyDenied expects a denial with 403 by the gate on policies, for a reason.
func expectPolicyDenied(err error, reason metav1.CauseType) {
	GinkgoHelper()
	Expect(err).To(MatchError(ContainSubstring(`keystone.warrantgate.dev" denied the request`)))
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	Expect(apierrors.HasStatusCause(err, reason)).To(BeTrue(), "%v", err)
}

// Guarantee 4: removing a selector label does not bypass a gate.
var _ = Describe("the editor of a namespace who hides a policy for Keystone", Ordered, func() {
	var w *kubeWorld
	BeforeAll(func(ctx SpecContext) {
		w = kube(ctx)
		Expect(w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mountedNamespace}})).To(Succeed())
	}, NodeTimeout(startTimeout))

	const base64Open = `"aWRlbnRpdHk6bGlzdF91c2VyczogIiIK"` // openPolicy
	// value is openPolicy in JSON.
	value := func(kind string) string {
		if kind == "Secret" {
			return base64Open
		}
		return `"identity:list_users: \"\"\n"`
	}
	// ways are the ways to write an object. Each removes the labels, and writes openPolicy if open is true.
	ways := func() map[string]func(ctx context.Context, attacker tenant, kind string, open bool) error {
		return map[string]func(ctx context.Context, attacker tenant, kind string, open bool) error{
			"by a merge patch": func(ctx context.Context, attacker tenant, kind string, open bool) error {
				data := ""
				if open {
					data = fmt.Sprintf(`, "data": {"policy.yaml": %s}`, value(kind))
				}
				patch := fmt.Sprintf(`{"metadata": {"labels": null}%s}`, data)
				return attacker.client.Patch(ctx, newPolicyObject(kind, attacker.namespace, "policy", nil, ""), client.RawPatch(types.MergePatchType, []byte(patch)))
			},
			"by a strategic merge patch": func(ctx context.Context, attacker tenant, kind string, open bool) error {
				data := ""
				if open {
					data = fmt.Sprintf(`, "data": {"policy.yaml": %s}`, value(kind))
				}
				patch := fmt.Sprintf(`{"metadata": {"labels": {"holds": "something"}}%s}`, data)
				return attacker.client.Patch(ctx, newPolicyObject(kind, attacker.namespace, "policy", nil, ""), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
			},
			"by a JSON patch": func(ctx context.Context, attacker tenant, kind string, open bool) error {
				data := ""
				if open {
					data = fmt.Sprintf(`, {"op": "replace", "path": "/data/policy.yaml", "value": %s}`, value(kind))
				}
				patch := fmt.Sprintf(`[{"op": "remove", "path": "/metadata/labels/holds"}%s]`, data)
				return attacker.client.Patch(ctx, newPolicyObject(kind, attacker.namespace, "policy", nil, ""), client.RawPatch(types.JSONPatchType, []byte(patch)))
			},
			"by an update": func(ctx context.Context, attacker tenant, kind string, open bool) error {
				policy := soundPolicy
				if open {
					policy = openPolicy
				}
				return attacker.client.Update(ctx, newPolicyObject(kind, attacker.namespace, "policy", nil, policy))
			},
			"by server-side apply": func(ctx context.Context, attacker tenant, kind string, open bool) error {
				policy := soundPolicy
				if open {
					policy = openPolicy
				}
				object := newPolicyObject(kind, attacker.namespace, "policy", map[string]string{"holds": ""}, policy)
				return attacker.client.Patch(ctx, object, client.Apply, client.FieldOwner("attacker"), client.ForceOwnership) //nolint:staticcheck // as raw as it can be
			},
		}
	}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		for way, write := range ways() {
			It(fmt.Sprintf("cannot remove the label of a %s %s, with or without a hidden policy", kind, way), func(ctx SpecContext) {
				attacker := w.editor(ctx, w.namespace(ctx))
				Expect(attacker.client.Create(ctx, newPolicyObject(kind, attacker.namespace, "policy", policyLabels, soundPolicy))).To(Succeed())
				expectPolicyDenied(write(ctx, attacker, kind, true), "KeystonePolicyDeselected")
				By("in two writes, the first without a harmful policy")
				expectPolicyDenied(write(ctx, attacker, kind, false), "KeystonePolicyDeselected")
				By("keeping the label")
				expectPolicyDenied(attacker.client.Update(ctx, newPolicyObject(kind, attacker.namespace, "policy", policyLabels, openPolicy)), "KeystonePolicyBroken")
			}, SpecTimeout(startTimeout))
		}

		It("cannot replace an object that Keystone mounts by name with one without the label, as a "+kind, func(ctx SpecContext) {
			attacker := w.editor(ctx, mountedNamespace)
			Expect(attacker.client.Create(ctx, newPolicyObject(kind, mountedNamespace, mountedName, policyLabels, soundPolicy))).To(Succeed())
			Expect(attacker.client.Delete(ctx, newPolicyObject(kind, mountedNamespace, mountedName, nil, ""))).To(Succeed())
			expectPolicyDenied(attacker.client.Create(ctx, newPolicyObject(kind, mountedNamespace, mountedName, nil, openPolicy)), "KeystonePolicyBroken")
			By("creating an empty object, and adding the policy later")
			Expect(attacker.client.Create(ctx, newPolicyObject(kind, mountedNamespace, mountedName, nil, soundPolicy))).To(Succeed())
			expectPolicyDenied(attacker.client.Update(ctx, newPolicyObject(kind, mountedNamespace, mountedName, nil, openPolicy)), "KeystonePolicyBroken")
			expectPolicyDenied(attacker.client.Patch(ctx, newPolicyObject(kind, mountedNamespace, mountedName, nil, ""),
				client.RawPatch(types.MergePatchType, []byte(`{"data": {"policy.yaml": `+value(kind)+`}}`))), "KeystonePolicyBroken")
			By("with another name, which Keystone does not mount")
			Expect(attacker.client.Create(ctx, newPolicyObject(kind, mountedNamespace, "else", nil, openPolicy))).To(Succeed())
		}, SpecTimeout(startTimeout))
	}

	It("cannot define a rule in a file that Keystone does not load", func(ctx SpecContext) {
		attacker := w.editor(ctx, w.namespace(ctx))
		expectPolicyDenied(attacker.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: attacker.namespace, Name: "policy", Labels: policyLabels},
			Data: map[string]string{
				".helpers": "helper: '@'\n", "policy.yaml": "identity:list_users: rule:admin_required or not rule:helper\n",
			},
		}), "KeystonePolicyBroken")
	}, SpecTimeout(startTimeout))

	It("can delete the object, or remove its content and its label together", func(ctx SpecContext) {
		attacker := w.editor(ctx, w.namespace(ctx))
		policy := newPolicyObject("ConfigMap", attacker.namespace, "policy", policyLabels, soundPolicy)
		Expect(attacker.client.Create(ctx, policy)).To(Succeed())
		Expect(attacker.client.Patch(ctx, policy, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": null}, "data": null}`)))).To(Succeed())
		Expect(attacker.client.Create(ctx, newPolicyObject("ConfigMap", attacker.namespace, "other", policyLabels, soundPolicy))).To(Succeed())
		Expect(attacker.client.Delete(ctx, newPolicyObject("ConfigMap", attacker.namespace, "other", nil, ""))).To(Succeed())
	}, SpecTimeout(startTimeout))
})
