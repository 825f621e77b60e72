package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// deadAttribute is an attribute that old releases of Keystone set for operations that create a user. userAttribute is the
	// current one.
	deadAttribute, userAttribute = "%(user.domain_id)s", "%(target.user.domain_id)s"
	// createUserRule should allow a domain manager to create users in the domain. The attribute is a placeholder.
	createUserRule = `"identity:create_user": "role:manager and token.domain.id:%s"` + "\n"
)

// denyBrokenPolicy stores a policy for Keystone with an attribute that does not exist.
func denyBrokenPolicy(ctx context.Context, d *demo) error {
	c := d.machines.api.Client()
	d.say("A ConfigMap holds the policy for Keystone, which should let the manager of a domain create users there. Keystone would accept " +
		"it without an error, and then no user could create users:")
	broken := keystonePolicy(deadAttribute)
	d.quote("CREATE ConfigMap " + broken.Name + ": " + broken.Data["policy.yaml"])
	if err := d.showDenial(c.Create(ctx, broken), "KeystonePolicyBroken", "identity:create_user", deadAttribute, userAttribute); err != nil {
		return err
	}
	d.say("The rule that the denial suggests is accepted:")
	corrected := keystonePolicy(userAttribute)
	d.quote("CREATE ConfigMap " + corrected.Name + ": " + corrected.Data["policy.yaml"])
	return c.Create(ctx, corrected)
}

// keystonePolicy is a ConfigMap with the rule, for an attribute.
func keystonePolicy(attribute string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: policyNamespace, Name: "policy", Labels: map[string]string{"holds": "keystone-policy"}},
		Data:       map[string]string{"policy.yaml": fmt.Sprintf(createUserRule, attribute)},
	}
}
