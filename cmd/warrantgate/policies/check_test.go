package policies

import (
	"testing"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
)

const checkedPolicy = `
manager_of_user: "role:manager and token.domain.id:%(target.user.domain_id)s"
identity:create_user: rule:admin_required or rule:manager_of_user
identity:create_grant: "rule:admin_required or (rule:manager_of_user and 'member':%(target.role.name)s and None:%(target.role.domain_id)s)"
identity:delete_user: and
`

func TestCheckKeystonePolicy(t *testing.T) {
	for name, tc := range map[string]called{
		"its own domain": {
			args:    []string{"--as", "role=manager,domain=acme", "--can", "identity:create_user", "--target", "target.user.domain_id=acme"},
			wantOut: "PASS\n",
		},
		"another domain": {
			args: []string{"--as", "role=manager,domain=acme", "--can", "identity:create_user", "--target", "target.user.domain_id=other"},
			wantOut: "DENY\n" +
				"  role:admin in rule \"admin_required\": the token has the role \"manager\"\n" +
				"  is_admin:1 in rule \"admin_required\": the token has no is_admin\n" +
				"  token.domain.id:%(target.user.domain_id)s in rule \"manager_of_user\": the token has the token.domain.id \"acme\", not \"other\"\n",
			wantCode: cli.ExitWrong,
		},
		"a value that is JSON": {
			args: []string{
				"--as", "role=manager,domain=acme", "--can", "identity:create_grant", "--target", "target.user.domain_id=acme",
				"--target", "target.role.name=member", "--target", "target.role.domain_id:=null",
			},
			wantOut: "PASS\n",
		},
		"an own rule of Keystone in another release": {
			args:    []string{"--keystone-release=2025.1", "--as", "role=manager,domain=acme", "--can", "identity:create_group", "--target", "target.group.domain_id=acme"},
			wantOut: "PASS\n",
		},
		"a rule that Keystone ships": {
			args:    []string{"--as", "role=reader,system=all", "--can", "identity:list_domains"},
			wantOut: "PASS\n",
		},
		"without a role": {
			args: []string{"--as", "user=alice", "--can", "identity:list_domains"},
			wantOut: "DENY\n" +
				"  role:admin in rule \"admin_required\": the token has no role\n" +
				"  is_admin:1 in rule \"admin_required\": the token has no is_admin\n" +
				"  role:reader in rule \"identity:list_domains\": the token has no role\n",
			wantCode: cli.ExitWrong,
		},
		"nobody": {
			args:        []string{"--can", "identity:list_domains"},
			wantCode:    cli.ExitUnknown,
			wantMessage: "--can needs --as, such as --as role=manager,domain=acme, or --as user=alice for a token without a role",
		},
		"an attribute that Keystone does not fill in": {
			args:        []string{"--as", "role=manager,domain=acme", "--can", "identity:create_user", "--target", "user.domain_id=acme"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `Keystone does not fill "user.domain_id" in for identity:create_user; write "target.user.domain_id"`,
		},
		"a rule that raises an exception": {
			args:        []string{"--as", "role=admin", "--can", "identity:delete_user"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `identity:delete_user ends with an error and is not allowed: the rule is the lone word "and", which raises an exception`,
		},
		"no such key": {
			args:        []string{"--as", "group=a", "--can", "identity:create_user"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `as: "group=a" must be one of role, domain, project, system=all, user, user-domain, project-domain and admin-project=true`,
		},
		"no target": {
			args:        []string{"--as", "role=admin", "--can", "identity:create_user", "--target", "acme"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `--target: "acme" must be key=text or key:=JSON`,
		},
		"no JSON": {
			args:        []string{"--as", "role=admin", "--can", "identity:create_user", "--target", "target.user.enabled:=yes"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `--target: "yes" is not valid JSON: invalid character 'y' looking for beginning of value`,
		},
		"neither a request nor cases": {
			wantCode:    cli.ExitUnknown,
			wantMessage: "give either --can, with --as and --target, or --cases",
		},
		"a caller for cases": {
			args:        []string{"--as", "role=admin", "--cases", "cases.yaml"},
			wantCode:    cli.ExitUnknown,
			wantMessage: "--as and --target belong to --can; the cases have their own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.policy = checkedPolicy
			tc.test(t, NewCheckCommand(), "policy.yaml")
		})
	}
}

func TestCheckCases(t *testing.T) {
	for name, tc := range map[string]called{
		"all are as expected": {
			policy: checkedPolicy,
			files: map[string]string{"cases.yaml": `
cases:
- {name: own domain, as: "role=manager,domain=acme", can: identity:create_user, target: {target: {user: {domain_id: acme}}}, expect: PASS}
- {name: other domain, as: "role=manager,domain=acme", can: identity:create_user, target: {target.user.domain_id: other}, expect: DENY}
`},
			wantOut: "2 cases, 0 failed\n",
		},
		"all are as expected, with -v": {
			policy: checkedPolicy,
			files: map[string]string{"cases.yaml": `
cases:
- {name: own domain, as: "role=manager,domain=acme", can: identity:create_user, target: {target: {user: {domain_id: acme}}}, expect: PASS}
- {name: other domain, as: "role=manager,domain=acme", can: identity:create_user, target: {target.user.domain_id: other}, expect: DENY}
`},
			args:    []string{"-v"},
			wantOut: "ok    own domain: PASS\nok    other domain: DENY\n2 cases, 0 failed\n",
		},
		"a denial that is not expected": {
			policy: "identity:create_user: role:admin and user_id:x\n",
			files:  map[string]string{"cases.yaml": "cases:\n- {name: administrator, as: role=admin, can: identity:create_user, expect: PASS}\n"},
			wantOut: "FAIL  administrator: DENY, expected PASS\n" +
				"  user_id:x in rule \"identity:create_user\": the token has the user_id \"caller\", not \"x\"\n1 cases, 1 failed\n",
			wantCode: cli.ExitWrong,
		},
		"a case without a token": {
			policy:      checkedPolicy,
			files:       map[string]string{"cases.yaml": "cases:\n- {name: x, can: identity:create_user, expect: DENY}\n"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `cases.yaml: cases[0].as: it is missing; write user=alice for a token without a role`,
		},
		"some are not as expected": {
			policy: checkedPolicy,
			files: map[string]string{"cases.yaml": `
cases:
- {name: own domain, as: "role=manager,domain=acme", can: identity:create_user, target: {target.user.domain_id: acme}, expect: DENY}
- {name: broken, as: role=admin, can: identity:delete_user, expect: DENY}
`},
			wantOut: "FAIL  own domain: PASS, expected DENY\n" +
				"FAIL  broken: no answer, expected DENY: identity:delete_user ends with an error and is not allowed: the rule is the lone word \"and\", which raises an exception\n" +
				"2 cases, 2 failed\n",
			wantCode: cli.ExitWrong,
		},
		"an unknown expectation": {
			policy:      checkedPolicy,
			files:       map[string]string{"cases.yaml": "cases:\n- {name: x, can: identity:create_user, expect: pass}\n"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `cases.yaml: cases[0].expect: "pass" must be PASS or DENY`,
		},
		"no cases": {
			policy:      checkedPolicy,
			files:       map[string]string{"cases.yaml": "cases: []\n"},
			wantCode:    cli.ExitUnknown,
			wantMessage: "cases.yaml: it has no cases",
		},
		"an unknown field": {
			policy:      checkedPolicy,
			files:       map[string]string{"cases.yaml": "case: []\n"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `cases.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "case"`,
		},
		"a policy that cannot be loaded": {
			policy:      "a: 5\n",
			files:       map[string]string{"cases.yaml": "cases: []\n"},
			wantCode:    cli.ExitUnknown,
			wantMessage: `policy.yaml:1: "5" may be a number or a date to YAML; put it in quotes`,
		},
	} {
		t.Run(name, func(t *testing.T) { tc.test(t, NewCheckCommand(), "policy.yaml", "--cases=cases.yaml") })
	}
	for _, missing := range [][]string{{"missing.yaml", "--cases", "x"}, {"/dev/null", "--cases", "missing.yaml"}} {
		if _, code, _ := runCommand(t, NewCheckCommand(), append([]string{"keystone-policy"}, missing...)...); code != cli.ExitUnknown {
			t.Errorf("with a file that is missing it ends with %d, want %d", code, cli.ExitUnknown)
		}
	}
	_, _, text := runCommand(t, NewCheckCommand(), "keystone-policy", "/dev/null", "--cases", "domain-manger")
	if want := "open domain-manger: no such file or directory; did you mean domain-manager?"; text != want {
		t.Errorf("with a table that is misspelled it prints %q, want %q", text, want)
	}
	if _, code, _ := runCommand(t, NewCheckCommand(), "keystone-policy"); code != cli.ExitUnknown {
		t.Errorf("without a file it ends with %d, want %d", code, cli.ExitUnknown)
	}
	if out, code, _ := runCommand(t, NewCheckCommand()); code != 0 || out == "" {
		t.Errorf("without a subcommand it ends with %d and prints %q, want help", code, out)
	}
}
