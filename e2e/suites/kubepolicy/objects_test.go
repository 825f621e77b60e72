//go:build e2e

package kubepolicy_test

import (
	"fmt"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policies, and the text of their findings.
const (
	sound    = "identity:create_user: rule:admin_required\n"
	broken   = "identity:create_user: \"rule:admin_required or role:manager and domain_id:%(user.domain_id)s\"\nidentity:list_users: !\n"
	doubtful = "identity:create_user: rule:admin_required and domain_idd:x\n"

	saidOfBroken = `2 errors: policy.yaml:1, rule "identity:create_user": Keystone does not fill %(user.domain_id)s in for identity:create_user: ` +
		`the check is always false (write "%(target.user.domain_id)s"); policy.yaml:2, rule "identity:list_users": an exclamation mark without ` +
		`quotes is an empty tag to YAML: the rule is empty, and an empty rule allows everybody (write "!" in quotes to deny, or "@" in quotes to ` +
		`allow everybody); "warrantgate lint keystone-policy" lists all problems of the file`
	saidOfDoubtful = `1 warning: policy.yaml:1, rule "identity:create_user": Keystone's credentials have no "domain_idd", so that the check is false ` +
		`or raises an exception (write "domain_id"); "warrantgate lint keystone-policy" lists all problems of the file`
)

// selected are the labels of the objects that the gate evaluates.
var selected = map[string]string{"holds": "keystone-policy"}

func newConfigMap(namespace, name, policy string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: maps.Clone(selected)}, Data: map[string]string{"policy.yaml": policy},
	}
}

func newSecret(namespace, name, policy string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: maps.Clone(selected)}, StringData: map[string]string{"policy.yaml": policy},
	}
}

// manifest is a ConfigMap as users write it.
func manifest(namespace, policy string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: %s\n  name: policy\n  labels: {holds: keystone-policy}\n"+
		"data:\n  policy.yaml: |\n    %s", namespace, policy)
}

// about returns the message for an object.
func about(kind, namespace, text string) string {
	return fmt.Sprintf("%s \"policy\" of namespace %q: %s", kind, namespace, text)
}

// expectDenial expects a denial with 403 by the gate, with a message and the codes of findings.
func expectDenial(err error, message string, codes ...metav1.CauseType) {
	GinkgoHelper()
	Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	Expect(err).To(MatchError(`admission webhook "policies.keystone.warrantgate.dev" denied the request: ` + message))
	for _, code := range append(codes, "KeystonePolicyBroken") {
		Expect(apierrors.HasStatusCause(err, code)).To(BeTrue(), "no cause %s: %v", code, err)
	}
}
