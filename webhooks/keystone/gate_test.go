package keystone_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/events"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/webhookstest"
)

// withoutDetails removes the details for the operator's log from an answer.
var withoutDetails = cmpopts.IgnoreFields(webhookstest.Answer{}, "Details")

func allowed(reason string) webhookstest.Answer {
	return webhookstest.Answer{Decision: webhooks.Allowed, Reason: reason}
}

func undecodable(message string) webhookstest.Answer {
	return webhookstest.Answer{Status: metav1.StatusReasonBadRequest, Reason: "Undecodable", Message: message}
}

// withEvent returns an answer with its Event on the object of a kind.
func withEvent(answer webhookstest.Answer, kind, verb string) webhookstest.Answer {
	answer.Events = []events.Event{{Object: self(kind), Type: corev1.EventTypeWarning, Reason: answer.Reason, Message: verb + answer.Message}}
	return answer
}

func cause(code, field, message string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseType(code), Field: field, Message: message}
}

// deselectedAs is the answer to a write that removes the labels.
func deselectedAs(kind, subject, keys string) webhookstest.Answer {
	return withEvent(webhookstest.Answer{
		Decision: webhooks.Denied, Reason: "KeystonePolicyDeselected", Message: subject + "the write removes the labels by which warrantgate checks " +
			"this policy for Keystone, while the object still has it under " + keys + "; delete the object, or remove these keys in the same write, " +
			"or ask the operator to add the object to keystonePolicy.objects of warrantgate's configuration",
	}, kind, "Denied: ")
}

// named also selects the object of all tests by its name.
func named(c *v1beta1.KeystonePolicy) {
	c.Objects = []v1beta1.NamedObject{{Namespace: "keystone", Name: "policy"}, {Namespace: "other", Name: "other"}}
}

// deniedFor is the answer to a policy with one error.
func deniedFor(kind, subject, field, said string, causes ...metav1.StatusCause) webhookstest.Answer {
	return withEvent(webhookstest.Answer{
		Decision: webhooks.Denied, Reason: "KeystonePolicyBroken", Field: field, Message: subject + "1 error: " + said + seeAll, Causes: causes,
	}, kind, "Denied: ")
}

func TestPolicies(t *testing.T) {
	brokenUpdate := deniedFor("ConfigMap", ofConfigMap, "data[policy.yaml]", saidOfBroken, cause("unknown-attribute", "data[policy.yaml]", saidOfBroken))
	missing := withEvent(webhookstest.Answer{
		Decision: webhooks.Warned, Reason: "KeystonePolicyMissing", Message: ofConfigMap + "its labels say that it holds a policy for Keystone, " +
			`but it has no key "policy.yaml" or "policy.json", so that nothing was checked; name the key so, or remove the labels`,
	}, "ConfigMap", "Admitted with a warning: ")
	empty := withEvent(webhookstest.Answer{
		Decision: webhooks.Warned, Reason: "KeystonePolicyMissing", Message: ofConfigMap + "its labels say that it holds a policy for Keystone, " +
			"but it holds nothing; write the policy, or remove the labels",
	}, "ConfigMap", "Admitted with a warning: ")
	warned := withEvent(webhookstest.Answer{
		Decision: webhooks.Warned, Reason: "KeystonePolicyDoubtful", Field: "data[policy.yaml]", Message: ofConfigMap + "1 warning: " + saidOfDoubtful + seeAll,
		Causes: []metav1.StatusCause{cause("unknown-credential", "data[policy.yaml]", saidOfDoubtful)},
	}, "ConfigMap", "Admitted with a warning: ")
	const saidOfNothing = "policy.yaml: it has no rules, so that it overrides nothing (write the rules, or remove the override)"
	noRules := withEvent(webhookstest.Answer{
		Decision: webhooks.Warned, Reason: "KeystonePolicyDoubtful", Field: "data[policy.yaml]", Message: ofConfigMap + "1 warning: " + saidOfNothing + seeAll,
		Causes: []metav1.StatusCause{cause("no-rules", "data[policy.yaml]", saidOfNothing)},
	}, "ConfigMap", "Admitted with a warning: ")
	const correctIt = ` (correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails)`
	const inBinary, compressed = `policy.yaml:1: it is not UTF-8, so that Keystone cannot read it` + correctIt,
		`policy.yaml: it is compressed with gzip, so that Keystone cannot read it` + correctIt
	const extension = "identity:scim_list_users: rule:admin_required\n"
	const saidOfExtension = `policy.yaml:1, rule "identity:scim_list_users": Keystone has no such operation, so the rule has no effect ` +
		`(if an extension evaluates it, list it in keystonePolicy.knownRules (--known-rule))`
	keys := withKeys("policy.yaml", "policy.json")
	const helper, unlessHelper = "helper: '@'\n", "identity:create_user: rule:admin_required or not rule:helper\n"
	const saidOfDot = `.helpers: oslo.policy does not load a file whose name begins with a dot (rename the key, or remove it)`

	for name, tc := range map[string]struct {
		config       v1beta1.KeystonePolicy
		old, changed client.Object
		want         webhookstest.Answer
	}{
		"sound": {changed: configMap("policy.yaml", sound), want: allowed("KeystonePolicySound")},
		"sound, in JSON": {
			changed: configMap("policy.json", `{"identity:create_user": "rule:admin_required"}`), want: allowed("KeystonePolicySound"),
		},
		"sound, in a Secret":                {changed: secret("policy.yaml", sound), want: allowed("KeystonePolicySound")},
		"an empty text, which has no rules": {changed: configMap("policy.yaml", ""), want: noRules},
		"one of two keys is empty":          {changed: configMap("a", sound, "b", "# nothing"), want: allowed("KeystonePolicySound")},
		"a note is not reported":            {changed: configMap("policy.yaml", odd), want: allowed("KeystonePolicySound")},
		"broken":                            {old: configMap("policy.yaml", sound), changed: configMap("policy.yaml", broken), want: brokenUpdate},
		"broken, in a Secret, whose policy is in the message": {
			old: secret("policy.yaml", sound), changed: secret("policy.yaml", broken),
			want: deniedFor("Secret", ofSecret, "data[policy.yaml]", saidOfBroken, cause("unknown-attribute", "data[policy.yaml]", saidOfBroken)),
		},
		"broken, in binaryData": {
			old: configMap(), changed: &corev1.ConfigMap{ObjectMeta: meta(), BinaryData: map[string][]byte{"policy.yaml": []byte("{\"a\": \"\xff\"}")}},
			want: deniedFor("ConfigMap", ofConfigMap, "binaryData[policy.yaml]", inBinary, cause("file", "binaryData[policy.yaml]", inBinary)),
		},
		"compressed, in binaryData": {
			old: configMap(), changed: &corev1.ConfigMap{ObjectMeta: meta(), BinaryData: map[string][]byte{"policy.yaml": []byte("\x1f\x8b\x08\x00")}},
			want: deniedFor("ConfigMap", ofConfigMap, "binaryData[policy.yaml]", compressed, cause("file", "binaryData[policy.yaml]", compressed)),
		},
		"with a byte order mark and line ends of Windows": {
			changed: configMap("policy.yaml", "\ufeff"+strings.ReplaceAll(sound, "\n", "\r\n")), want: allowed("KeystonePolicySound"),
		},
		"a key that Keystone does not load": {
			old: configMap(), changed: configMap(".helpers", helper),
			want: deniedFor("ConfigMap", ofConfigMap, "data[.helpers]", saidOfDot, cause("file", "data[.helpers]", saidOfDot)),
		},
		"a key that Keystone does not load, before and after": {
			old: configMap(".helpers", helper), changed: configMap(".helpers", helper, "policy.yaml", sound), want: allowed("KeystonePolicySound"),
		},
		"a key that the operator gives another name": {
			config: config(withKeys(".helpers", "policy.yaml")), changed: configMap(".helpers", helper, "policy.yaml", unlessHelper),
			want: allowed("KeystonePolicySound"),
		},
		"a rule of an extension": {
			old: configMap(), changed: configMap("policy.yaml", extension),
			want: deniedFor("ConfigMap", ofConfigMap, "data[policy.yaml]", saidOfExtension, cause("unknown-operation", "data[policy.yaml]", saidOfExtension)),
		},
		"a rule of an extension that is known": {
			config:  config(func(c *v1beta1.KeystonePolicy) { c.KnownRules = []string{"identity:scim_*"} }),
			changed: configMap("policy.yaml", extension), want: allowed("KeystonePolicySound"),
		},
		"doubtful":                      {old: configMap("policy.yaml", sound), changed: configMap("policy.yaml", doubtful), want: warned},
		"doubtful from the beginning":   {changed: configMap("policy.yaml", doubtful), want: warned},
		"broken before and sound after": {old: configMap("policy.yaml", broken), changed: configMap("policy.yaml", sound), want: allowed("KeystonePolicySound")},
		"broken before, and unchanged":  {old: configMap("policy.yaml", broken), changed: configMap("policy.yaml", broken), want: allowed("KeystonePolicyUnchanged")},
		"broken before, with another key that is sound": {
			old: configMap("policy.yaml", broken), changed: configMap("policy.yaml", broken, "more.yaml", other), want: allowed("KeystonePolicySound"),
		},
		"broken before, with another key that is removed": {
			old: configMap("policy.yaml", broken, "more.yaml", other), changed: configMap("policy.yaml", broken), want: allowed("KeystonePolicySound"),
		},
		"broken before, and selected now": {
			old: labeled(configMap("policy.yaml", broken), nil), changed: configMap("policy.yaml", broken), want: brokenUpdate,
		},
		"broken, and no longer selected": {
			old: configMap("policy.yaml", sound), changed: labeled(configMap("policy.yaml", broken), nil), want: deselectedAs("ConfigMap", ofConfigMap, `"policy.yaml"`),
		},
		"sound, and no longer selected, as the first of two steps": {
			old: secret("a", sound, "b", sound), changed: labeled(secret("a", sound, "b", sound), nil), want: deselectedAs("Secret", ofSecret, `"a" or "b"`),
		},
		"no longer selected, with another value of the label": {
			old: configMap("a", sound), changed: labeled(configMap("a", sound), map[string]string{"holds": ""}), want: deselectedAs("ConfigMap", ofConfigMap, `"a"`),
		},
		"emptied, and no longer selected": {old: configMap("a", sound), changed: labeled(configMap(), nil), want: allowed("KeystonePolicyRemoved")},
		"no longer selected, without a policy under the keys": {
			config: config(keys), old: configMap("x", "a"), changed: labeled(configMap("x", "a"), nil), want: allowed("KeystonePolicyRemoved"),
		},
		"never selected": {
			old: labeled(configMap("a", sound), nil), changed: labeled(configMap("a", broken), nil), want: allowed("NotSelected"),
		},
		"named, without the label": {
			config: config(named), old: labeled(configMap(), nil), changed: labeled(configMap("policy.yaml", broken), nil), want: brokenUpdate,
		},
		"named, and created again without the label": {
			config: config(named), changed: labeled(configMap("policy.yaml", broken), nil), want: func() webhookstest.Answer { a := brokenUpdate; a.Events = nil; return a }(),
		},
		"named, and the label is removed": {
			config: config(named), old: configMap("a", sound), changed: labeled(configMap("a", sound), nil), want: allowed("KeystonePolicyUnchanged"),
		},
		"named, and empty": {config: config(named), changed: labeled(configMap(), nil), want: withEvent(webhookstest.Answer{
			Decision: webhooks.Warned, Reason: "KeystonePolicyMissing", Message: ofConfigMap + "keystonePolicy.objects of warrantgate's configuration says " +
				"that it holds a policy for Keystone, but it holds nothing; write the policy, or ask the operator to remove it there",
		}, "ConfigMap", "Admitted with a warning: ")},
		"named alone, with the label": {
			config: config(named, func(c *v1beta1.KeystonePolicy) { c.Selector = nil }), old: configMap(), changed: configMap("policy.yaml", broken), want: brokenUpdate,
		},
		"the label is removed, and a key of 100 bytes is shown whole": {
			old: configMap(strings.Repeat("k", 100), sound), changed: labeled(configMap(strings.Repeat("k", 100), sound), nil),
			want: deselectedAs("ConfigMap", ofConfigMap, `"`+strings.Repeat("k", 100)+`"`),
		},
		"the label is removed, and a longer key is truncated": {
			old: configMap(strings.Repeat("k", 101), sound), changed: labeled(configMap(strings.Repeat("k", 101), sound), nil),
			want: deselectedAs("ConfigMap", ofConfigMap, `"`+strings.Repeat("k", 100)+`…"`),
		},
		"a key that holds no policy": {
			config: config(keys), changed: configMap("policy.yaml", sound, "keystone.conf", "["), want: allowed("KeystonePolicySound"),
		},
		"a key that holds no policy changes": {
			config: config(keys), old: configMap("policy.yaml", broken, "x", "a"), changed: configMap("policy.yaml", broken, "x", "b"), want: allowed("KeystonePolicyUnchanged"),
		},
		"nothing under the keys":               {config: config(keys), changed: configMap("policy.yml", broken), want: missing},
		"no longer under the keys":             {config: config(keys), old: configMap("policy.yaml", broken), changed: configMap("policy.yml", broken), want: missing},
		"not under the keys, before and after": {config: config(keys), old: configMap("policy.yml", sound), changed: configMap("policy.yml", broken), want: allowed("KeystonePolicyUnchanged")},
		"no data":                              {changed: configMap(), want: empty},
		"no object before, either":             {old: configMap(), changed: configMap(), want: allowed("KeystonePolicyUnchanged")},
		"in mode Warn, with another Event": {
			config: config(func(c *v1beta1.KeystonePolicy) { c.Mode = v1beta1.Warn }), old: configMap(), changed: configMap("policy.yaml", broken),
			want: withEvent(brokenUpdate, "ConfigMap", "Admitted with a warning: "),
		},
		"created broken, without an owner that could have the Event": {
			changed: configMap("policy.yaml", broken), want: func() webhookstest.Answer { a := brokenUpdate; a.Events = nil; return a }(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.config.Mode == "" {
				tc.config = config()
			}
			answer := newGate(t, tc.config).Review(t.Context(), request(t, tc.old, tc.changed))
			if diff := cmp.Diff(tc.want, answer, withoutDetails); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// An error is denied also next to as many warnings.
func TestAnErrorNextToAWarning(t *testing.T) {
	answer := newGate(t, config()).Review(t.Context(), request(t, configMap("policy.yaml", sound), configMap("policy.yaml",
		broken+"identity:create_project: rule:admin_required and domain_idd:x\n")))
	if answer.Decision != webhooks.Denied || answer.Reason != "KeystonePolicyBroken" {
		t.Errorf("%v %s, want a denial as KeystonePolicyBroken: %s", answer.Decision, answer.Reason, answer.Message)
	}
}

func TestConfiguredRoles(t *testing.T) {
	grant := configMap("policy.yaml", `identity:create_grant: "rule:admin_required or role:domain-admin and 'reader':%(target.role.name)s `+
		`and domain_id:%(target.user.domain_id)s and domain_id:%(target.project.domain_id)s"`)
	configured := config(func(c *v1beta1.KeystonePolicy) {
		c.ManagerRoles, c.ManagedRoles = []string{"domain-admin"}, []string{"reader"}
	})
	if diff := cmp.Diff(allowed("KeystonePolicySound"), newGate(t, configured).Review(t.Context(), request(t, nil, grant))); diff != "" {
		t.Errorf("with the roles of the policy (-want +got):\n%s", diff)
	}
	other := config(func(c *v1beta1.KeystonePolicy) { c.ManagerRoles = []string{"domain-admin"} })
	answer := newGate(t, other).Review(t.Context(), request(t, nil, grant))
	if answer.Reason != "KeystonePolicyBroken" || answer.Causes[0].Type != "escalation" {
		t.Errorf("with other roles: %s: %s", answer.Reason, answer.Message)
	}
}

func TestObjectsOfEvents(t *testing.T) {
	owned := configMap("policy.yaml", broken)
	owned.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Other", Name: "other", UID: "2"},
		{APIVersion: "helm.example.com/v1", Kind: "Release", Name: "keystone", UID: "1", Controller: ptr.To(true)},
	}
	owner := corev1.ObjectReference{APIVersion: "helm.example.com/v1", Kind: "Release", Namespace: "keystone", Name: "keystone", UID: "1"}
	for name, tc := range map[string]struct {
		mode         v1beta1.Mode
		old, changed client.Object
		want         []corev1.ObjectReference
	}{
		"denied at creation, its owner":        {mode: v1beta1.Enforce, changed: owned, want: []corev1.ObjectReference{owner}},
		"admitted at creation, itself":         {mode: v1beta1.Warn, changed: owned, want: []corev1.ObjectReference{self("ConfigMap")}},
		"denied at an update, itself":          {mode: v1beta1.Enforce, old: configMap(), changed: owned, want: []corev1.ObjectReference{self("ConfigMap")}},
		"admitted at creation with a warning":  {mode: v1beta1.Enforce, changed: secret("a", doubtful), want: []corev1.ObjectReference{self("Secret")}},
		"denied at creation, without an owner": {mode: v1beta1.Enforce, changed: configMap("a", broken)},
	} {
		t.Run(name, func(t *testing.T) {
			gate := newGate(t, config(func(c *v1beta1.KeystonePolicy) { c.Mode = tc.mode }))
			var got []corev1.ObjectReference
			for _, event := range gate.Review(t.Context(), request(t, tc.old, tc.changed)).Events {
				got = append(got, event.Object)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects of Events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnusualRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		modify func(*admissionv1.AdmissionRequest)
		want   webhookstest.Answer
	}{
		"a deletion": {
			modify: func(r *admissionv1.AdmissionRequest) { r.Operation, r.Object.Raw = admissionv1.Delete, nil }, want: allowed("NothingWritten"),
		},
		"no object": {
			modify: func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil },
			want:   undecodable("the ConfigMap cannot be decoded"),
		},
		"a Secret that cannot be decoded is not repeated": {
			modify: func(r *admissionv1.AdmissionRequest) {
				r.Resource.Resource, r.Object.Raw = "secrets", []byte(`{"data": {"password": "hunter2 is no base64"}}`)
			},
			want: undecodable("the Secret cannot be decoded"),
		},
		"another kind": {
			modify: func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "pods" },
			want:   undecodable(`"pods" of group "" are neither ConfigMaps nor Secrets`),
		},
		"another group": {
			modify: func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "example.com" },
			want:   undecodable(`"configmaps" of group "example.com" are neither ConfigMaps nor Secrets`),
		},
		"an old object that cannot be decoded, which may have been selected": {
			modify: func(r *admissionv1.AdmissionRequest) {
				r.Operation, r.OldObject.Raw = admissionv1.Update, []byte(`{"data": []}`)
			},
			want: undecodable("the ConfigMap cannot be decoded"),
		},
		"a name that is generated, and no namespace": {
			modify: func(r *admissionv1.AdmissionRequest) {
				r.Name = ""
				r.Object.Raw = []byte(`{"metadata": {"generateName": "policy-", "labels": {"holds": "keystone-policy"}}, "data": {"a": "["}}`)
			},
			want: webhookstest.Answer{
				Reason: "KeystonePolicyBroken", Field: "data[a]",
				Message: `ConfigMap "policy-" of namespace "keystone": 1 error: ` + saidOfSyntax + seeAll,
				Causes:  []metav1.StatusCause{cause("file", "data[a]", saidOfSyntax)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, nil, configMap("policy.yaml", broken))
			tc.modify(&r.AdmissionRequest)
			if diff := cmp.Diff(tc.want, newGate(t, config()).Review(t.Context(), r), withoutDetails); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPoliciesThatMayGrantMore: the gate denies rules that grant more than Keystone's own, or may do so because of a check that it cannot evaluate.
func TestPoliciesThatMayGrantMore(t *testing.T) {
	const rule = "identity:create_user: \"rule:admin_required or %s\"\n"
	for name, tc := range map[string]struct {
		check string
		want  []string
	}{
		"a user by name":               {"token.user.name:mallory", []string{"broader-than-default"}},
		"a role that the target names": {"role:%(target.user.name)s", []string{"broader-than-default"}},
		"another host":                 {"https://host/%(target.user.name)s", []string{"remote-check", "broader-than-default"}},
		"text around an attribute":     {"user_id:x%(target.user.domain_id)sy", []string{"broader-than-default"}},
		"too many alternatives":        {strings.Repeat("! or ", 2000) + "user_id:mallory", []string{"not-compared"}},
		"an administrator by name":     {"(role:admin and token.user.name:root)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newGate(t, config()).Review(t.Context(), request(t, nil, secret("policy.yaml", fmt.Sprintf(rule, tc.check))))
			var got []string
			for _, c := range answer.Causes {
				got = append(got, string(c.Type))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if want := tc.want == nil; (answer.Decision == webhooks.Allowed) != want {
				t.Errorf("answer = %+v, want it to be allowed: %t", answer, want)
			}
		})
	}
}

func TestAGeneratedNameIsNotASelectedOne(t *testing.T) {
	r := request(t, nil, configMap())
	r.Name = ""
	r.Object.Raw = []byte(`{"metadata": {"namespace": "keystone", "generateName": "policy"}, "data": {"policy.yaml": "["}}`)
	gate := newGate(t, config(named))
	if diff := cmp.Diff(allowed("NotSelected"), gate.Review(t.Context(), r)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	r.Object.Raw = []byte(`{"metadata": {"namespace": "keystone", "name": "policy", "generateName": "pol"}, "data": {"policy.yaml": "["}}`)
	if answer := gate.Review(t.Context(), r); answer.Reason != "KeystonePolicyBroken" {
		t.Errorf("the generated name is the selected one: %s", answer.Reason)
	}
}

const saidOfSyntax = "a: it cannot be read: yaml: line 1: did not find expected node content; put each name and each check in quotes " +
	"(correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails)"

func TestNewRejectsAMalformedSelector(t *testing.T) {
	_, err := keystone.New(config(func(c *v1beta1.KeystonePolicy) {
		c.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	}), &keystone.Base{})
	if want := `keystonePolicy.selector: "Like" is not a valid label selector operator`; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

// FuzzReview checks that no object makes the gate panic, and that each answer has a reason and a message.
func FuzzReview(f *testing.F) {
	for _, seed := range []client.Object{
		configMap("policy.yaml", sound), configMap("policy.yaml", broken), configMap("policy.yaml", doubtful, "b", "{\"a\": 1e999}"), secret("a", broken),
		secret("a", "*hunter2"), labeled(configMap("a", "["), nil), configMap(), &corev1.ConfigMap{ObjectMeta: meta(), BinaryData: map[string][]byte{"a": {0xff}}},
	} {
		f.Add(encode(f, seed), encode(f, seed), uint8(0))
		f.Add(encode(f, configMap("policy.yaml", sound)), encode(f, seed), uint8(3))
	}
	for _, raw := range []string{"", "null", "[]", "{", `{"metadata":null,"data":{"a":null}}`, `{"metadata":{"labels":[]},"data":"x"}`} {
		f.Add([]byte(raw), []byte(raw), uint8(1))
	}
	operations := []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete, ""}
	gate := newGate(f, config())
	f.Fuzz(func(t *testing.T, old, changed []byte, kind uint8) {
		r := request(t, nil, configMap())
		r.Operation = operations[int(kind/2)%len(operations)]
		r.Resource.Resource = []string{"configmaps", "secrets"}[kind%2]
		r.OldObject.Raw, r.Object.Raw = old, changed
		answer := gate.Review(t.Context(), r)
		switch {
		case answer.Reason == "":
			t.Errorf("an answer without a reason: %v", answer)
		case answer.Decision != webhooks.Allowed && answer.Message == "":
			t.Errorf("%s has no message", answer.Reason)
		case len(answer.Message) > keystone.MaxMessage:
			t.Errorf("a message of %d bytes: %s", len(answer.Message), answer.Message)
		}
		if answer.Details != nil && len(answer.Details())%2 != 0 {
			t.Errorf("Details() = %v, want pairs", answer.Details())
		}
	})
}
