package policies

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

// printedPolicy has findings of each severity, several about a rule, and the worst in the middle.
const printedPolicy = `unused: role:admin
identity:create_user: rule:admin_required and domain_idd:x
identity:delete_user: role:admin or user_id:%(user.domain_id)s or Role:member or rule:none
`

func TestLintAsText(t *testing.T) {
	const (
		deleteUser = `policy.yaml:3 identity:delete_user
  error unknown-rule: there is no rule "none", which counts as false
  error unknown-attribute: Keystone does not fill %(user.domain_id)s in for
  identity:delete_user: the check is always false
    write "%(target.user.domain_id)s"
  warning unknown-credential: Keystone's credentials have no "Role", so that the
  check is false or raises an exception
    write "role"

`
		createUser = `policy.yaml:2 identity:create_user
  warning unknown-credential: Keystone's credentials have no "domain_idd", so
  that the check is false or raises an exception
    write "domain_id"
`
		notes = `  note narrower-than-default: a token with role=admin,domain=own-domain is
  denied identity:create_user, which Keystone's own rule allows
    for example check keystone-policy FILE --can identity:create_user --as
    role=admin,domain=own-domain: DENY, before PASS

policy.yaml:1 unused
  note unused-rule: no rule refers to it, and Keystone does not evaluate it

`
		summary = "policy.yaml: 2 errors, 2 warnings, 2 notes; the gate denies it\n  (KeystonePolicyBroken)\n"
		table   = `PLACE          SEVERITY  CODE                   RULE                  MESSAGE
policy.yaml:3  error     unknown-rule           identity:delete_user  there is no rule "none", which counts as false
policy.yaml:3  error     unknown-attribute      identity:delete_user  Keystone does not fill %(user.domain_id)s in for identity:delete_user: the check is always
                                                                      false; write "%(target.user.domain_id)s"
policy.yaml:3  warning   unknown-credential     identity:delete_user  Keystone's credentials have no "Role", so that the check is false or raises an exception;
                                                                      write "role"
policy.yaml:2  warning   unknown-credential     identity:create_user  Keystone's credentials have no "domain_idd", so that the check is false or raises an
                                                                      exception; write "domain_id"
policy.yaml:2  note      narrower-than-default  identity:create_user  a token with role=admin,domain=own-domain is denied identity:create_user, which Keystone's
                                                                      own rule allows; for example check keystone-policy FILE --can identity:create_user --as
                                                                      role=admin,domain=own-domain: DENY, before PASS
policy.yaml:1  note      unused-rule            unused                no rule refers to it, and Keystone does not evaluate it
policy.yaml: 2 errors, 2 warnings, 2 notes; the gate denies it (KeystonePolicyBroken)
`
		lines = `PLACE          SEVERITY  CODE                RULE                  MESSAGE
policy.yaml:3  error     unknown-rule        identity:delete_user  there is no rule "none", which counts as false
policy.yaml:3  error     unknown-attribute   identity:delete_user  Keystone does not fill %(user.domain_id)s in for identity:delete_user: the check is always false; write "%(target.user.domain_id)s"
policy.yaml:3  warning   unknown-credential  identity:delete_user  Keystone's credentials have no "Role", so that the check is false or raises an exception; write "role"
policy.yaml:2  warning   unknown-credential  identity:create_user  Keystone's credentials have no "domain_idd", so that the check is false or raises an exception; write "domain_id"
2 notes (--notes)
policy.yaml: 2 errors, 2 warnings, 2 notes; the gate denies it (KeystonePolicyBroken)
`
		several = `b.yaml:1 identity:get_user
  error always-allows: "" as a rule allows everybody
    write "!" in quotes to deny, or "@" in quotes to allow everybody

`
	)
	many := ""
	for i := range 300 {
		many += fmt.Sprintf("unused_%d: role:admin\n", i)
	}
	for name, tc := range map[string]called{
		"80 columns":              {policy: printedPolicy, wantOut: deleteUser + createUser + "\n2 notes (--notes)\n" + summary, wantCode: cli.ExitWrong},
		"80 columns, with notes":  {policy: printedPolicy, args: []string{"--notes"}, wantOut: deleteUser + createUser + notes + summary, wantCode: cli.ExitWrong},
		"notes that count":        {policy: printedPolicy, args: []string{"--fail-on=note"}, wantOut: deleteUser + createUser + notes + summary, wantCode: cli.ExitWrong},
		"a wide terminal":         {policy: printedPolicy, columns: "160", args: []string{"--notes"}, wantOut: table, wantCode: cli.ExitWrong},
		"a table on a narrow one": {policy: printedPolicy, columns: "20", args: []string{"-o", "table"}, wantOut: lines, wantCode: cli.ExitWrong},
		"several files, and no note": {
			policy: "identity:create_user: rule:admin_required\n",
			files:  map[string]string{"b.yaml": "identity:get_user: ''\n", "c.yaml": "# nothing\n", "d.yaml": "unused: role:admin\n"},
			args:   []string{"b.yaml", "c.yaml", "d.yaml"},
			wantOut: several + "c.yaml\n  warning no-rules: it has no rules, so that it overrides nothing\n    write the rules, or remove the override\n\n1 note (--notes)\n" +
				"policy.yaml: nothing found; the gate admits it\nb.yaml: 1 error; the gate denies it (KeystonePolicyBroken)\n" +
				"c.yaml: 1 warning; the gate admits it with a warning (KeystonePolicyDoubtful)\nd.yaml: 1 note; the gate admits it\n",
			wantCode: cli.ExitWrong,
		},
		"more notes than are reported": {
			policy:  "identity:create_user: rule:admin_required\n" + many,
			wantOut: "at least 200 notes (--notes)\npolicy.yaml: at least 200 notes; the gate admits it\n",
		},
	} {
		t.Run(name, func(t *testing.T) { tc.test(t, NewLintCommand(), "policy.yaml") })
	}
}

// TestTextIsWrappedBetweenWords: lines have at most as many columns as the terminal, unless they are one word, and all words are there.
func TestTextIsWrappedBetweenWords(t *testing.T) {
	t.Chdir(t.TempDir())
	inFile(t, "policy.yaml", printedPolicy)
	words := ""
	for _, columns := range []int{20, 40, 80, 110} {
		t.Setenv("COLUMNS", strconv.Itoa(columns))
		out, _, _ := runCommand(t, NewLintCommand(), "keystone-policy", "policy.yaml", "--notes")
		for line := range strings.Lines(out) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > columns && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
		all := strings.Join(strings.Fields(out), " ")
		if words != "" && words != all {
			t.Errorf("with %d columns it has other words:\n%s\n%s", columns, words, all)
		}
		words = all
	}
}

// TestColumns: a file is no terminal.
func TestColumns(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	for value, want := range map[string]int{"": 80, "120": 120, "-1": 80, "wide": 80} {
		t.Setenv("COLUMNS", value)
		if got := columns(file); got != want {
			t.Errorf("columns() = %d with COLUMNS=%q, want %d", got, value, want)
		}
	}
}
