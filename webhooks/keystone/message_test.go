package keystone_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/webhookstest"
)

// texts are all texts of an answer.
func texts(answer webhookstest.Answer) []string {
	all := []string{answer.Message}
	for _, cause := range answer.Causes {
		all = append(all, cause.Message)
	}
	for _, event := range answer.Events {
		all = append(all, event.Message)
	}
	if answer.Details != nil {
		all = append(all, fmt.Sprint(answer.Details()...))
	}
	return all
}

func TestMessagesListAsManyFindingsAsFit(t *testing.T) {
	many := broken + "identity:list_users: !\n" + "identity:delete_user: domain_idd:x\n"
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintf(&lines, "identity:create_usr%d: role:a\n", i)
	}
	for name, tc := range map[string]struct {
		changed    client.Object
		wantCauses int
		want       string
	}{
		"two errors and a warning, which is omitted": {
			changed: configMap("policy.yaml", many), wantCauses: 2,
			want: ofConfigMap + "2 errors and 1 warning: " + saidOfBroken + `; policy.yaml:2, rule "identity:list_users": an exclamation mark without ` +
				`quotes is an empty tag to YAML: the rule is empty, and an empty rule allows everybody (write "!" in quotes to deny, or "@" in quotes ` +
				`to allow everybody)` + seeAll,
		},
		"errors of two keys": {
			changed: configMap("a.json", "[", "b.yaml", "identity:get_user: role:a and"), wantCauses: 2,
			want: ofConfigMap + `2 errors: a.json: it cannot be read: yaml: line 1: did not find expected node content; put each name and each check in quotes (correct it before Keystone reads it: ` +
				`if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails); b.yaml:1, rule "identity:get_user": oslo.policy cannot parse the rule ` +
				`and silently denies: a check is missing at its end (join checks with and, or, not and parentheses that match)` + seeAll,
		},
		"hundreds of errors": {
			changed: configMap("policy.yaml", lines.String()), wantCauses: 20,
			want: ofConfigMap + "200 errors: " + unknown(1) + "; " + unknown(2) + "; " + unknown(3) + "; " + unknown(4) + "; " + unknown(5) + "; " + unknown(6) + "; and 194 more" + seeAll,
		},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newGate(t, config()).Review(t.Context(), request(t, configMap(), tc.changed))
			if diff := cmp.Diff(tc.want, answer.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if len(answer.Causes) != tc.wantCauses {
				t.Errorf("%d causes, want %d", len(answer.Causes), tc.wantCauses)
			}
			if len(answer.Message) > keystone.MaxMessage {
				t.Errorf("the message has %d bytes", len(answer.Message))
			}
		})
	}
}

// TestMessagesOfShortFindingsFit: the shorter the findings, the less of the room is left unused.
func TestMessagesOfShortFindingsFit(t *testing.T) {
	gate := newGate(t, config())
	lintWith(t, gate, func(name string, _ []byte) []oslopolicy.Finding {
		return slices.Repeat([]oslopolicy.Finding{{File: name, Severity: oslopolicy.SeverityError, Code: "x", Message: "y"}}, 9000)
	})
	message := gate.Review(t.Context(), request(t, configMap(), configMap("k", sound))).Message
	if length := len(message); length > keystone.MaxMessage || length < keystone.MaxMessage-len("; k: y") {
		t.Errorf("%d bytes: %s", length, message)
	}
}

// TestMessagesAboutManyKeysFit: the advice comes last, and is not cut.
func TestMessagesAboutManyKeysFit(t *testing.T) {
	var keys, data []string
	for i := range 20 {
		key := fmt.Sprintf("%0253d", i)
		keys, data = append(keys, key), append(data, key, sound)
	}
	missing := config(func(c *v1beta1.KeystonePolicy) { c.Keys = keys })
	for name, tc := range map[string]struct {
		answer     webhookstest.Answer
		wantReason string
		wantEnd    string
	}{
		"none of the keys exists": {
			answer:     newGate(t, missing).Review(t.Context(), request(t, nil, configMap("a", sound))),
			wantReason: "KeystonePolicyMissing", wantEnd: "…",
		},
		"all of them stay, without the label": {
			answer:     newGate(t, config()).Review(t.Context(), request(t, configMap(data...), labeled(configMap(data...), nil))),
			wantReason: "KeystonePolicyDeselected",
			wantEnd: "…; delete the object, or remove these keys in the same write, or ask the operator to add the object to keystonePolicy.objects of " +
				"warrantgate's configuration",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.answer.Reason != tc.wantReason {
				t.Errorf("reason = %s, want %s", tc.answer.Reason, tc.wantReason)
			}
			if message := tc.answer.Message; len(message) > keystone.MaxMessage || !strings.HasSuffix(message, tc.wantEnd) {
				t.Errorf("%d bytes: %s", len(message), message)
			}
		})
	}
}

func unknown(line int) string {
	return fmt.Sprintf(`policy.yaml:%d, rule "identity:create_usr%d": Keystone has no such operation, so the rule has no effect `+
		`(write "identity:create_user")`, line, line-1)
}

// TestSecretsAreNotRepeated has keys of Secrets that hold no policy.
func TestSecretsAreNotRepeated(t *testing.T) {
	const why = "it cannot be read as a policy; why is not repeated here, because it is a Secret (correct it before Keystone reads it: if oslo.policy cannot load a file, the " +
		"former rules stay in effect, and after a restart every request fails)"
	for name, tc := range map[string]struct{ content, want string }{
		"a text":                     {"hunter2", "key:1: " + why},
		"an alias of YAML":           {"*hunter2", "key: " + why},
		"a tag of YAML":              {"a: !hunter2 b", "key:1: " + why},
		"a number under a name":      {"identity:hunter2: 47110815", "key:1: " + why},
		"a number of JSON":           {`{"password": 1e47110815}`, "key:1: " + why},
		"a name that is a number":    {"47110815: 2020-01-01", "key:1: " + why},
		"a password under a name":    {"password: hunter2", "key:1: malformed-check; more is not repeated here, because it is a Secret and names no operation of Keystone"},
		"a password as a name":       {"hunter2: {a: b}", "key:1: mapping-rule; more is not repeated here, because it is a Secret and names no operation of Keystone"},
		"credentials for OpenStack":  {"clouds: {openstack: {auth: {password: hunter2}}}", "key:1: mapping-rule; more is not repeated here, because it is a Secret and names no operation of Keystone"},
		"a policy beside a password": {"password: hunter2\nother: role:identity:x", "key:1: malformed-check; more is not repeated here, because it is a Secret and names no operation of Keystone"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newGate(t, config()).Review(t.Context(), request(t, secret(), secret("key", tc.content)))
			if answer.Decision != webhooks.Denied {
				t.Errorf("decision = %s: %s", answer.Decision, answer.Message)
			}
			if got := answer.Causes[0].Message; got != tc.want {
				t.Errorf("message %s\nwant %s", got, tc.want)
			}
			for _, text := range texts(answer) {
				for _, content := range []string{"hunter2", "47110815", "2020", "openstack"} {
					if strings.Contains(text, content) {
						t.Errorf("%q is repeated: %s", content, text)
					}
				}
			}
		})
	}
}

// TestTextsAreEscaped: a text in a policy must not move the cursor of a terminal, nor make a message that the API server rejects.
func TestTextsAreEscaped(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for name, changed := range map[string]client.Object{
		"escapes":      configMap("policy.yaml", `identity:get_user: "a\e[31m:%(x)s and b\u202e and 'x\u0007"`),
		"a long name":  configMap("policy.yaml", "identity:"+long+": !"),
		"a long value": configMap("policy.yaml", "identity:get_user: "+long+"\nidentity:list_users: "+long),
		"long keys":    configMap(strings.Repeat("a", 253), "[", strings.Repeat("b", 253), "["),
		"long names": &corev1.ConfigMap{ObjectMeta: meta(), Data: map[string]string{
			"a": strings.Repeat("identity:"+strings.Repeat("x", 300)+": !\n", 9),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			changed.SetName(strings.Repeat("n", 253))
			answer := newGate(t, config()).Review(t.Context(), request(t, configMap(), changed))
			if answer.Reason != "KeystonePolicyBroken" || len(answer.Causes) == 0 {
				t.Errorf("reason = %s, %d causes", answer.Reason, len(answer.Causes))
			}
			for _, text := range texts(answer) {
				if len(text) > 1024 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%d bytes: %q", len(text), text)
				}
			}
		})
	}
}

// TestTextsOfTheLinterAreEscaped does not depend on the linter to quote texts.
func TestTextsOfTheLinterAreEscaped(t *testing.T) {
	gate := newGate(t, config())
	lintWith(t, gate, func(name string, _ []byte) []oslopolicy.Finding {
		return []oslopolicy.Finding{{
			File: name, Line: 3, Rule: "a\x1bb", Severity: oslopolicy.SeverityError, Code: "x", Message: "c\x1b[2J\u202ed\ne", Suggestion: strings.Repeat("é", 1000),
		}}
	})
	answer := gate.Review(t.Context(), request(t, nil, configMap("k", sound)))
	want := `k:3, rule "a\x1bb": c` + "\ufffd[2J\ufffdd e ("
	if got := answer.Causes[0].Message; !strings.HasPrefix(got, want) || len(got) > 400 || !strings.HasSuffix(got, "é…") {
		t.Errorf("message %q", got)
	}
}
