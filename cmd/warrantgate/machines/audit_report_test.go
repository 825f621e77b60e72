package machines

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"warrantgate.dev/internal/audit"
)

var reportTime = time.Date(2026, 11, 27, 16, 2, 3, 0, time.UTC)

// hostile are texts that mean something to a browser, to a renderer of Markdown, to a tracker, or to the reader's eye.
var hostile = []string{
	`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `"><svg onload=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
	`[click](javascript:alert(1))`, `![](https://attacker.example.com/x.png)`, `https://attacker.example.com`, `</style><style>*{color:red}`, `{{.Server}}`, `<!--`, `]]>`,
	"| a | b |", "`code`", "```\n", `\`, `\|`, "\\`", "a\n# heading", "a\r\n- [x] done", "/close\n/assign @admin", "@admin #1 !2", "&lt;b&gt;", "*b* _i_ ~~s~~ $x$",
	"\u202etxt.exe\u202c", "\u2066x\u2069", "\u200b\u00ad\ufeff", "\x00\x1b[2J\x7f\u009b31m", "\u2028\u2029", "\xff\xfe", "", " ",
}

func resultOf(texts []string) audit.Result {
	result := audit.Result{Machines: 7, Accounts: 2}
	for _, text := range texts {
		result.Findings = append(result.Findings, audit.Finding{
			Reason: text, Object: corev1.ObjectReference{Kind: text, Namespace: text, Name: text}, Instance: text, Message: text,
		})
	}
	return result
}

// skeleton returns the head of a page, and its body without the texts between its tags.
func skeleton(page string) (head, body string) {
	head, body, _ = strings.Cut(page, "<body>")
	return head, regexp.MustCompile(`>[^<]*<`).ReplaceAllString(body, "><")
}

// TestThePageEscapes: hostile texts add neither tags nor attributes to the page, whose tags are those of a page with harmless texts.
func TestThePageEscapes(t *testing.T) {
	page := func(text string) string {
		var out bytes.Buffer
		if err := newAuditReport(text, reportTime, resultOf([]string{text}), errors.New("e"+text)).html(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	harmless := page("a")
	wantHead, wantBody := skeleton(harmless)
	for _, text := range hostile {
		got := page(text)
		head, body := skeleton(got)
		if diff := cmp.Diff(wantHead+wantBody, head+body); diff != "" {
			t.Errorf("%q changes the page (-harmless +got):\n%s", text, diff)
		}
		expectVisible(t, text, got)
	}
	if regexp.MustCompile(`<(script|a|img|link|iframe|object|base)\b|\s(href|src|on\w+|style)=|url\(|@import|://`).MatchString(harmless) {
		t.Errorf("the page has a script, a link, or something to load:\n%s", harmless)
	}
}

// expectVisible fails if a document has a character that an editor or browser does not show.
func expectVisible(t *testing.T, text, document string) {
	t.Helper()
	if hidden := regexp.MustCompile(`[^\PC\n\t]|[\x{2028}\x{2029}\x{fffd}]`).FindString(document); hidden != "" && text != "\xff\xfe" {
		t.Errorf("%q leaves %q in the document", text, hidden)
	}
}

// TestThePageCountsAndFilters: each row has the classes of its reason and its namespace, by which the style hides it.
func TestThePageCountsAndFilters(t *testing.T) {
	finding := func(namespace, name, reason string) audit.Finding {
		return audit.Finding{Reason: reason, Object: corev1.ObjectReference{Kind: "CloudSigmaMachine", Namespace: namespace, Name: name}, Message: "m"}
	}
	report := newAuditReport("https://kube.example.com", reportTime, audit.Result{Findings: []audit.Finding{
		finding("a", "x", "InstanceNotOwned"), finding("b", "y", "InstanceOrphaned"), finding("b", "z", "InstanceNotOwned"),
	}}, nil)
	want := []findingGroup{
		{"InstanceNotOwned", 2, "Clear the field. The provider adopts the user's own server, or creates one."},
		{"InstanceOrphaned", 1, "A server was made for a machine that does not exist. Delete the server if nothing else uses it."},
	}
	if diff := cmp.Diff(want, report.Reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]findingGroup{{Name: "b", Count: 2}, {Name: "a", Count: 1}}, report.Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	if err := report.html(&out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`<tr class="r0 n1"><td>a</td><td>CloudSigmaMachine/x</td><td>InstanceNotOwned</td>`, `<tr class="r1 n0"><td>b</td>`, `<tr class="r0 n0"><td>b</td>`,
		`<option class="r1">InstanceOrphaned</option>`, `:root:has(.r1:checked) #findings tbody tr:not(.r1) { display: none }`, `:root:has(.n1:checked) #findings tbody tr:not(.n1) {`,
		`API server <code>https://kube.example.com</code>, 2026-11-27 16:02 UTC. Machines: 0, accounts: 0, findings: 3.`,
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the page has no %s:\n%s", part, out.String())
		}
	}
}

// TestMarkdownEscapes: hostile texts are in code spans, in which Markdown and trackers have no markup. They add no line, and no cell.
func TestMarkdownEscapes(t *testing.T) {
	document := func(text string) string {
		var out bytes.Buffer
		if err := newAuditReport(text, reportTime, resultOf([]string{text}), errors.New("e"+text)).markdown(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	code := regexp.MustCompile("`[^`\n]*`")
	harmless := code.ReplaceAllString(document("a"), "CODE")
	for _, text := range hostile {
		got := document(text)
		if diff := cmp.Diff(harmless, code.ReplaceAllString(got, "CODE")); diff != "" {
			t.Errorf("%q changes the document (-harmless +got):\n%s", text, diff)
		}
		for _, span := range code.FindAllString(got, -1) {
			if strings.Contains(span, "|") {
				t.Errorf("%q adds a cell: %s", text, span)
			}
		}
		expectVisible(t, text, got)
	}
}

func TestMarkdown(t *testing.T) {
	machine := corev1.ObjectReference{Kind: "CloudSigmaMachine", Namespace: "team-a", Name: "worker-1"}
	cluster := corev1.ObjectReference{Kind: "CloudSigmaCluster", Namespace: "team-b", Name: "pool"}
	const head = "# warrantgate audit\n\nAPI server `https://kube.example.com`, 2026-11-27 16:02 UTC. Machines: 3, accounts: 2, findings: "
	for name, tc := range map[string]struct {
		findings []audit.Finding
		failed   error
		want     string
	}{
		"nothing is wrong": {want: "0.\n\nNothing is wrong.\n"},
		"nothing found, but not everything checked": {
			failed: errors.Join(errors.New("a"), errors.New("b")), want: "0.\n\n**Not everything could be checked:** `a; b`\n",
		},
		"findings": {
			findings: []audit.Finding{
				{Reason: "InstanceNotOwned", Object: machine, Message: `user "a" | b`}, {Reason: "Unheard", Object: machine, Message: "`"},
				{Reason: "InstanceNotOwned", Object: cluster, Message: "c"},
			},
			want: "3.\n\n| Reason | Findings | What to do |\n|---|---|---|\n" +
				"| `InstanceNotOwned` | 2 | Clear the field. The provider adopts the user's own server, or creates one. |\n| `Unheard` | 1 |  |\n" +
				"\n## `team-a`: 2\n\n- [ ] `InstanceNotOwned` `CloudSigmaMachine/worker-1`: `user \"a\" \\x7c b`\n- [ ] `Unheard` `CloudSigmaMachine/worker-1`: `\\x60`\n" +
				"\n## `team-b`: 1\n\n- [ ] `InstanceNotOwned` `CloudSigmaCluster/pool`: `c`\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			result := audit.Result{Machines: 3, Accounts: 2, Findings: tc.findings}
			if err := newAuditReport("https://kube.example.com", reportTime, result, tc.failed).markdown(&out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(head+tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
