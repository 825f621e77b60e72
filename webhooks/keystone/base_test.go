package keystone_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/webhookstest"
)

// live is the ConfigMap with the base.
func live(keysAndTexts ...string) *corev1.ConfigMap {
	c := configMap(keysAndTexts...)
	c.ObjectMeta = metav1.ObjectMeta{Namespace: "keystone", Name: "live"}
	return c
}

func TestPoliciesOverABase(t *testing.T) {
	const (
		uses         = "identity:create_user: rule:helper\n"
		helper       = "helper: role:admin\n"
		open         = "helper: role:member\n"
		saidOfUses   = `policy.yaml:1, rule "identity:create_user": there is no rule "helper", which counts as false`
		saidOfShared = `a:1, rule "identity:create_user": there is no rule "helper", which counts as false`
	)
	unknown := deniedFor("ConfigMap", ofConfigMap, "data[policy.yaml]", saidOfUses, cause("unknown-rule", "data[policy.yaml]", saidOfUses))
	over := func(objects ...v1beta1.KeystonePolicyBase) v1beta1.KeystonePolicy {
		return config(func(c *v1beta1.KeystonePolicy) { c.Base = objects })
	}
	base := v1beta1.KeystonePolicyBase{Namespace: "keystone", Name: "live"}
	keyed := base
	keyed.Keys = []string{"z", "a"}
	unreadable := func(why string) webhookstest.Answer {
		return withEvent(webhookstest.Answer{
			Decision: webhooks.Undecided, Reason: "KeystonePolicyBaseUnreadable", Message: ofConfigMap + "its rules cannot be checked, because the base policy " + why +
				`: ask the operator of warrantgate to correct the ConfigMap "live" of namespace "keystone", which keystonePolicy.base of its configuration names, and try again`,
		}, "ConfigMap", "Denied: ")
	}
	for name, tc := range map[string]struct {
		config       v1beta1.KeystonePolicy
		cluster      []runtime.Object
		old, changed client.Object
		want         webhookstest.Answer
	}{
		"no base is configured": {
			config: config(), cluster: []runtime.Object{live("a", helper)}, old: configMap(), changed: configMap("policy.yaml", uses), want: unknown,
		},
		"a rule of the base": {
			config: over(base), cluster: []runtime.Object{live("a", helper)}, old: configMap(), changed: configMap("policy.yaml", uses), want: allowed("KeystonePolicySound"),
		},
		"the object cannot choose the base": {
			config: over(base), cluster: []runtime.Object{live("a", "other: role:admin\n")}, old: configMap(),
			changed: func() client.Object {
				c := configMap("policy.yaml", uses)
				c.Annotations = map[string]string{"keystonePolicy.base": "mine"}
				return c
			}(),
			want: unknown,
		},
		"keys of the base in order": {
			config: over(keyed), cluster: []runtime.Object{live("z", open, "a", helper)}, old: configMap(), changed: configMap("policy.yaml", uses),
			want: allowed("KeystonePolicySound"),
		},
		"a key of the base that Keystone does not load": {
			config: over(base), cluster: []runtime.Object{live(".a", helper, "b", "other: role:admin\n")}, old: configMap(),
			changed: configMap("policy.yaml", uses), want: unknown,
		},
		"a base that is missing":            {config: over(base), old: configMap(), changed: configMap("policy.yaml", uses), want: unreadable("cannot be read")},
		"a base without its key":            {config: over(keyed), cluster: []runtime.Object{live("a", helper)}, old: configMap(), changed: configMap("policy.yaml", uses), want: unreadable("is not under its keys")},
		"a base that is malformed":          {config: over(base), cluster: []runtime.Object{live("a", "[")}, old: configMap(), changed: configMap("policy.yaml", uses), want: unreadable("cannot be loaded by Keystone")},
		"a base that is too large":          {config: over(base), cluster: []runtime.Object{live("a", strings.Repeat("#", keystone.MaxBytes+1))}, old: configMap(), changed: configMap("policy.yaml", uses), want: unreadable("is larger than warrantgate reads")},
		"keys are evaluated together":       {config: config(), old: configMap(), changed: configMap("a", uses, "b", helper), want: allowed("KeystonePolicySound")},
		"with a key that is older":          {config: config(), old: configMap("b", helper), changed: configMap("a", uses, "b", helper), want: allowed("KeystonePolicySound")},
		"a key that others need is removed": {config: config(), old: configMap("a", uses, "b", helper), changed: configMap("a", uses), want: deniedFor("ConfigMap", ofConfigMap, "data[a]", saidOfShared, cause("unknown-rule", "data[a]", saidOfShared))},
		"a key that others need is emptied": {
			config: config(), old: configMap("a", uses, "b", helper), changed: configMap("a", uses, "b", "# nothing\n"),
			want: deniedFor("ConfigMap", ofConfigMap, "data[a]", saidOfShared, cause("unknown-rule", "data[a]", saidOfShared)),
		},
		"an existing problem in another key denies nothing": {
			config: config(), old: configMap("a", uses, "b", "x: role:admin\n"), changed: configMap("a", uses, "b", "y: role:admin\n"), want: allowed("KeystonePolicySound"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newGateOver(t, tc.config, tc.cluster...).Review(t.Context(), request(t, tc.old, tc.changed))
			if diff := cmp.Diff(tc.want, answer, withoutDetails); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAHelperThatIsOpenedInAnotherKey: the key with the operation is not written, and the permission that it grants is new.
func TestAHelperThatIsOpenedInAnotherKey(t *testing.T) {
	before := configMap("a", "identity:delete_user: rule:helper\n", "b", "helper: role:admin\n")
	after := configMap("a", "identity:delete_user: rule:helper\n", "b", "helper: role:member\n")
	answer := newGate(t, config()).Review(t.Context(), request(t, before, after))
	if answer.Reason != "KeystonePolicyBroken" || answer.Field != "data[a]" || answer.Causes[0].Type != "broader-than-default" {
		t.Errorf("%s at %s: %s", answer.Reason, answer.Field, answer.Message)
	}
}

// Start logs a base that cannot be read, unless the process ends.
func TestStartLogsABaseThatCannotBeRead(t *testing.T) {
	over := config(func(c *v1beta1.KeystonePolicy) {
		c.Base = []v1beta1.KeystonePolicyBase{{Namespace: "keystone", Name: "live"}}
	})
	for name, tc := range map[string]struct {
		cluster []runtime.Object
		ended   bool
		want    int
	}{
		"a base that is missing":                  {want: 1},
		"a base that can be read":                 {cluster: []runtime.Object{live("a", sound)}},
		"a base that is missing, at the shutdown": {ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			ctx, cancel := context.WithCancel(logf.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})))
			defer cancel()
			if tc.ended {
				cancel()
			}
			if err := keystone.NewBase(over, fake.NewClientset(tc.cluster...).CoreV1()).Start(ctx); err != nil {
				t.Errorf("Start() = %v", err)
			}
			if len(lines) != tc.want {
				t.Errorf("log = %q, want %d lines", lines, tc.want)
			}
		})
	}
}
