package impersonation_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"warrantgate.dev/internal/impersonation"
)

// TestAShellReadsTheCommands runs the commands of denials in a shell, with a function in place of kubectl that prints its arguments.
func TestAShellReadsTheCommands(t *testing.T) {
	const kubectl = `kubectl() { printf '%s\n' "$#" "$@"; }; `
	for _, odd := range []string{
		"bob", "o'brien", "''", "jürgen", "алиса", "$(id)", "`id`", "$0", `a\b`, `a"b`, "a;b", "a|b", "a&b", "a>b", "*", "?", "~", "a#b", "!!", "{a,b}", "(a)", "-x",
	} {
		email := odd + "@example.com"
		for _, username := range []string{odd, odd + " Doe", "https://idp.example.com/a%" + odd, "system:serviceaccount:default:bot"} {
			role := "warrantgate:impersonate:" + email
			to := []string{"--user=" + username, strings.NewReplacer("/", "-", "%", "-").Replace(username)}
			if username == bot.Username {
				to[0] = "--serviceaccount=default:bot"
			}
			want := []string{
				"6", "create", "clusterrole", role, "--verb=impersonate", "--resource=users", "--resource-name=" + email,
				"5", "create", "clusterrolebinding", role + ":" + to[1], "--clusterrole=" + role, to[0],
			}
			verdict, err := impersonation.NewChecker(&fakeReviewer{}).MayImpersonate(t.Context(), authenticationv1.UserInfo{Username: username}, email)
			if err != nil {
				t.Fatal(err)
			}
			_, commands, found := strings.Cut(verdict.Message(2000), "have it granted: ")
			if !found {
				t.Fatalf("no commands in %q", verdict.Message(2000))
			}
			printed, err := exec.CommandContext(t.Context(), "sh", "-c", kubectl+commands).CombinedOutput()
			if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(string(printed), "\n"), "\n")); err != nil || diff != "" {
				t.Errorf("%s\nerror %v, arguments (-want +got):\n%s", commands, err, diff)
			}
		}
	}
}

// TestCommandsShowNamesAsTheyAre: a requester may choose a name that a terminal shows as another one.
func TestCommandsShowNamesAsTheyAre(t *testing.T) {
	const inWords = "have it granted: verb impersonate on resource users, by the name of this user in lower case"
	check := func(username, email string) {
		verdict, err := impersonation.NewChecker(&fakeReviewer{}).MayImpersonate(t.Context(), authenticationv1.UserInfo{Username: username}, email)
		if got := verdict.Message(2000); err != nil || !strings.HasSuffix(got, inWords) || strings.ContainsAny(got, "\n\x1b\u202e") {
			t.Errorf("user %q, email %q: %q, %v", username, email, got, err)
		}
	}
	for _, odd := range []string{"a\nb", "a\x1b[2J", "a\u202eb", "a  b", "a ", " a"} {
		check(odd, "tenant@example.com")
		check("alice", odd+"@example.com")
	}
	check("", "tenant@example.com")
	check("alice", "a b@example.com")
	check("alice", "a/b@example.com")
	check("alice", "a%b@example.com")
}
