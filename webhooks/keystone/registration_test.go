package keystone_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	objectpredicate "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/webhookstest"
)

// registered returns the webhooks as an API server gets them.
func registered(config v1beta1.KeystonePolicy) []admissionregistrationv1.ValidatingWebhook {
	_, all := webhookstest.Registered(nil, keystone.Hooks(config))
	return all
}

func TestTheWebhookIsPinned(t *testing.T) {
	for mode, wantPolicy := range map[v1beta1.Mode]admissionregistrationv1.FailurePolicyType{
		v1beta1.Enforce: admissionregistrationv1.Fail,
		v1beta1.Warn:    admissionregistrationv1.Ignore, // a gate that only warns must not deny anything while it is down
	} {
		got := registered(config(named, func(c *v1beta1.KeystonePolicy) { c.Mode = mode }))
		for i := range got {
			if len(got[i].MatchConditions) != i+1 {
				t.Errorf("%s: %d match conditions", mode, len(got[i].MatchConditions))
			}
			got[i].MatchConditions = nil // see below
		}
		want := admissionregistrationv1.ValidatingWebhook{
			Name:         "policies.keystone.warrantgate.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(webhookstest.URL + "/keystone/policy")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps", "secrets"},
					Scope: ptr.To(admissionregistrationv1.NamespacedScope),
				},
			}},
			MatchPolicy: ptr.To(admissionregistrationv1.Equivalent), ObjectSelector: config().Selector, FailurePolicy: ptr.To(wantPolicy),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun), TimeoutSeconds: ptr.To[int32](3),
			AdmissionReviewVersions: []string{"v1"},
		}
		byName := *want.DeepCopy()
		byName.Name, byName.ObjectSelector = "named-policies.keystone.warrantgate.dev", nil
		if diff := cmp.Diff([]admissionregistrationv1.ValidatingWebhook{want, byName}, got); diff != "" {
			t.Errorf("%s: webhook (-want +got):\n%s", mode, diff)
		}
	}
	if hooks := keystone.Hooks(v1beta1.KeystonePolicy{Mode: v1beta1.Off}); len(hooks) > 0 {
		t.Errorf("%d webhooks are registered while the gate is off", len(hooks))
	}
	onlyNamed := config(named, func(c *v1beta1.KeystonePolicy) { c.Selector = nil })
	if got := registered(onlyNamed); len(got) != 1 || got[0].Name != "named-policies.keystone.warrantgate.dev" {
		t.Errorf("registered without a selector: %v", got)
	}
	// Uninstall registers nothing, and finds the objects to remove by their names.
	if hooks := keystone.Hooks(v1beta1.KeystonePolicy{Mode: v1beta1.Enforce}); len(hooks) != 1 {
		t.Errorf("%d webhooks without a selector", len(hooks))
	}
}

// expressions is a selector with a label that may be empty.
func expressions(c *v1beta1.KeystonePolicy) {
	c.Selector = &metav1.LabelSelector{
		MatchLabels: map[string]string{"holds": "keystone-policy"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "example.com/a.b_c-d", Operator: metav1.LabelSelectorOpExists}, {Key: "holds", Operator: metav1.LabelSelectorOpExists},
		},
	}
}

// TestMatchConditionsSelectRequests evaluates selector and match conditions with the API server's own code. The gate must not deny or warn
// about a request that is not selected.
func TestMatchConditionsSelectRequests(t *testing.T) {
	annotated := func(o *corev1.ConfigMap) *corev1.ConfigMap {
		o.Annotations, o.Finalizers = map[string]string{"a": "b"}, []string{"example.com/f"}
		o.OwnerReferences, o.Immutable = []metav1.OwnerReference{{Name: "x"}}, ptr.To(true)
		return o
	}
	renamed := func(o *corev1.ConfigMap, name string) *corev1.ConfigMap {
		o.Name = name
		return o
	}
	binary := func(content string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: meta(), BinaryData: map[string][]byte{"a": []byte(content)}}
	}
	both := map[string]string{"holds": "keystone-policy", "example.com/a.b_c-d": ""}
	deleted := configMap("a", broken)
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	large := strings.Repeat("identity:get_user: role:a\n", 1<<20/27)

	for name, tc := range map[string]struct {
		config       v1beta1.KeystonePolicy
		old, changed client.Object
		want         bool
	}{
		"created":                                  {changed: configMap("a", sound), want: true},
		"created as a Secret":                      {changed: secret("a", sound), want: true},
		"created empty":                            {changed: configMap(), want: true},
		"created without labels":                   {changed: labeled(configMap("a", broken), nil)},
		"created with other labels":                {changed: labeled(configMap("a", broken), map[string]string{"holds": "x"})},
		"changed":                                  {old: configMap("a", sound), changed: configMap("a", broken), want: true},
		"changed as a Secret":                      {old: secret("a", sound), changed: secret("a", broken), want: true},
		"another key":                              {old: configMap("a", sound), changed: configMap("b", sound), want: true},
		"binary data changes":                      {old: binary("a"), changed: binary("b"), want: true},
		"binary data appears":                      {old: configMap(), changed: binary("b"), want: true},
		"binary data stays":                        {old: binary("a"), changed: binary("a")},
		"all keys are removed":                     {old: configMap("a", sound), changed: configMap(), want: true},
		"metadata only":                            {old: configMap("a", broken), changed: annotated(configMap("a", broken))},
		"metadata only, as a Secret":               {old: secret("a", broken), changed: secret("a", broken)},
		"another label":                            {old: configMap("a", broken), changed: labeled(configMap("a", broken), map[string]string{"holds": "keystone-policy", "x": "y"})},
		"the label is added":                       {old: labeled(configMap("a", broken), nil), changed: configMap("a", broken), want: true},
		"the label is removed":                     {old: configMap("a", broken), changed: labeled(configMap("a", broken), nil), want: true},
		"no label before and after":                {old: labeled(configMap("a", sound), nil), changed: labeled(configMap("a", broken), nil)},
		"a finalizer of a deleted one":             {old: deleted, changed: configMap("a", broken)},
		"nothing changes":                          {old: configMap(), changed: configMap()},
		"as large as can be stored":                {old: configMap("a", large), changed: configMap("a", large+"#"), want: true},
		"as large as can be stored, and unchanged": {old: secret("a", large), changed: secret("a", large)},
		"named, created":                           {config: config(named), changed: labeled(configMap("a", broken), nil), want: true},
		"named, created as a Secret":               {config: config(named), changed: labeled(secret("a", broken), nil), want: true},
		"named, changed":                           {config: config(named), old: labeled(configMap("a", sound), nil), changed: labeled(configMap("a", broken), nil), want: true},
		"named, metadata only":                     {config: config(named), old: labeled(configMap("a", broken), nil), changed: labeled(annotated(configMap("a", broken)), nil)},
		"of another name":                          {config: config(named), changed: labeled(renamed(configMap("a", broken), "policy2"), nil)},
		"an empty label is added":                  {config: config(expressions), old: configMap("a", sound), changed: labeled(configMap("a", sound), both), want: true},
		"an empty label is missing before":         {config: config(expressions), old: configMap("a", sound), changed: configMap("a", broken)},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.config.Mode == "" {
				tc.config = config()
			}
			called := selected(t, tc.config, tc.old, tc.changed)
			if called != tc.want {
				t.Errorf("selected = %t, want %t", called, tc.want)
			}
			answer := newGate(t, tc.config).Review(t.Context(), request(t, tc.old, tc.changed))
			if !called && answer.Decision != webhooks.Allowed {
				t.Errorf("%s is not selected", answer.Reason)
			}
		})
	}
}

// selected reports whether the API server would call a webhook. No object may cause an evaluation error.
func selected(t *testing.T, config v1beta1.KeystonePolicy, old, changed client.Object) bool {
	t.Helper()
	hooks := registered(config)
	return slices.ContainsFunc(hooks, func(hook admissionregistrationv1.ValidatingWebhook) bool { return selectedBy(t, &hook, old, changed) })
}

func selectedBy(t *testing.T, hook *admissionregistrationv1.ValidatingWebhook, old, changed client.Object) bool {
	t.Helper()
	if hook.ObjectSelector == nil { // the API server's default
		hook.ObjectSelector = &metav1.LabelSelector{}
	}
	accessor := webhook.NewValidatingWebhookAccessor("", "", hook)
	kind, resource := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	if _, isSecret := changed.(*corev1.Secret); isSecret {
		kind.Kind, resource.Resource = "Secret", "secrets"
	}
	operation, before := admission.Update, runtime.Object(old)
	if old == nil {
		operation, before = admission.Create, nil
	}
	attributes := admission.NewAttributesRecord(changed, before, kind, "keystone", "policy", resource, "", operation, nil, false, &user.DefaultInfo{Name: "alice"})
	selected, err := (&objectpredicate.Matcher{}).MatchObjectSelector(accessor, attributes)
	if err != nil {
		t.Fatal(err)
	}
	compiler := celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	result := accessor.GetCompiledMatcher(compiler).Match(t.Context(), &admission.VersionedAttributes{
		Attributes: attributes, VersionedObject: changed, VersionedOldObject: before, VersionedKind: kind,
	}, nil, nil)
	if result.Error != nil {
		t.Errorf("evaluation error: %v", result.Error)
	}
	return selected && result.Matches
}
