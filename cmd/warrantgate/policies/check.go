// Package policies has the commands that check policies and API servers: lint and check.
package policies

import (
	_ "embed" // for the table of cases
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/internal/message"
	"warrantgate.dev/internal/oslopolicy"
	"warrantgate.dev/internal/preflight"
)

type checkOptions struct {
	as, can      string
	target, base []string
	cases        string
	release      string
	output       string
	verbose      bool
	inputs       inputs
}

// NewCheckCommand returns the command check.
func NewCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Test a configuration file, a policy or an API server",
	}
	cmd.AddCommand(newCheckKeystonePolicyCommand(), newCheckAdmissionCommand(), newCheckCloudSigmaCommand(), newCheckDelegationCommand(),
		newCheckEventsCommand(), newCheckConfigCommand())
	return cmd
}

func newCheckKeystonePolicyCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "keystone-policy FILE",
		Short: "Evaluate a Keystone policy for a user and an operation",
		Long: `Say whether a Keystone policy allows an operation, without a Keystone: FILE is an override in YAML or JSON, a directory
such as policy.d, a zip archive as the charm of Keystone takes it, or - for standard input. Where it has no rule, that of --base
applies, and otherwise that of Keystone in the release. --base is a policy that Keystone loads before, as for "lint keystone-policy".

The answer is PASS or DENY. Below DENY are the checks that are false: all alternatives, and of checks joined with "and" the first.

--as describes the token: role=NAME (may be given again), one of domain=ID, project=ID and system=all for its scope,
and user=ID, user-domain=ID, project-domain=ID and admin-project=true. The domain of the user and of the project is that of
the token, if it is not given.

--target is an attribute that Keystone fills in for the operation, such as target.user.domain_id=acme. What stands after := is
JSON: target.role.domain_id:=null. Attributes that Keystone does not fill in are errors.

--cases is a table in YAML of what must pass and what must not:

  cases:
  - name: a manager creates users in its own domain
    as: role=manager,domain=acme
    can: identity:create_user
    target: {target.user.domain_id: acme}
    expect: PASS # or DENY

--cases domain-manager runs the table that warrantgate has: the acceptance matrix of an override for managers of domains. They
have the role manager on the domain acme there. Cases that are not as expected are printed, and with -v all.

The exit status is 0 if it is allowed or all cases are as expected, 1 if it is denied or a case is not, 2 if that could not be determined.`,
		Example: `  warrantgate check keystone-policy policy.yaml --as \
    role=manager,domain=acme --can identity:create_user --target \
    target.user.domain_id=acme
  warrantgate check keystone-policy policy.yaml --cases cases.yaml
  warrantgate check keystone-policy overrides.zip --base \
    /etc/keystone/policy.json --cases domain-manager`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.inputs.stdin = cmd.InOrStdin()
			return o.run(args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.as, "as", "", "who asks, such as role=manager,domain=acme")
	flags.StringVar(&o.can, "can", "", "operation to check, such as identity:create_user")
	flags.StringArrayVar(&o.target, "target", nil, "attribute of the target, as key=text or key:=JSON; may be given again")
	flags.StringArrayVar(&o.base, "base", nil, "policy that Keystone loads before: a file, a directory or a zip archive; may be given again, in order")
	flags.StringVar(&o.release, "keystone-release", string(oslopolicy.DefaultRelease), releaseUsage)
	flags.StringVar(&o.cases, "cases", "", "YAML file with cases that must pass or be denied, or - for standard input")
	addOutputFlag(flags, &o.output)
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "with --cases, print also the cases that are as expected")
	return cmd
}

func (o *checkOptions) run(name string, out io.Writer) error {
	switch {
	case (o.can == "") == (o.cases == ""):
		return errors.New("give either --can, with --as and --target, or --cases")
	case o.can != "" && o.as == "":
		return errors.New("--can needs --as, such as --as role=manager,domain=acme, or --as user=alice for a token without a role")
	case o.cases != "" && (o.as != "" || len(o.target) > 0):
		return errors.New("--as and --target belong to --can; the cases have their own")
	}
	if err := cli.CheckFormat(o.output); err != nil {
		return err
	}
	policy, err := o.policy(name)
	if err != nil {
		return err
	}
	if o.cases != "" {
		return o.runCases(policy, out)
	}
	target, err := parseTarget(o.target)
	if err != nil {
		return err
	}
	asked := oslopolicy.Case{As: o.as, Can: o.can, Target: target}
	answer, err := asked.Ask(policy)
	if err != nil {
		return err
	}
	result := resultOK
	if answer != oslopolicy.AnswerPass {
		result = resultWrong
	}
	var all checks
	all.add(o.can, result, answer+why(asked, policy))
	return o.print(out, all, cli.Color(out, verdicts[result], answer)+why(asked, policy)+"\n")
}

// print prints the results, with their own text, and returns the error for the exit status.
func (o *checkOptions) print(out io.Writer, all checks, text string) error {
	if err := cli.PrintReport(out, o.output, all, func(out io.Writer) error {
		_, err := io.WriteString(out, text)
		return err
	}); err != nil {
		return err
	}
	return all.status()
}

// why lists the checks that deny a case, "" if it is not denied.
func why(c oslopolicy.Case, policy *oslopolicy.Policy) string {
	var text strings.Builder
	for _, check := range c.Why(policy) {
		fmt.Fprintf(&text, "\n  %s", oneTableCell(check))
	}
	return text.String()
}

// policy returns the effective policy that Keystone loads from the base and the override.
func (o *checkOptions) policy(name string) (*oslopolicy.Policy, error) {
	release, err := oslopolicy.ParseRelease(o.release)
	if err != nil {
		return nil, fmt.Errorf("--keystone-release: %w", err)
	}
	base, err := o.inputs.readBase(o.base)
	if err != nil {
		return nil, err
	}
	sources, err := o.inputs.readSources(name)
	if err != nil {
		return nil, err
	}
	files, err := oslopolicy.ReadAll(sources)
	if err != nil {
		return nil, err
	}
	return release.Policy(append(base, files...)...), nil
}

func (o *checkOptions) runCases(policy *oslopolicy.Policy, out io.Writer) error {
	document, err := o.inputs.readCases(o.cases)
	if err != nil {
		return err
	}
	var table struct {
		Cases []oslopolicy.Case `json:"cases"`
	}
	if err := yaml.UnmarshalStrict(document, &table); err != nil {
		return fmt.Errorf("%s: %w", o.cases, err)
	}
	if len(table.Cases) == 0 {
		return fmt.Errorf("%s: it has no cases", o.cases)
	}
	failed, text := 0, &strings.Builder{}
	var all checks
	for i, c := range table.Cases {
		if c.Expect != oslopolicy.AnswerPass && c.Expect != oslopolicy.AnswerDeny {
			return fmt.Errorf("%s: cases[%d].expect: %q must be PASS or DENY", o.cases, i, c.Expect)
		}
		if c.As == "" {
			return fmt.Errorf("%s: cases[%d].as: it is missing; write user=alice for a token without a role", o.cases, i)
		}
		answer, err := c.Ask(policy)
		wrong := ""
		switch {
		case err != nil:
			wrong = fmt.Sprintf("no answer, expected %s: %v", c.Expect, err)
		case answer != c.Expect:
			wrong = fmt.Sprintf("%s, expected %s%s", answer, c.Expect, why(c, policy))
		}
		if wrong != "" {
			failed++
			all.add(c.Name, resultWrong, wrong)
			fmt.Fprintf(text, "%s  %s: %s\n", cli.Color(out, preflight.No, "FAIL"), c.Name, wrong)
			continue
		}
		all.add(c.Name, resultOK, answer)
		if o.verbose {
			fmt.Fprintf(text, "%s    %s: %s\n", cli.Color(out, preflight.Yes, "ok"), c.Name, answer)
		}
	}
	fmt.Fprintf(text, "%d cases, %d failed\n", len(table.Cases), failed)
	return o.print(out, all, text.String())
}

// domainManager names warrantgate's own table of cases. A file of that name is given as ./domain-manager.
const domainManager = "domain-manager"

//go:embed cases/domain-manager.yaml
var domainManagerCases []byte

// readCases reads a table of cases from a file, or warrantgate's own table.
func (in *inputs) readCases(name string) ([]byte, error) {
	if name == domainManager {
		return domainManagerCases, nil
	}
	i, err := in.read(name)
	if near := message.Nearest(name, []string{domainManager}); near != "" && errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return i.data, err
}

// parseTarget parses the values of --target.
func parseTarget(pairs []string) (map[string]any, error) {
	target := map[string]any{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--target: %q must be key=text or key:=JSON", pair)
		}
		name, isJSON := strings.CutSuffix(key, ":")
		if !isJSON {
			target[name] = value
			continue
		}
		decoder := json.NewDecoder(strings.NewReader(value))
		decoder.UseNumber()
		var decoded any
		if err := decoder.Decode(&decoded); err != nil {
			return nil, fmt.Errorf("--target: %q is not valid JSON: %w", value, err)
		}
		target[name] = decoded
	}
	return target, nil
}
