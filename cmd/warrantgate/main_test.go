package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

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
	cmd := newCommand(&stdout, &stderr)
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
	walk(newCommand(nil, nil))
	return found
}

func TestCommands(t *testing.T) {
	want := map[string]string{
		"warrantgate":                            "Admission control for the identities that control planes impersonate",
		"warrantgate serve":                      "Serve the admission webhooks and repair stuck workspaces",
		"warrantgate audit":                      "Report machines that name another user's server, and servers that no machine names",
		"warrantgate install kubernetes":         "Install the gates on machines, clusters, controller managers and Keystone policies in Kubernetes",
		"warrantgate install provider":           "Install the gates on machines and clusters that a provider exports on kcp",
		"warrantgate uninstall provider":         "Uninstall the gates from the workspace of a provider's APIExport",
		"warrantgate uninstall kubernetes":       "Uninstall the gates from Kubernetes",
		"warrantgate lint":                       "Check files for mistakes",
		"warrantgate lint keystone-policy":       "Report mistakes in a Keystone policy",
		"warrantgate check":                      "Test what a policy or an API server allows",
		"warrantgate check cloudsigma":           "Check that CloudSigma treats a token as its user",
		"warrantgate check delegation":           "Check that a cluster on OpenStack may use credentials",
		"warrantgate check events":               "Check that serve can write Events in workspaces of kcp",
		"warrantgate check keystone-policy":      "Evaluate a Keystone policy for a user and an operation",
		"warrantgate explain":                    "Explain what is wrong with an object",
		"warrantgate explain machine":            "Explain whose server a machine names, and what to do",
		"warrantgate explain workspace":          "Explain why a workspace is not Ready, and what to do",
		"warrantgate install":                    "Install the gates in an API server",
		"warrantgate install kcp":                "Install the gates on Workspaces in kcp",
		"warrantgate uninstall":                  "Uninstall the gates from an API server",
		"warrantgate uninstall kcp":              "Uninstall the gates on Workspaces from kcp",
		"warrantgate repair":                     "Repair workspaces that are stuck because of their owner",
		"warrantgate version":                    "Print the version",
		"warrantgate check admission":            "Check that an API server denies what warrantgate must deny",
		"warrantgate check admission kcp":        "Check that kcp denies what warrantgate must deny",
		"warrantgate check admission kubernetes": "Check that a Kubernetes API server denies what warrantgate must deny",
	}
	got := map[string]string{}
	for path, cmd := range commands(t) {
		got[path] = cmd.Short
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	t.Setenv("KUBECONFIG", "/home/alice/secret/config") // the help text must not show values of the environment
	for path, cmd := range commands(t) {
		t.Run(path, func(t *testing.T) {
			out, errOut, err := run(t, append(strings.Fields(path)[1:], "--help")...)
			if err != nil {
				t.Fatalf("error = %v", err)
			}
			if errOut != "" {
				t.Errorf("standard error = %q", errOut)
			}
			flags := 0
			cmd.Flags().VisitAll(func(flag *pflag.Flag) {
				flags++
				if !strings.Contains(out, "--"+flag.Name+" ") || flag.Usage == "" || !strings.Contains(out, flag.Usage) {
					t.Errorf("help does not name --%s with %q", flag.Name, flag.Usage)
				}
				if flag.Hidden {
					t.Errorf("--%s is hidden", flag.Name)
				}
			})
			if cmd.HasSubCommands() {
				for _, child := range cmd.Commands() {
					if !strings.Contains(out, child.Short) {
						t.Errorf("help does not name %s", child.CommandPath())
					}
				}
			} else if flags == 0 {
				t.Error("there are no flags")
			}
			if strings.Contains(out, "/home/alice") {
				t.Errorf("help = %s, with values of the environment", out)
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

func TestAMistakeIsOneLineAndExitCode1(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a command that does not exist": {
			args: []string{"server"},
			want: "warrantgate: unknown command \"server\" for \"warrantgate\"\n",
		},
		"a required flag that is missing": {
			args: []string{"serve"},
			want: "warrantgate: required flag(s) \"tls-cert-file\", \"tls-private-key-file\" not set\n",
		},
		"an invalid address": {
			args: append(serveArgs(t), "--webhook-address=localhost"),
			want: "warrantgate: --webhook-address: address localhost: missing port in address\n",
		},
		"an unexpected argument": {
			args: []string{"version", "now"},
			want: "warrantgate: unknown command \"now\" for \"warrantgate version\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := program(t, tc.args...)
			var out, errOut bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errOut
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("exit code = %d (%v), want 1", code, err)
			}
			if diff := cmp.Diff(tc.want, errOut.String()); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
			if out.Len() > 0 {
				t.Errorf("standard output = %q", out.String())
			}
		})
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
			root := newCommand(&out, &out)
			asKubectlPlugin(root, program)
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
		root := newCommand(&out, &errOut)
		asKubectlPlugin(root, program)
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
