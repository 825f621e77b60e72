package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"warrantgate.dev/cmd/warrantgate/internal/cli"
	"warrantgate.dev/cmd/warrantgate/internal/clitest"
)

// asMain is the variable that makes the test binary run as the program.
const asMain = "WARRANTGATE_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// program returns the command that runs the test binary as the program, from main on.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	return cmd
}

// run runs a command within this process and returns its output.
func run(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr clitest.Output
	cmd := newCommand("warrantgate", &stdout, &stderr)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// commands returns the command and all its subcommands, by their names on the command line.
func commands(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	found := map[string]*cobra.Command{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		found[cmd.CommandPath()] = cmd
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(newCommand("warrantgate", io.Discard, io.Discard))
	return found
}

func TestHelp(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/alice/secret/config") // the help text must not show values of the environment
	for path, cmd := range commands(t) {
		t.Run(path, func(t *testing.T) {
			out, errOut, err := run(t, append(strings.Fields(path)[1:], "--help")...)
			if err != nil || errOut != "" {
				t.Fatalf("error = %v, standard error = %q", err, errOut)
			}
			words := strings.Join(strings.Fields(out), " ") // without line breaks
			cmd.Flags().VisitAll(func(flag *pflag.Flag) {
				if !strings.Contains(out, "--"+flag.Name) || flag.Usage == "" || !strings.Contains(words, flag.Usage) || flag.Hidden {
					t.Errorf("help does not name --%s with %q", flag.Name, flag.Usage)
				}
			})
			for _, child := range cmd.Commands() {
				if !strings.Contains(out, child.Short) {
					t.Errorf("help does not name %s", child.CommandPath())
				}
			}
			if strings.Contains(out, "/home/alice") {
				t.Errorf("help = %s, with values of the environment", out)
			}
			for line := range strings.SplitSeq(out, "\n") {
				if len(line) > helpWidth && !strings.Contains(path, "completion") { // whose text is that of cobra
					t.Errorf("line has %d columns: %s", len(line), line)
				}
			}
		})
	}
}

func TestACommandThatOnlyHasOthersPrintsItsHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"explain"}, {"install"}, {"uninstall"}} {
		t.Run(strings.Join(append([]string{"warrantgate"}, args...), " "), func(t *testing.T) {
			out, errOut, err := run(t, args...)
			help, _, helpErr := run(t, append(args, "--help")...)
			if err != nil || helpErr != nil || errOut != "" {
				t.Fatalf("errors = %v, %v; standard error = %q", err, helpErr, errOut)
			}
			if diff := cmp.Diff(help, out); diff != "" {
				t.Errorf("(-help +got):\n%s", diff)
			}
		})
	}
}

// TestWrongUse runs every command in wrong ways. Each ends with exit code 2, and a message that says what is missing.
func TestWrongUse(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	t.Chdir(t.TempDir()) // a mistake could write a file
	const noKubeconfig = `there is no kubeconfig, or an empty one, in the file "/nonexistent" (variable KUBECONFIG, in the directory "`
	// missing has the message of each command without arguments.
	missing := map[string]string{
		"serve":                      `required flag(s) "tls-cert-file", "tls-private-key-file" not set`,
		"audit":                      noKubeconfig,
		"install kubernetes":         "at least one of the flags in the group [url ca-file policies-only] is required",
		"install kcp":                "at least one of the flags in the group [url ca-file policies-only] is required",
		"install provider":           `required flag(s) "ca-file", "url" not set`,
		"uninstall kubernetes":       noKubeconfig,
		"uninstall kcp":              noKubeconfig,
		"uninstall provider":         noKubeconfig,
		"lint keystone-policy":       "FILE... is missing",
		"check cloudsigma":           "NAMESPACE/NAME | EMAIL is missing",
		"check config":               "FILE is missing",
		"check delegation":           "give --os-cloud, --clouds-yaml or both, such as --os-cloud acme-prod",
		"check events":               "WORKSPACE... is missing",
		"check keystone-policy":      "FILE is missing",
		"check admission kcp":        noKubeconfig,
		"check admission kubernetes": noKubeconfig,
		"explain machine":            "[NAMESPACE/]NAME is missing",
		"explain workspace":          "PATH is missing",
		"repair":                     noKubeconfig,
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a command that is misspelled":       {[]string{"exlpain"}, `unknown command "exlpain"; did you mean explain?` + "\n" + `See "warrantgate --help".`},
		"letters in another order":           {[]string{"audti"}, `unknown command "audti"; did you mean audit?`},
		"the beginning of a command":         {[]string{"lint", "keystone"}, `unknown command "keystone"; did you mean keystone-policy?`},
		"a file for the command below":       {[]string{"lint", "policy.yaml"}, `unknown command "policy.yaml"; did you mean lint keystone-policy policy.yaml?`},
		"one below a command":                {[]string{"explain", "wokspace"}, `unknown command "wokspace"; did you mean workspace?`},
		"a workspace without its kind":       {[]string{"explain", "root:a:b"}, `unknown command "root:a:b"; did you mean explain workspace root:a:b?`},
		"a machine without its kind":         {[]string{"explain", "a/b"}, `unknown command "a/b"; did you mean explain machine a/b?`},
		"a flag that is misspelled":          {[]string{"repair", "--dryrun"}, "unknown flag: --dryrun; did you mean --dry-run?\nSee \"warrantgate repair --help\". For example:\n  warrantgate repair "},
		"a value that is none":               {[]string{"repair", "--rate=many"}, `invalid argument "many" for "--rate" flag`},
		"a value that is out of range":       {[]string{"repair", "--rate=0"}, "--rate: 0 is less than 1"},
		"a format that is none":              {[]string{"version", "-o", "xml"}, `--output: "xml" must be one of text, json, yaml`},
		"a cluster without a kubeconfig":     {[]string{"check", "cloudsigma", "a/b"}, noKubeconfig},
		"a workspace without":                {[]string{"explain", "workspace", "root:a"}, noKubeconfig},
		"a machine without":                  {[]string{"explain", "machine", "a/b"}, noKubeconfig},
		"a machine without, by its name":     {[]string{"explain", "machine", "b"}, noKubeconfig},
		"Events without":                     {[]string{"check", "events", "root:a"}, noKubeconfig},
		"serve without authentication":       {[]string{"serve", "--tls-cert-file=a", "--tls-private-key-file=b"}, "no authentication of callers is configured: set --webhook-path-file"},
		"serve with an address that is none": {append(serveArgs(t), "--webhook-address=localhost"), "--webhook-address: address localhost: missing port in address"},
	} {
		t.Run(name, func(t *testing.T) { wrongUse(t, tc.want, tc.args...) })
	}
	for path, cmd := range commands(t) {
		words := strings.Fields(path)[1:]
		path = strings.Join(words, " ")
		if cmd.HasParent() && cmd.Parent().Name() == "completion" {
			continue // cobra's own
		}
		t.Run(path, func(t *testing.T) {
			wrongUse(t, "unknown flag: --nonexistent\nSee \"warrantgate", append(words, "--nonexistent")...)
			_, operands, _ := strings.Cut(cmd.Use, " ")
			switch {
			case cmd.HasSubCommands():
				wrongUse(t, `unknown command "nonexistent"`, append(words, "nonexistent")...)
				return
			case !strings.HasSuffix(operands, "..."):
				surplus := slices.Concat(words, strings.Fields(operands))
				wrongUse(t, `unexpected argument "surplus"`, append(surplus, "surplus")...)
			}
			if want := missing[path]; want != "" {
				wrongUse(t, want, words...)
			} else if path != "version" {
				t.Errorf("this test does not say what %q without arguments prints", path)
			}
		})
	}
}

func wrongUse(t *testing.T, want string, args ...string) {
	t.Helper()
	out, errOut, err := run(t, args...)
	code, reason := cli.ExitCode(err)
	if code != cli.ExitUnknown || reason == nil || !strings.HasPrefix(reason.Error(), want) || out != "" {
		t.Errorf("%v: exit code %d, want 2; error = %v, want %s…; output = %q, %q", args, code, reason, want, out, errOut)
	}
}

func TestHelpNamesTheProgramAsItWasCalled(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/local/bin/warrantgate":         "warrantgate explain workspace",
		"/usr/local/bin/kubectl-warrantgate": "kubectl warrantgate explain workspace",
		"kubectl-warrantgate":                "kubectl warrantgate explain workspace",
		"my-gate":                            "warrantgate explain workspace",
	} {
		t.Run(program, func(t *testing.T) {
			var out bytes.Buffer
			root := newCommand(program, &out, &out)
			root.SetArgs([]string{"explain", "workspace", "--help"})
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{"\n  " + want + " PATH [flags]\n", "\n  " + want + " root:orgs:team-a -o json\n"} {
				if !strings.Contains(out.String(), line) {
					t.Errorf("help does not have %q:\n%s", line, out.String())
				}
			}
		})
	}
}

func TestCommandsInMessagesAreThoseOfThePlugin(t *testing.T) {
	for program, want := range map[string]string{"warrantgate": "run `warrantgate repair`", "kubectl-warrantgate": "run `kubectl warrantgate repair`"} {
		var out, errOut bytes.Buffer
		root := newCommand(program, &out, &errOut)
		for _, writer := range []io.Writer{root.OutOrStdout(), root.ErrOrStderr()} {
			if _, err := io.WriteString(writer, "run `warrantgate repair`"); err != nil {
				t.Error(err)
			}
		}
		if out.String() != want || errOut.String() != want {
			t.Errorf("%s: %q, %q, want %q", program, out.String(), errOut.String(), want)
		}
	}
}

// TestErrorsDoNotControlTheTerminal: an error can contain texts of other users, here the name of a file.
func TestErrorsDoNotControlTheTerminal(t *testing.T) {
	cmd := program(t, "audit", "--config=\x1b[2Jof-a-tenant")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Run(); err == nil {
		t.Error("audit found the file")
	}
	if got, want := errOut.String(), `\x1b[2Jof-a-tenant`; !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
		t.Errorf("stderr = %q, want %q without control characters", got, want)
	}
}
