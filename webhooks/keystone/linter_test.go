package keystone_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"warrantgate.dev/internal/config/v1beta1"
	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/webhooks"
	"warrantgate.dev/webhooks/keystone"
	"warrantgate.dev/webhooks/webhookstest"
)

const (
	unchecked = `it could not be checked in time; try again, or run "warrantgate lint keystone-policy" on the file`
	tooLarge  = "it has %d bytes under %d keys, more than the 262144 bytes under 32 keys that are checked at once; remove keys that are not policies, or ask the " +
		"operator to add the keys with a policy to keystonePolicy.keys of warrantgate's configuration"
)

func keys(n int) []string {
	var keysAndTexts []string
	for i := range n {
		keysAndTexts = append(keysAndTexts, fmt.Sprintf("k%d", i), fmt.Sprintf("helper%04d: role:admin\n", i))
	}
	return keysAndTexts
}

func TestLimitsOfSize(t *testing.T) {
	full := sound + strings.Repeat("#", keystone.MaxBytes-len(sound))
	for name, tc := range map[string]struct {
		changed *corev1.ConfigMap
		want    string // "" if it is sound
	}{
		"as large as can be checked": {changed: configMap("a", full)},
		"one byte more":              {changed: configMap("a", full, "b", "#"), want: fmt.Sprintf(tooLarge, keystone.MaxBytes+1, 2)},
		"as large as can be stored":  {changed: configMap("a", strings.Repeat("a: [\n", 200_000)), want: fmt.Sprintf(tooLarge, 1_000_000, 1)},
		"as many as are checked":     {changed: configMap(keys(32)...)},
		"one key more":               {changed: configMap(keys(33)...), want: fmt.Sprintf(tooLarge, 33*len("helper0000: role:admin\n"), 33)},
		"thousands of keys":          {changed: configMap(keys(9000)...), want: fmt.Sprintf(tooLarge, 9000*len("helper0000: role:admin\n"), 9000)},
	} {
		t.Run(name, func(t *testing.T) {
			want := allowed("KeystonePolicySound")
			if tc.want != "" {
				want = withEvent(webhookstest.Answer{Decision: webhooks.Denied, Reason: "KeystonePolicyTooLarge", Message: ofConfigMap + tc.want}, "ConfigMap", "Denied: ")
			}
			answer := newGate(t, config()).Review(t.Context(), request(t, configMap(), tc.changed))
			if diff := cmp.Diff(want, answer, withoutDetails); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOlderPoliciesBeyondTheLimits: an existing problem in another key denies nothing, unless the former policies are too large to be
// linted, so that it is unknown which problems they had.
func TestOlderPoliciesBeyondTheLimits(t *testing.T) {
	const uses, before, after = "identity:create_user: rule:helper\n", "x: role:admin\n", "y: role:admin\n"
	full := before + strings.Repeat("#", keystone.MaxBytes-len(uses+before))
	many := func(n int) []string { return append([]string{"a", uses, "b", before}, keys(n-2)...) }
	for name, tc := range map[string]struct {
		old  []string
		want string
	}{
		"as large as is linted":       {[]string{"a", uses, "b", full}, "KeystonePolicySound"},
		"one byte more":               {[]string{"a", uses, "b", full + "#"}, "KeystonePolicyBroken"},
		"as many keys as linted":      {many(keystone.MaxPolicies), "KeystonePolicySound"},
		"one key more":                {many(keystone.MaxPolicies + 1), "KeystonePolicyBroken"},
		"without an existing problem": {[]string{"a", sound, "b", before}, "KeystonePolicyBroken"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := newGate(t, config()).Review(t.Context(), request(t, configMap(tc.old...), configMap("a", uses, "b", after)))
			if answer.Reason != tc.want {
				t.Errorf("reason = %s, want %s: %s", answer.Reason, tc.want, answer.Message)
			}
		})
	}
}

// TestRulesThatAreNotLinted: a rule that depends on a file that Keystone does not load, and one after so many older errors that the linter
// stops, are not taken for sound.
func TestRulesThatAreNotLinted(t *testing.T) {
	const every = "identity:create_user: '@'\n"
	var misses strings.Builder
	for i := range oslopolicy.MaxFindings {
		fmt.Fprintf(&misses, "identity:nope_%d: role:admin\n", i)
	}
	const helper, unlessHelper = "helper: '@'\n", "identity:create_user: rule:admin_required or not rule:helper\n"
	for name, tc := range map[string]struct{ old, changed *corev1.ConfigMap }{
		"a rule that refers to an older file that Keystone does not load": {
			configMap(".helpers", helper), configMap(".helpers", helper, "policy.yaml", unlessHelper),
		},
		"a rule after as many older errors as are reported": {
			configMap("a", misses.String(), "b", sound), configMap("a", misses.String(), "b", every),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if answer := newGate(t, config()).Review(t.Context(), request(t, tc.old, tc.changed)); answer.Reason != "KeystonePolicyBroken" {
				t.Errorf("reason = %s, want KeystonePolicyBroken: %s", answer.Reason, answer.Message)
			}
		})
	}
}

// TestFormerPoliciesAreLintedOnlyIfNecessary: linting takes time, and is limited for each tenant.
func TestFormerPoliciesAreLintedOnlyIfNecessary(t *testing.T) {
	for name, tc := range map[string]struct {
		old, changed *corev1.ConfigMap
		want         []string
	}{
		"a creation":                  {changed: configMap("a", broken), want: []string{broken}},
		"no problems":                 {old: configMap("a", sound), changed: configMap("a", other), want: []string{other}},
		"problems of what is written": {old: configMap("a", sound), changed: configMap("a", broken), want: []string{broken}},
		"problems of another key":     {old: configMap("a", broken, "b", sound), changed: configMap("a", broken, "b", other), want: []string{broken, other, broken, sound}},
	} {
		t.Run(name, func(t *testing.T) {
			gate := newGate(t, config())
			var linted []string
			lintWith(t, gate, func(name string, data []byte) []oslopolicy.Finding {
				linted = append(linted, string(data))
				if string(data) != broken {
					return nil
				}
				return []oslopolicy.Finding{{File: name, Severity: oslopolicy.SeverityError, Code: "x", Message: "broken"}}
			})
			r := request(t, nil, tc.changed)
			if tc.old != nil {
				r = request(t, tc.old, tc.changed)
			}
			gate.Review(t.Context(), r)
			if diff := cmp.Diff(tc.want, linted); diff != "" {
				t.Errorf("linted policies (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProblemsAfterOthers: a problem of another file, such as one of the base, does not hide the problems after it.
func TestProblemsAfterOthers(t *testing.T) {
	gate := newGate(t, config())
	lintWith(t, gate, func(name string, _ []byte) []oslopolicy.Finding {
		return []oslopolicy.Finding{
			{File: "base keystone/live/a", Severity: oslopolicy.SeverityError, Code: "x", Message: "of the base"},
			{File: name, Severity: oslopolicy.SeverityError, Code: "x", Message: "broken"},
		}
	})
	answer := gate.Review(t.Context(), request(t, configMap(), configMap("b", broken)))
	want := []metav1.StatusCause{cause("x", "data[b]", "b: broken")}
	if diff := cmp.Diff(want, answer.Causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// TestAFileThatCannotBeReadHidesNoOther: the other keys of the object are linted.
func TestAFileThatCannotBeReadHidesNoOther(t *testing.T) {
	changed := configMap("b", broken)
	changed.BinaryData = map[string][]byte{"a": {0xff}}
	answer := newGate(t, config()).Review(t.Context(), request(t, configMap(), changed))
	var got []string
	for _, c := range answer.Causes {
		got = append(got, string(c.Type)+" "+c.Field)
	}
	if diff := cmp.Diff([]string{"file binaryData[a]", "unknown-attribute data[b]"}, got); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
}

// TestVerdict: the verdict that the command prints is that of the gate.
func TestVerdict(t *testing.T) {
	for name, texts := range map[string][]string{
		"sound": {"a", sound}, "a note": {"a", odd}, "a warning": {"a", doubtful}, "an error": {"a", broken, "b", doubtful},
		"as large as is checked": {"a", strings.Repeat("#", keystone.MaxBytes-len(sound)), "b", sound}, "too large": {"a", strings.Repeat("#", keystone.MaxBytes), "b", sound},
		"as many keys as are checked": keys(keystone.MaxPolicies), "too many keys": keys(keystone.MaxPolicies + 1),
	} {
		t.Run(name, func(t *testing.T) {
			var sources []oslopolicy.Source
			for pair := range slices.Chunk(texts, 2) {
				sources = append(sources, oslopolicy.Source{Name: pair[0], Data: []byte(pair[1])})
			}
			findings, err := oslopolicy.LintKeystone(t.Context(), sources, oslopolicy.LintOptions{})
			if err != nil {
				t.Fatal(err)
			}
			answer := newGate(t, config()).Review(t.Context(), request(t, nil, configMap(texts...)))
			if decision, reason := keystone.Verdict(sources, findings); decision != answer.Decision || reason != answer.Reason {
				t.Errorf("Verdict() = %s, %s, and the gate's %s, %s", decision, reason, answer.Decision, answer.Reason)
			}
		})
	}
}

// TestAReferenceToAnOlderProblem: another rule that refers to a rule with an existing problem does not make the problem new.
func TestAReferenceToAnOlderProblem(t *testing.T) {
	const older = "helper: rule:admin_required or rule:none\nidentity:create_user: rule:helper\n"
	answer := newGate(t, config()).Review(t.Context(), request(t, configMap("a", older, "b", other), configMap("a", older, "b", "identity:get_user: rule:helper\n")))
	if answer.Decision == webhooks.Denied {
		t.Errorf("%s: %s", answer.Reason, answer.Message)
	}
}

// TestTimeLimitOfTheLinter has a linter that takes as long as it may, and one that takes longer.
func TestTimeLimitOfTheLinter(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		want  string
	}{
		"in time":  {900*time.Millisecond - 1, "KeystonePolicySound"},
		"too late": {900*time.Millisecond + 1, "KeystonePolicyUnchecked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate, err := keystone.New(config(), keystone.NewBase(config(), nil))
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				gate.LintWith(func(string, []byte) []oslopolicy.Finding {
					defer close(ended)
					time.Sleep(tc.takes) //nolint:forbidigo // advances the clock of the bubble
					return nil
				})
				answer := gate.Review(t.Context(), request(t, configMap(), configMap("a", sound)))
				<-ended
				if answer.Reason != tc.want {
					t.Errorf("reason = %s, want %s", answer.Reason, tc.want)
				}
			})
		})
	}
}

// TestDeepAndWideFiles checks that each has a verdict.
func TestDeepAndWideFiles(t *testing.T) {
	for name, text := range map[string]string{
		"lists":        "a: " + strings.Repeat("[", 100_000),
		"mappings":     "identity:get_user: " + strings.Repeat("{a: ", 60_000),
		"JSON":         `{"identity:get_user": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}",
		"aliases":      "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n" + broken,
		"parentheses":  "identity:get_user: \"" + strings.Repeat("(", 60_000) + "\"",
		"many rules":   strings.Repeat("identity:get_user: role:a\n", 9000),
		"empty tokens": "identity:get_user: \"" + strings.Repeat("not ", 15_000) + "\"",
	} {
		t.Run(name, func(t *testing.T) {
			if answer := newGate(t, config()).Review(t.Context(), request(t, nil, configMap("a", text))); answer.Reason != "KeystonePolicyBroken" {
				t.Errorf("%s: %s", answer.Reason, answer.Message)
			}
		})
	}
}

func TestAPanicOfTheLinterDeniesOneRequest(t *testing.T) {
	gate := newGate(t, config())
	lintWith(t, gate, func(string, []byte) []oslopolicy.Finding { panic("no such thing") })
	answer := gate.Review(t.Context(), request(t, configMap(), configMap("a", sound)))
	want := withEvent(webhookstest.Answer{Decision: webhooks.Undecided, Reason: "KeystonePolicyUnchecked", Message: ofConfigMap + unchecked}, "ConfigMap", "Denied: ")
	if diff := cmp.Diff(want, answer, withoutDetails); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"error", "the linter panicked: no such thing"}, answer.Details()); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

// TestSlowPoliciesBlockNoOthers: the gate answers at the time limit. Requests that are not checked until then are undecided, until a slow
// one has ended.
func TestSlowPoliciesBlockNoOthers(t *testing.T) {
	gate := newGate(t, config())
	started, release := make(chan struct{}), make(chan struct{})
	lintWith(t, gate, func(string, []byte) []oslopolicy.Finding {
		started <- struct{}{}
		<-release
		return nil
	})
	slow := request(t, configMap(), configMap("a", sound))
	ctx, cancel := context.WithCancel(t.Context())
	want := withEvent(webhookstest.Answer{Decision: webhooks.Undecided, Reason: "KeystonePolicyUnchecked", Message: ofConfigMap + unchecked}, "ConfigMap", "Denied: ")
	var reviews sync.WaitGroup
	for range keystone.MaxLinters {
		reviews.Go(func() {
			if diff := cmp.Diff(want, gate.Review(ctx, slow), withoutDetails); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	for range keystone.MaxLinters {
		<-started
	}
	cancel()
	reviews.Wait()

	waiting := gate.Review(ctx, slow)
	if diff := cmp.Diff(want, waiting, withoutDetails); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"error", "wait for other policies to be checked: context canceled"}, waiting.Details()); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	close(release)
	go func() { <-started }()
	if diff := cmp.Diff(allowed("KeystonePolicySound"), gate.Review(t.Context(), slow), withoutDetails); diff != "" {
		t.Errorf("answer after they have ended (-want +got):\n%s", diff)
	}
}

// TestOneTenantDoesNotKeepAnotherWaiting: while a tenant has sent more requests than are checked at a time, a request of another tenant is
// checked at once, and the first tenant's further requests are denied as too many.
func TestOneTenantDoesNotKeepAnotherWaiting(t *testing.T) {
	synctest.Test(t, oneTenantDoesNotKeepAnotherWaiting)
}

func oneTenantDoesNotKeepAnotherWaiting(t *testing.T) {
	gate := newGate(t, config())
	const slow = sound + "# slow\n"
	started, release := make(chan struct{}, 100), make(chan struct{})
	lintWith(t, gate, func(_ string, policy []byte) []oslopolicy.Finding {
		if string(policy) == slow {
			started <- struct{}{}
			<-release
		}
		return nil
	})
	review := func(namespace, policy string) webhookstest.Answer {
		r := request(t, configMap(), configMap("a", policy))
		r.Namespace = namespace
		response := serve(t, webhooks.Handler(gate.Gate, v1beta1.Enforce, &fakeRecorder{}), r)
		answer := webhookstest.Answer{Reason: response.AuditAnnotations["reason"], Status: response.Result.Reason}
		if response.Allowed {
			answer.Decision = webhooks.Allowed
		}
		return answer
	}
	answers := make(chan webhookstest.Answer, 100)
	var reviews sync.WaitGroup
	for range 10 {
		reviews.Go(func() { answers <- review("attacker", slow) })
	}
	<-started
	want := webhookstest.Answer{Decision: webhooks.Denied, Reason: "TooManyRequests", Status: metav1.StatusReasonTooManyRequests}
	if diff := cmp.Diff(want, <-answers); diff != "" {
		t.Errorf("the first request over the limit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(allowed("KeystonePolicySound"), review("other", sound)); diff != "" {
		t.Errorf("the other tenant (-want +got):\n%s", diff)
	}
	close(release)
	reviews.Wait()
}
