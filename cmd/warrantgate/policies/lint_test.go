package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/oslopolicy"
)

// runCommand runs one command. It returns the output and the exit code that the program would have.
func runCommand(t *testing.T, cmd *cobra.Command, args ...string) (out string, code int, message string) {
	t.Helper()
	var buffer bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&buffer)
	cmd.SetErr(&buffer)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	if err == nil {
		return buffer.String(), 0, ""
	}
	code, err = cli.ExitCode(err)
	if err != nil {
		message = err.Error()
	}
	return buffer.String(), code, message
}

// inFile writes a file into the working directory of the test, so that its name is the same everywhere.
func inFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// called is a call of "lint keystone-policy" or "check keystone-policy" in a directory with files, and its result.
type called struct {
	args []string
	// policy is the content of policy.yaml, files that of others.
	policy  string
	files   map[string]string
	stdin   string
	columns string

	wantOut     string
	wantCode    int
	wantMessage string
}

func (c called) test(t *testing.T, cmd *cobra.Command, args ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("COLUMNS", c.columns)
	inFile(t, "policy.yaml", c.policy)
	for name, content := range c.files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		inFile(t, name, content)
	}
	cmd.SetIn(strings.NewReader(c.stdin))
	out, code, message := runCommand(t, cmd, append(append([]string{"keystone-policy"}, args...), c.args...)...)
	if diff := cmp.Diff(c.wantOut, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if code != c.wantCode || message != c.wantMessage {
		t.Errorf("ends with %d %q, want %d %q", code, message, c.wantCode, c.wantMessage)
	}
}

func TestLintKeystonePolicy(t *testing.T) {
	const warning = "PLACE          SEVERITY  CODE                   RULE                  MESSAGE\n" +
		"policy.yaml:1  warning   unknown-credential     identity:create_user  Keystone's credentials have no \"tenant_id\", so that the check is false or raises an exception; write \"project_id\"\n" +
		"policy.yaml:1  note      narrower-than-default  identity:create_user  a token with role=admin,domain=own-domain is denied identity:create_user, which Keystone's own rule allows; for example check keystone-policy FILE --can identity:create_user --as role=admin,domain=own-domain: DENY, before PASS\n" +
		"policy.yaml: 1 warning, 1 note; the gate admits it with a warning (KeystonePolicyDoubtful)\n"
	for name, tc := range map[string]called{
		"nothing is wrong": {
			policy:  "identity:create_user: role:admin\n",
			wantOut: "policy.yaml: nothing found; the gate admits it\n",
		},
		"an error": {
			policy: "# a comment\nidentity:create_user: role:admin rule:x\n",
			wantOut: "PLACE          SEVERITY  CODE    RULE                  MESSAGE\n" +
				"policy.yaml:2  error     syntax  identity:create_user  oslo.policy cannot parse the rule and silently denies: \"rule:x\" is unexpected here; join checks with and, or, not and parentheses that match\n" +
				"policy.yaml: 1 error; the gate denies it (KeystonePolicyBroken)\n",
			wantCode: cli.ExitWrong,
		},
		"a warning": {
			policy:   "identity:create_user: tenant_id:x\n",
			wantOut:  warning,
			wantCode: cli.ExitWrong,
		},
		"a warning, with --fail-on=error": {
			policy:  "identity:create_user: tenant_id:x\n",
			args:    []string{"--fail-on=error"},
			wantOut: warning,
		},
		"a note": {
			policy: "helper: role:admin\n",
			wantOut: "PLACE          SEVERITY  CODE         RULE    MESSAGE\n" +
				"policy.yaml:1  note      unused-rule  helper  no rule refers to it, and Keystone does not evaluate it\n" +
				"policy.yaml: 1 note; the gate admits it\n",
		},
		"a role that may be granted": {
			policy: "identity:create_grant: \"role:boss and token.domain.id:%(target.user.domain_id)s and " +
				"token.domain.id:%(target.project.domain_id)s and 'helper':%(target.role.name)s or rule:admin_required\"\n",
			args:    []string{"--manager-role=boss", "--managed-role=helper"},
			wantOut: "policy.yaml: nothing found; the gate admits it\n",
		},
		"differences that may be meant": {
			policy: "identity:create_user: rule:admin_required and system_scope:all\nidentity:list_domains: rule:admin_required or role:manager\n",
			args:   []string{"--differences"},
			wantOut: "PLACE          SEVERITY  CODE                   RULE                   MESSAGE\n" +
				"policy.yaml:1  note      narrower-than-default  identity:create_user   a token with role=admin,domain=own-domain is denied identity:create_user, which Keystone's own rule allows; for example check keystone-policy FILE --can identity:create_user --as role=admin,domain=own-domain: DENY, before PASS\n" +
				"policy.yaml:2  note      broader-than-default   identity:list_domains  a token with role=manager,domain=own-domain passes identity:list_domains, which Keystone's own rule denies; for example check keystone-policy FILE --can identity:list_domains --as role=manager,domain=own-domain: PASS, before DENY\n" +
				"policy.yaml:2  note      narrower-than-default  identity:list_domains  a token with role=reader,system=all,user-domain=own-domain is denied identity:list_domains, which Keystone's own rule allows; for example check keystone-policy FILE --can identity:list_domains --as role=reader,system=all,user-domain=own-domain: DENY, before PASS\n" +
				"policy.yaml: 3 notes; the gate admits it\n",
		},
		"JSON": {
			policy: "helper: role:admin\n",
			args:   []string{"-o", "json"},
			wantOut: `{
  "findings": [
    {
      "file": "policy.yaml",
      "line": 1,
      "rule": "helper",
      "severity": "note",
      "code": "unused-rule",
      "message": "no rule refers to it, and Keystone does not evaluate it"
    }
  ]
}
`,
		},
		"an override that Keystone has made obsolete": {
			policy: "identity:create_user: rule:admin_required or role:manager and token.domain.id:%(target.user.domain_id)s\n",
			args:   []string{"--keystone-release=2025.1"},
			wantOut: "PLACE          SEVERITY  CODE               RULE                  MESSAGE\n" +
				"policy.yaml:1  warning   override-obsolete  identity:create_user  Keystone has a role for managers of a domain since 2024.2; an override for managers conflicts with it; remove the override, and compare the rest of it with Keystone's own rules\n" +
				"policy.yaml: 1 warning; the gate admits it with a warning (KeystonePolicyDoubtful)\n",
			wantCode: cli.ExitWrong,
		},
		"a release that is not known": {
			policy: "identity:create_user: role:admin\n", args: []string{"--keystone-release=2021.1"}, wantCode: cli.ExitUnknown,
			wantMessage: `--keystone-release: the rules of Keystone in release "2021.1" are not known; known are those of 2022.2 (zed), 2023.1 (antelope), ` +
				"2023.2 (bobcat), 2024.1 (caracal), 2024.2 (dalmatian), 2025.1 (epoxy), 2025.2 (flamingo), 2026.1 (gazpacho), 2026.2 (hibiscus)",
		},
		"an empty override": {
			policy: "# nothing\n",
			wantOut: "PLACE        SEVERITY  CODE      RULE  MESSAGE\n" +
				"policy.yaml  warning   no-rules        it has no rules, so that it overrides nothing; write the rules, or remove the override\n" +
				"policy.yaml: 1 warning; the gate admits it with a warning (KeystonePolicyDoubtful)\n",
			wantCode: cli.ExitWrong,
		},
		"nothing, as JSON": {
			policy:  "identity:create_user: role:admin",
			args:    []string{"-o", "json"},
			wantOut: "{\n  \"findings\": []\n}\n",
		},
		"a file that is no policy": {
			policy:   "- x\n",
			wantCode: cli.ExitWrong,
			wantOut: "PLACE          SEVERITY  CODE  RULE  MESSAGE\n" +
				"policy.yaml:1  error     file        it is a list, not rules with their names; correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails\n" +
				"policy.yaml: 1 error; the gate denies it (KeystonePolicyBroken)\n",
		},
		"patterns that match no rule": {
			policy: "identity:scim_list_users: rule:admin_required\n", args: []string{"--known-rule=identity:scim_*,identity:scm_*,identity:create_*"},
			wantOut: "policy.yaml: nothing found; the gate admits it\n" +
				"note: --known-rule: \"identity:scm_*\" matches no rule of FILE and --base, apart from Keystone's own\n" +
				"note: --known-rule: \"identity:create_*\" matches no rule of FILE and --base, apart from Keystone's own\n",
		},
		"patterns of rules in several files": {
			policy: "identity:scim_list_users: rule:admin_required\n", files: map[string]string{"b.yaml": "identity:x: rule:admin_required\n", "c.yaml": "identity:y: role:admin\n"},
			args:    []string{"b.yaml", "--base=c.yaml", "--known-rule=identity:scim_*,identity:x,identity:y"},
			wantOut: "policy.yaml: nothing found; the gate admits it\nb.yaml: nothing found; the gate admits it\n",
		},
		"a pattern that cannot be read": {
			args: []string{"--known-rule=identity:["}, wantCode: cli.ExitUnknown, wantMessage: `--known-rule: "identity:[" must be a pattern such as identity:scim_*`,
		},
		"a helper, in JSON": {
			policy: "helper: rule:none\nidentity:create_user: rule:helper or rule:admin_required\n", args: []string{"-o", "json"},
			wantOut: `{
  "findings": [
    {
      "file": "policy.yaml",
      "line": 1,
      "rule": "helper",
      "operations": [
        "identity:create_user"
      ],
      "severity": "error",
      "code": "unknown-rule",
      "message": "there is no rule \"none\", which counts as false"
    }
  ]
}
`,
			wantCode: cli.ExitWrong,
		},
		"a byte order mark and line ends of Windows": {
			policy: "\ufeffidentity:create_user: rule:admin_required\r\nidentity:get_user: rule:admin_required or rule:none\r\n",
			wantOut: "PLACE          SEVERITY  CODE          RULE               MESSAGE\n" +
				"policy.yaml:2  error     unknown-rule  identity:get_user  there is no rule \"none\", which counts as false\n" +
				"policy.yaml: 1 error; the gate denies it (KeystonePolicyBroken)\n",
			wantCode: cli.ExitWrong,
		},
		"no such output": {
			args:        []string{"-o", "xml"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `--output: "xml" must be one of text, table, json, sarif`,
		},
		"no such severity": {
			args:        []string{"--fail-on=fatal"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `--fail-on: "fatal" must be error, warning or note`,
		},
		"files that do not exist, and one with a note": {
			policy: "helper: role:admin\n", args: []string{"missing.yaml", "other.yaml"},
			wantOut: "PLACE          SEVERITY  CODE         RULE    MESSAGE\n" +
				"policy.yaml:1  note      unused-rule  helper  no rule refers to it, and Keystone does not evaluate it\n" +
				"policy.yaml: 1 note; the gate admits it\n",
			wantCode:    cli.ExitUnknown,
			wantMessage: "open missing.yaml: no such file or directory\nopen other.yaml: no such file or directory",
		},
	} {
		t.Run(name, func(t *testing.T) { tc.test(t, NewLintCommand(), "policy.yaml", "--notes", "--output=table") })
	}
}

func TestLintNeedsAFile(t *testing.T) {
	_, code, message := runCommand(t, NewLintCommand(), "keystone-policy")
	if want := "requires at least 1 arg(s), only received 0"; code != cli.ExitUnknown || message != want {
		t.Errorf("ends with %d %q, want %d %q", code, message, cli.ExitUnknown, want)
	}
	if out, code, _ := runCommand(t, NewLintCommand()); code != 0 || out == "" {
		t.Errorf("without a subcommand it ends with %d and prints %q, want help", code, out)
	}
}

func TestLintAsSARIF(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("etc", 0o700); err != nil {
		t.Fatal(err)
	}
	inFile(t, filepath.Join("etc", "policy.yaml"), "identity:create_user: rule:a or rule:admin_required\na: ''\n")
	inFile(t, "broken.yaml", "a: b\n---\nc: d\n")
	out, code, message := runCommand(t, NewLintCommand(), "keystone-policy", "-o", "sarif", "etc/policy.yaml", "broken.yaml")
	if code != cli.ExitWrong || message != "" {
		t.Errorf("ends with %d %q, want %d", code, message, cli.ExitWrong)
	}
	want := `{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": [{
			"tool": {"driver": {"name": "warrantgate", "version": "dev", "rules": [
				{"id": "always-allows", "shortDescription": {"text": "The rule allows everybody, but is not @"}, "helpUri": "` + helpURI + `"},
				{"id": "file", "shortDescription": {"text": "oslo.policy cannot load the file"}, "helpUri": "` + helpURI + `"}
			]}},
			"results": [{
				"ruleId": "always-allows", "level": "error",
				"message": {"text": "the rule allows every request; write \"@\" in quotes if that is meant"},
				"locations": [{
					"physicalLocation": {"artifactLocation": {"uri": "etc/policy.yaml"}, "region": {"startLine": 1}},
					"logicalLocations": [{"name": "identity:create_user"}]
				}]
			}, {
				"ruleId": "always-allows", "level": "error",
				"message": {"text": "\"\" as a rule allows everybody; write \"!\" in quotes to deny, or \"@\" in quotes to allow everybody"},
				"locations": [{
					"physicalLocation": {"artifactLocation": {"uri": "etc/policy.yaml"}, "region": {"startLine": 2}},
					"logicalLocations": [{"name": "a"}]
				}],
				"properties": {"operations": ["identity:create_user"]}
			}, {
				"ruleId": "file", "level": "error",
				"message": {"text": "it has several documents of YAML, and only one is read; take the line with --- or ... out; correct it before Keystone reads it: if oslo.policy cannot load a file, the former rules stay in effect, and after a restart every request fails"},
				"locations": [{"physicalLocation": {"artifactLocation": {"uri": "broken.yaml"}, "region": {"startLine": 2}}}]
			}]
		}]
	}`
	var wanted, got any
	if err := errors.Join(json.Unmarshal([]byte(want), &wanted), json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// TestEveryCodeHasAMeaning: the codes of the linter are those with a meaning in SARIF, and the README has them all in its table.
func TestEveryCodeHasAMeaning(t *testing.T) {
	const root = "../../../"
	source, err := os.ReadFile(root + "internal/oslopolicy/findings.go")
	readme, readmeErr := os.ReadFile(root + "webhooks/keystone/README.md")
	if err := errors.Join(err, readmeErr); err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(readme), "\n## Codes\n")
	if !found {
		t.Fatal("the README has no section that helpUri refers to")
	}
	var codes []string
	for _, match := range regexp.MustCompile(`Code\w+ += "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		codes = append(codes, match[1])
		if !strings.Contains(table, "`"+match[1]+"`") {
			t.Errorf("the README does not have the code %s", match[1])
		}
	}
	slices.Sort(codes)
	if diff := cmp.Diff(codes, slices.Sorted(maps.Keys(oslopolicy.Meanings))); diff != "" {
		t.Errorf("codes (-linter +SARIF):\n%s", diff)
	}
}

// closed is a writer that accepts no bytes.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("it is closed") }

func TestLintFailsIfTheOutputIsClosed(t *testing.T) {
	t.Chdir(t.TempDir())
	inFile(t, "policy.yaml", "{}")
	cmd := NewLintCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(closed{})
	cmd.SetArgs([]string{"keystone-policy", "policy.yaml"})
	if code, message := cli.ExitCode(cmd.ExecuteContext(t.Context())); code != cli.ExitUnknown || message == nil {
		t.Errorf("ends with %d %v, want %d and the error", code, message, cli.ExitUnknown)
	}
}

// The text of a policy must neither add cells to the table nor control the terminal.
func TestOneTableCell(t *testing.T) {
	for text, want := range map[string]string{
		"role:admin  or\n\trole:a": "role:admin or role:a",
		"a\x1b[2Jb":                `a\x1b[2Jb`,
		"a\u202eb\u200bc":          `a\u202eb\u200bc`,
	} {
		if got := oneTableCell(text); got != want {
			t.Errorf("oneTableCell(%q) = %q, want %q", text, got, want)
		}
	}
}
